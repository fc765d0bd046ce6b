import type { JSX } from "preact";
import type uPlot from "uplot";
import { Chart, type Axis, type Line } from "../Chart";
import { resolved } from "../marks";
import { powersOfTen, shortened, value as valueText } from "../numbers";
import type { StudyProps } from "./Charts";
import {
  axisAround,
  described,
  finished,
  onAxis,
  parameterAxis,
  rampColor,
  type Study,
  type Trial,
} from "./document";

/** A range of one axis, as shares of its length. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

export type Ranges = ReadonlyMap<string, Range>;

interface Dimension {
  readonly name: string;
  readonly axis: Axis;
  /** Where a trial crosses the axis: 0 at its foot, 1 at its top. */
  readonly share: (trial: Trial) => number | undefined;
  /** Whether a trial has no value of it: such trials cross the axis below its foot, at "none". */
  readonly hasNone: boolean;
}

const NONE = -0.09;

function shareOn({ low, high, isLog }: Axis, value: number): number {
  const place = isLog === true ? Math.log : (each: number): number => each;
  return (place(value) - place(low)) / (place(high) - place(low) || 1);
}

/** The axes: the parameters, and the target last. */
export function dimensions(study: Study, isLog: boolean): readonly Dimension[] {
  const target = axisAround(
    finished(study).map((trial) => trial.value),
    isLog,
  );
  const of = (name: string, axis: Axis, at: (trial: Trial) => number | undefined): Dimension => ({
    name,
    axis,
    share: (trial) => {
      const value = at(trial);
      return value === undefined ? undefined : shareOn(axis, value);
    },
    hasNone: finished(study).some((trial) => at(trial) === undefined),
  });
  return [
    ...study.parameters.map((parameter) =>
      of(parameter.name, parameterAxis(parameter), (trial) => onAxis(parameter, trial)),
    ),
    of(study.target, target, (trial) => trial.value ?? undefined),
  ];
}

export function isWithin(axes: readonly Dimension[], ranges: Ranges, trial: Trial): boolean {
  return axes.every(({ name, share }) => {
    const range = ranges.get(name);
    const at = share(trial);
    return (
      range === undefined ||
      (at !== undefined && at >= range.low - 0.002 && at <= range.high + 0.002)
    );
  });
}

function ticksOf({ low, high, isLog, ticks }: Axis): readonly number[] {
  if (ticks !== undefined) return ticks;
  if (isLog === true) return powersOfTen(low, high);
  const step =
    [1, 2, 5, 10]
      .map((each) => each * 10 ** Math.floor(Math.log10((high - low) / 6)))
      .find((each) => each >= (high - low) / 7) ?? 1;
  const first = Math.ceil(low / step);
  return [...Array(Math.floor(high / step + 1e-9) - first + 1).keys()].map((each) =>
    Number(((first + each) * step).toPrecision(12)),
  );
}

interface ParallelProps extends StudyProps {
  readonly axes: readonly Dimension[];
  readonly ranges: Ranges;
  readonly setRange: (name: string, range: Range | null) => void;
}

/** Every finished trial as a line through its parameters; a drag along an axis chooses a range. */
export function ParallelChart({
  study,
  isWithin: isIn,
  axes,
  ranges,
  setRange,
}: ParallelProps): JSX.Element {
  const sign = study.goal === "maximize" ? -1 : 1;
  const ranked = [...finished(study)].sort((one, other) => sign * (other.value - one.value));
  const shown = ranked.filter(isIn).length;
  const lines = ranked.map((trial, rank): Line => {
    const isOn = isIn(trial);
    return {
      x: axes.map((_, place) => place),
      y: axes.map(({ share }) => share(trial) ?? NONE),
      color: rampColor(ranked.length > 1 ? rank / (ranked.length - 1) : 1),
      width: 1.3,
      opacity: isOn ? Math.max(0.25, Math.min(0.75, 120 / shown)) : 0.05,
      ...(isOn ? { tip: described(study, trial) } : {}),
    };
  });
  const extend = (plot: uPlot): void => {
    (plot.hooks.draw ??= []).push(() => drawAxes(plot, axes, ranges));
    plot.over.addEventListener("pointerdown", (event) => chooseRange(plot, event, axes, setRange));
  };
  const last = Math.max(axes.length - 1, 1);
  return (
    <Chart
      label="every finished trial as a line through its parameters"
      height={340}
      x={{ low: -0.12 * last, high: last * 1.12, ticks: [], size: 0 }}
      y={{ low: axes.some(({ hasNone }) => hasNone) ? -0.14 : -0.05, high: 1.14, size: 0 }}
      lines={lines}
      extend={extend}
    />
  );
}

function drawAxes(plot: uPlot, axes: readonly Dimension[], ranges: Ranges): void {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  const y = (share: number): number => plot.valToPos(share, "y", true);
  ctx.save();
  ctx.textBaseline = "middle";
  axes.forEach(({ name, axis, hasNone }, place) => {
    const x = plot.valToPos(place, "x", true);
    ctx.fillStyle = resolved("--quiet");
    ctx.fillRect(x, y(1), ratio, y(0) - y(1));
    ctx.font = `600 ${11 * ratio}px system-ui`;
    ctx.textAlign = "center";
    ctx.fillStyle = resolved("--text");
    ctx.fillText(shortened(name, 18), x, y(1) - 16 * ratio);
    ctx.font = `${11 * ratio}px system-ui`;
    ctx.textAlign = "left";
    for (const tick of ticksOf(axis)) {
      const text = shortened((axis.text ?? valueText)(tick), 14);
      const at = y(shareOn(axis, tick));
      ctx.strokeStyle = resolved("--surface");
      ctx.lineWidth = 5 * ratio;
      ctx.strokeText(text, x + 6 * ratio, at);
      ctx.fillStyle = resolved("--quiet");
      ctx.fillText(text, x + 6 * ratio, at);
      ctx.fillRect(x - 3 * ratio, at, 6 * ratio, ratio);
    }
    if (hasNone) {
      ctx.fillStyle = resolved("--quiet");
      ctx.fillText("none", x + 6 * ratio, y(NONE));
      ctx.fillRect(x - 3 * ratio, y(NONE), 6 * ratio, ratio);
    }
    const range = ranges.get(name);
    if (range === undefined) return;
    ctx.globalAlpha = 0.25;
    ctx.fillStyle = resolved("--accent");
    ctx.fillRect(x - 8 * ratio, y(range.high), 16 * ratio, y(range.low) - y(range.high));
    ctx.globalAlpha = 1;
  });
  ctx.restore();
}

function chooseRange(
  plot: uPlot,
  down: PointerEvent,
  axes: readonly Dimension[],
  setRange: ParallelProps["setRange"],
): void {
  const place = Math.round(plot.posToVal(down.offsetX, "x"));
  const axis = axes[place];
  if (axis === undefined || Math.abs(plot.valToPos(place, "x") - down.offsetX) > 14) return;
  const top = plot.over.getBoundingClientRect().top;
  const share = (event: PointerEvent): number =>
    Math.min(1, Math.max(0, plot.posToVal(event.clientY - top, "y")));
  const end = (event: PointerEvent): void => {
    const [low, high] = [share(down), share(event)].sort((one, other) => one - other) as [
      number,
      number,
    ];
    setRange(axis.name, high - low < 0.012 ? null : { low, high });
  };
  window.addEventListener("pointerup", end, { once: true });
}
