import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { duration, percent, plainText, value } from "../numbers";
import { Section, Tiles } from "../parts";
import { numbers, Table, type Column } from "../Table";
import { CourseSection, HistoryChart, Legend, SliceCharts } from "./Charts";
import { finished, wantsLog, type Study as StudyData, type Trial } from "./document";
import { dimensions, isWithin, ParallelChart, type Range, type Ranges } from "./Parallel";

const NONE_YET = <p class="quiet">No trial has finished yet.</p>;

/** The page of a search by `sonde tune`. */
export function Study({ data: study }: { readonly data: StudyData }): JSX.Element {
  const done = finished(study);
  const values = done.map((trial) => trial.value);
  const [isLog, setLog] = useState(wantsLog(values));
  const [ranges, setRanges] = useState<Ranges>(new Map());
  const axes = dimensions(study, isLog);
  const within = (trial: Trial): boolean => isWithin(axes, ranges, trial);
  const setRange = (name: string, range: Range | null): void => {
    const next = new Map(ranges);
    if (range === null) next.delete(name);
    else next.set(name, range);
    setRanges(next);
  };
  const charts = { study, isLog, isWithin: within };
  const { tuner, pruner, command } = study.search;
  const about = [
    `${study.goal} ${study.target}`,
    tuner,
    pruner && pruner !== "none" ? `pruner ${pruner}` : "",
    command,
  ].filter(Boolean);
  return (
    <>
      <h1>{study.study}</h1>
      <p class="quiet">{about.join(" · ")}</p>
      <Tiles tiles={tilesOf(study)} />
      <div class="cards">
        <Best study={study} />
        <Diverged study={study} />
        <Section id="history" title="History" note={`best ${study.target} so far`} isHalf>
          {Math.min(...values) > 0 && done.length > 0 && (
            <button
              type="button"
              class="corner"
              aria-pressed={isLog}
              onClick={() => setLog(!isLog)}
            >
              log
            </button>
          )}
          {done.length > 0 ? <HistoryChart {...charts} /> : NONE_YET}
          <Legend study={study} />
        </Section>
        <Importance study={study} />
        <Section
          id="parallel"
          title="Parallel coordinates"
          note={`${done.filter(within).length} of ${done.length} finished trials; drag along an axis to choose a range, click the axis to clear it`}
        >
          {done.length > 0 && study.parameters.length > 0 ? (
            <ParallelChart {...charts} axes={axes} ranges={ranges} setRange={setRange} />
          ) : (
            NONE_YET
          )}
          <div class="legend">yellow is best, violet worst</div>
        </Section>
        <Section
          id="slices"
          title="Slices"
          note={`${study.target} by each parameter; darker is earlier`}
        >
          {done.length > 0 ? <SliceCharts {...charts} /> : NONE_YET}
        </Section>
        <CourseSection {...charts} />
        <Section id="trials" title="Trials" note="click a column to sort">
          <TrialTable
            study={study}
            trials={ranges.size > 0 ? study.trials.filter(within) : study.trials}
          />
        </Section>
      </div>
    </>
  );
}

function tilesOf(study: StudyData): readonly (readonly [string, string])[] {
  const best = study.trials.find((trial) => trial.number === study.best);
  const count = (...states: readonly string[]): string =>
    String(study.trials.filter((trial) => states.includes(trial.state)).length);
  const total = study.trials.reduce((sum, trial) => sum + (trial.seconds ?? 0), 0);
  return [
    [
      best === undefined ? "none" : value(best.value),
      `best ${study.target}${best === undefined ? "" : `, trial ${best.number}`}`,
    ],
    [String(finished(study).length), "finished"],
    [count("pruned"), "pruned"],
    [count("diverged"), "diverged"],
    [count("failed", "timeout"), "failed"],
    [duration(total), "in trials"],
  ];
}

function Best({ study }: { readonly study: StudyData }): JSX.Element | null {
  const [isCopied, setCopied] = useState(false);
  const best = study.trials.find((trial) => trial.number === study.best);
  if (best === undefined) return null;
  // A browser may give a page opened from a file no clipboard.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  return (
    <Section
      id="best"
      title={`Best: trial ${best.number}`}
      note={`${study.target} ${value(best.value)}`}
    >
      <div class="legend">
        {Object.entries(best.parameters).map(([name, given]) => (
          <span key={name}>
            {name} <b>{value(given)}</b>
          </span>
        ))}
      </div>
      {best.command && (
        <div class="command">
          <pre>{best.command}</pre>
          {clipboard !== undefined && (
            <button
              type="button"
              onClick={() => void clipboard.writeText(best.command).then(() => setCopied(true))}
            >
              {isCopied ? "copied" : "copy"}
            </button>
          )}
        </div>
      )}
    </Section>
  );
}

function Diverged({ study }: { readonly study: StudyData }): JSX.Element | null {
  const groups = new Map<string, Trial[]>();
  for (const trial of study.trials) {
    if (trial.origin === null) continue;
    const key = `${trial.origin.op} ${trial.origin.file} ${trial.origin.line}`;
    groups.set(key, [...(groups.get(key) ?? []), trial]);
  }
  if (groups.size === 0) return null;
  return (
    <Section id="diverged" title="Why trials diverged" note="the op that made the first NaN or Inf">
      {[...groups].map(([key, trials]) => {
        const origin = trials[0]?.origin;
        const rest = trials.length - 12;
        const list = trials.slice(0, 12).map((trial) => trial.number);
        return (
          <div key={key}>
            <code>{origin?.op}</code>
            <div class="quiet">
              {origin?.file ? `${origin.file}:${origin.line}` : "no line of your code"} · trials{" "}
              {list.join(", ")}
              {rest > 0 ? ` and ${rest} more` : ""}
            </div>
            {origin?.code && <pre>{origin.code.trim()}</pre>}
          </div>
        );
      })}
    </Section>
  );
}

function Importance({ study }: { readonly study: StudyData }): JSX.Element {
  return (
    <Section
      id="importance"
      title="Importance"
      note={`share in the differences of ${study.target}`}
      isHalf
    >
      {study.importance.length === 0 && (
        <p class="quiet">Known after four finished trials that differ.</p>
      )}
      {study.importance.map(([name, share]) => (
        <div key={name} class="importance">
          <b title={name}>{name}</b>
          <meter value={share} min={0} max={1} />
          <span>{percent(share)}</span>
        </div>
      ))}
    </Section>
  );
}

function TrialTable({
  study,
  trials,
}: {
  readonly study: StudyData;
  readonly trials: readonly Trial[];
}): JSX.Element {
  const columns: readonly Column<Trial>[] = [
    numbers("trial", (trial) => trial.number, String),
    {
      name: "state",
      value: (trial) => trial.state,
      show: (trial) => <span class={`state ${trial.state}`}>{trial.state}</span>,
    },
    numbers(study.target, (trial) => trial.value, value),
    ...study.parameters.map(({ name }): Column<Trial> => {
      const given = (trial: Trial): unknown => trial.parameters[name];
      return {
        name,
        isNumber: true,
        value: (trial) => {
          const found = given(trial);
          return typeof found === "number" || found === undefined ? found : plainText(found);
        },
        show: (trial) => value(given(trial)),
      };
    }),
    numbers("time", (trial) => trial.seconds, duration),
    { name: "why", value: (trial) => trial.reason, look: "wrap" },
  ];
  return (
    <Table
      rows={trials}
      columns={columns}
      most={10_000}
      rowClass={(trial) => (trial.number === study.best ? "best" : "")}
    />
  );
}
