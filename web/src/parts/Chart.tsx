import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { drawMarks, type StepMark } from "./stepMarks";
import { lastPlace } from "./chartLines";
import { tickTexts, valueRange } from "./valueRange";
import { brief } from "../text/numbers";
import { isDark } from "../state/preferences";

export const COLOURS = ["one", "two", "three", "four"] as const;

export type Colour = (typeof COLOURS)[number];

/** The colour of a line by its number; there are four. */
export function colourOf(number: number): Colour {
  return COLOURS[number % COLOURS.length] ?? "one";
}

export interface Series {
  readonly label: string;
  readonly colour: Colour;
  /**
   * null for a value that is not finite, undefined for no value, across which the line continues.
   */
  readonly values: readonly (number | null | undefined)[];
  readonly isDashed?: boolean;
  /** Drawn thin and pale, behind a line that matters more. */
  readonly isFaint?: boolean;
  /** The text of the legend for a value that is not finite, such as "nan". */
  readonly words?: readonly (string | null)[];
}

interface ChartProps {
  readonly steps: readonly number[];
  readonly series: readonly Series[];
  /** Steps to mark because of NaN or Inf. */
  readonly bad: readonly number[];
  /** Steps from which on something holds. */
  readonly marks?: readonly StepMark[];
  readonly height: number;
  readonly label: string;
  readonly onStep?: (step: number) => void;
  /** Whether the vertical axis is logarithmic; values that are not positive are not drawn then. */
  readonly isLog?: boolean;
  /** Values above this are cut off. */
  readonly most?: number | undefined;
}

/** Distances between ticks of the axis; steps are whole numbers. */
const WHOLE_STEPS = [1, 2, 5]
  .flatMap((first) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) => first * 10 ** power))
  .sort((a, b) => a - b);

const AXIS_FONT = "11px system-ui";
const AXIS_WIDTH = 64;
/** The ticks and their distance from the texts. */
const AXIS_SPACE = 18;
const MOST_POINTS = 60;
const NO_MARKS: readonly StepMark[] = [];

// uPlot declares a const enum, which a module compiled on its own cannot import.
// eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
const LOGARITHMIC: uPlot.Scale = { distr: 3 };

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Lines over steps, drawn by uPlot; steps with non-finite values have marks at the bottom. */
export function Chart({
  steps,
  series,
  bad,
  marks = NO_MARKS,
  height,
  label,
  onStep,
  isLog = false,
  most,
}: ChartProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const held = useRef<uPlot | null>(null);
  const latest = useRef<Latest>({ steps, series, bad, marks, onStep, most });
  latest.current = { steps, series, bad, marks, onStep, most };
  const drawn = series.map((each) => [each.label, each.colour, each.isDashed ?? false]);
  const looks = JSON.stringify([isDark.value, isLog, height, drawn]);
  useEffect(() => {
    const element = host.current;
    if (element === null) return undefined;
    const plot = new uPlot(
      optionsFor(element, series, height, isLog, latest),
      dataOf(steps, series, isLog),
      element,
    );
    held.current = plot;
    centreOne(plot);
    tellLast(plot);
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: Math.max(element.clientWidth, 80), height }),
    );
    observer.observe(element);
    plot.over.addEventListener("click", () => {
      const at = plot.cursor.idx;
      const step = at == null ? undefined : latest.current.steps[at];
      if (step !== undefined) latest.current.onStep?.(step);
    });
    return () => {
      observer.disconnect();
      plot.destroy();
      held.current = null;
    };
  }, [looks]);
  useEffect(() => {
    const plot = held.current;
    if (
      plot === null ||
      (plot.data[0].length === steps.length && plot.data[0].at(-1) === steps.at(-1))
    )
      return;
    // A part of the curve that the user has zoomed to stays visible while the training runs.
    const { min, max } = plot.scales.x ?? {};
    const isWhole = min === plot.data[0][0] && max === plot.data[0].at(-1);
    plot.setData(dataOf(steps, series, isLog), isWhole || plot.data[0].length < 2);
    centreOne(plot);
    tellLast(plot);
  }, [steps, series]);
  useEffect(() => held.current?.redraw(false), [JSON.stringify(marks)]);
  return <div ref={host} class="chart" role="img" aria-label={label} />;
}

/** What may change while the same chart is shown. */
interface Latest {
  readonly steps: readonly number[];
  readonly series: readonly Series[];
  readonly bad: readonly number[];
  readonly marks: readonly StepMark[];
  readonly onStep: ((step: number) => void) | undefined;
  readonly most: number | undefined;
}

/** Centres a single step. */
function centreOne(plot: uPlot): void {
  const [step, ...others] = plot.data[0];
  if (step !== undefined && others.length === 0)
    plot.setScale("x", { min: step - 0.5, max: step + 0.5 });
}

function rangeOf(
  low: number | null,
  high: number | null,
  most: number | undefined,
): uPlot.Range.MinMax {
  if (low === null || high === null) return [0, 1];
  return valueRange(low, most === undefined ? high : Math.max(low, Math.min(high, most)));
}

/** A value in the legend; for one that is not drawn its text, if there is one. */
function told(
  series: Series | undefined,
  value: number | null | undefined,
  at: number | null,
): string {
  if (value != null) return brief(value);
  if (series === undefined || at === null) return "–";
  const place = lastPlace(series.values, at);
  const last = series.values[place];
  return last == null ? (series.words?.[place] ?? "–") : brief(last);
}

/** Without a pointer the legend shows the last step. */
function tellLast(plot: uPlot): void {
  if (plot.cursor.idx == null) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

function dataOf(
  steps: readonly number[],
  series: readonly Series[],
  isLog: boolean,
): uPlot.AlignedData {
  const drawn = (value: number | null | undefined): number | null | undefined =>
    isLog && value != null && value <= 0 ? null : value;
  return [[...steps], ...series.map((each) => each.values.map(drawn))];
}

/** As wide as the texts of the ticks need; most charts are aligned with each other. */
function axisWidth({ ctx }: uPlot, texts: readonly string[] | null): number {
  ctx.save();
  ctx.font = AXIS_FONT;
  const widths = (texts ?? []).map((each) => ctx.measureText(each).width);
  ctx.restore();
  return Math.max(AXIS_WIDTH, AXIS_SPACE + Math.max(0, ...widths));
}

function optionsFor(
  element: HTMLElement,
  series: readonly Series[],
  height: number,
  isLog: boolean,
  latest: { readonly current: Latest },
): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: colour("--quiet"),
    grid: { stroke: colour("--line-soft"), width: 1 },
    ticks: { stroke: colour("--line-soft"), width: 1 },
    font: AXIS_FONT,
  };
  return {
    width: Math.max(element.clientWidth, 80),
    height,
    scales: {
      x: { time: false },
      y: isLog ? LOGARITHMIC : { range: (_, low, high) => rangeOf(low, high, latest.current.most) },
    },
    legend: { live: true },
    axes: [
      {
        ...axis,
        label: "step",
        labelSize: 16,
        labelFont: "11px system-ui",
        size: 30,
        incrs: WHOLE_STEPS,
      },
      { ...axis, size: axisWidth, values: (_, ticks) => tickTexts(ticks) },
    ],
    series: [
      { label: "step" },
      ...series.map((each) => ({
        label: each.label,
        stroke: colour(`--series-${each.colour}`),
        width: each.isFaint === true ? 0.75 : 1.5,
        alpha: each.isFaint === true ? 0.5 : 1,
        ...(each.isDashed === true ? { dash: [5, 4] } : {}),
        points: { show: (plot: uPlot) => plot.data[0].length < MOST_POINTS },
        spanGaps: false,
        value: (_: uPlot, value: number | null, number: number, at: number | null) =>
          told(latest.current.series[number - 1], value, at),
      })),
    ],
    hooks: {
      draw: [
        (plot) => drawBad(plot, latest.current.bad),
        (plot) => drawMarks(plot, latest.current.marks, colour),
      ],
      setCursor: [tellLast],
    },
  };
}

function drawBad(plot: uPlot, bad: readonly number[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = colour("--bad");
  // Very many adjacent marks look like a bar, so they are lower then.
  const height = bbox.height * (bad.length < MOST_POINTS ? 0.07 : 0.025);
  for (const step of bad) {
    const x = plot.valToPos(step, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.fillRect(x - 1.5, bbox.top, 3, height);
    ctx.fillRect(x - 1.5, bbox.top + bbox.height - height, 3, height);
  }
  ctx.restore();
}
