import type { JSX } from "preact";
import { Chart, type Line } from "../Chart";
import type { Dot } from "../marks";
import { extent } from "../numbers";
import { Section } from "../parts";
import {
  axisAround,
  described,
  finished,
  isBad,
  onAxis,
  parameterAxis,
  rampColor,
  stateColor,
  wantsLog,
  type Study,
  type Trial,
} from "./document";

export interface StudyProps {
  readonly study: Study;
  readonly isLog: boolean;
  /** Whether the ranges chosen in the parallel coordinates hold this trial. */
  readonly isWithin: (trial: Trial) => boolean;
}

export function Legend({ study }: { readonly study: Study }): JSX.Element {
  return (
    <div class="legend">
      {[...new Set(study.trials.map((trial) => trial.state))].map((state) => (
        <span key={state} class={`state ${state}`}>
          {state}
        </span>
      ))}
    </div>
  );
}

function dotOf(study: Study, trial: Trial, x: number, y: number, radius: number): Dot {
  const isBest = trial.number === study.best;
  return {
    x,
    y,
    radius: isBest ? radius + 2 : radius,
    color: isBest ? "--good" : stateColor(trial.state),
    outline: isBest ? "--strong" : "--surface",
    tip: described(study, trial),
  };
}

/** The value of every trial, and the best so far as a line. */
export function HistoryChart({ study, isLog }: StudyProps): JSX.Element {
  const done = finished(study);
  const last = Math.max(1, extent(study.trials.map((trial) => trial.number))[1]);
  const y = axisAround(
    done.map((trial) => trial.value),
    isLog,
  );
  const best: number[] = [];
  for (const { value } of done) {
    const before = best.at(-1) ?? value;
    best.push(study.goal === "maximize" ? Math.max(before, value) : Math.min(before, value));
  }
  const dots: Dot[] = [];
  for (const trial of study.trials) {
    if (trial.value !== null) continue;
    const at = trial.course.at(-1)?.[1];
    if (isBad(trial))
      dots.push({
        x: trial.number,
        y: y.high,
        radius: 4,
        color: "--bad",
        isCross: true,
        tip: described(study, trial),
      });
    else if (trial.state === "pruned" && at !== undefined && (!isLog || at > 0))
      dots.push(dotOf(study, trial, trial.number, Math.min(y.high, Math.max(y.low, at)), 3));
  }
  const radius = done.length > 300 ? 3 : 4;
  // The best trial last: on top of the others.
  const ordered = [...done].sort(
    (one, other) => Number(one.number === study.best) - Number(other.number === study.best),
  );
  dots.push(...ordered.map((trial) => dotOf(study, trial, trial.number, trial.value, radius)));
  const line: Line = {
    x: [...done.map((trial) => trial.number), last + 0.5],
    y: [...best, best.at(-1) ?? null],
    color: "--accent",
    width: 2,
    isStepped: true,
  };
  return (
    <Chart
      label="values of the trials in their order"
      height={320}
      x={{ low: -0.5, high: last + 0.5, isWhole: true, label: "trial" }}
      y={y}
      lines={[line]}
      dots={dots}
      zoom="select"
    />
  );
}

/** The value by each parameter, one small chart each. */
export function SliceCharts({ study, isLog, isWithin }: StudyProps): JSX.Element {
  const done = finished(study);
  const shown = done
    .filter(isWithin)
    .sort((one, other) => Number(one.number === study.best) - Number(other.number === study.best));
  const last = Math.max(1, extent(done.map((trial) => trial.number))[1]);
  const y = axisAround(
    done.map((trial) => trial.value),
    isLog,
  );
  return (
    <div class="slices">
      {study.parameters.map((parameter) => {
        const dots = shown.flatMap((trial): readonly Dot[] => {
          const x = onAxis(parameter, trial);
          if (x === undefined) return [];
          const dot = dotOf(study, trial, x, trial.value, 3.5);
          return [
            trial.number === study.best
              ? dot
              : { ...dot, color: rampColor(0.15 + 0.75 * (trial.number / last)) },
          ];
        });
        return (
          <div key={parameter.name}>
            <b>{parameter.name}</b>
            <Chart
              label={`${study.target} by ${parameter.name}`}
              height={210}
              x={parameterAxis(parameter)}
              y={{ ...y, size: 58 }}
              dots={dots}
            />
          </div>
        );
      })}
    </div>
  );
}

/** What the trials reported while they ran. */
export function CourseSection({ study, isLog }: StudyProps): JSX.Element | null {
  const reporting = study.trials.filter((trial) => trial.course.length > 1);
  if (reporting.length === 0) return null;
  const usable = reporting.filter((trial) => !isBad(trial));
  const values = (usable.length > 0 ? usable : reporting).flatMap((trial) =>
    trial.course.map(([, value]) => value),
  );
  const [least] = extent(reporting.flatMap((trial) => trial.course.map(([, value]) => value)));
  const [first, last] = extent(reporting.flatMap((trial) => trial.course.map(([step]) => step)));
  const ordered = [...reporting].sort(
    (one, other) => Number(one.number === study.best) - Number(other.number === study.best),
  );
  const lines = ordered.map((trial): Line => {
    const isBest = trial.number === study.best;
    return {
      x: trial.course.map(([step]) => step),
      y: trial.course.map(([, value]) => value),
      color: isBest ? "--good" : stateColor(trial.state),
      width: isBest ? 3 : 1.3,
      opacity: isBest ? 1 : Math.max(0.06, Math.min(0.45, 25 / reporting.length)),
      tip: described(study, trial),
    };
  });
  return (
    <Section id="courses" title="Courses" note={`${study.target} while the trials ran`}>
      <Chart
        label="live values of the trials"
        height={280}
        x={{ low: first, high: first === last ? first + 1 : last, isWhole: true, label: "step" }}
        y={axisAround(values, (isLog || wantsLog(values)) && least > 0)}
        lines={lines}
        zoom="select"
      />
      <Legend study={study} />
    </Section>
  );
}
