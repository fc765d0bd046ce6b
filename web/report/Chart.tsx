import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { drawMarks, markAt, resolved, type Box, type Dot, type Rule } from "./marks";
import { powersOfTen, value as valueText } from "./numbers";
import { hideTip, showTip } from "./tip";

export interface Axis {
  readonly low: number;
  readonly high: number;
  readonly isLog?: boolean;
  readonly label?: string;
  readonly isWhole?: boolean;
  /** The text of a tick. */
  readonly text?: (value: number) => string;
  /** Where the ticks are; chosen by uPlot if not given. */
  readonly ticks?: readonly number[];
  /** Room for the texts, in pixels; 0 hides the axis. */
  readonly size?: number;
}

export interface Line {
  readonly x: readonly number[];
  /** null interrupts the line. */
  readonly y: readonly (number | null)[];
  /** What the legend says where the line is interrupted. */
  readonly gap?: (x: number) => string;
  readonly color: string;
  readonly label?: string;
  readonly width?: number;
  readonly opacity?: number;
  readonly isDashed?: boolean;
  readonly isStepped?: boolean;
  /** The text shown while the pointer is near the line. */
  readonly tip?: string;
}

export interface ChartProps {
  readonly label: string;
  readonly height: number;
  readonly x: Axis;
  readonly y: Axis;
  readonly lines?: readonly Line[];
  readonly dots?: readonly Dot[];
  readonly boxes?: readonly Box[];
  readonly rules?: readonly Rule[];
  readonly hasLegend?: boolean;
  /** "select": drag a range to enlarge it, double-click to return. "wheel": wheel and drag. */
  readonly zoom?: "none" | "select" | "wheel";
  /** Called with every new plot, to draw or listen to more than this component knows. */
  readonly extend?: (plot: uPlot) => void;
}

const WHOLE = [1, 2, 5]
  .flatMap((first) => [...Array(9).keys()].map((power) => first * 10 ** power))
  .sort((a, b) => a - b);

/** Lines, dots and boxes over two axes, drawn by uPlot. Drawn anew whenever its parent renders. */
export function Chart(props: ChartProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (element === null) return undefined;
    const width = (): number => Math.max(element.clientWidth, 80);
    const plot = new uPlot(optionsOf(props, width()), dataOf(props), element);
    listen(plot, props);
    if (props.zoom === "wheel") zoomByWheel(plot, props.x);
    props.extend?.(plot);
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: width(), height: props.height }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  });
  return <div ref={host} class="chart" role="img" aria-label={props.label} />;
}

/** The lines over one list of x values; the first, hidden series keeps the ends of the axis. */
function dataOf({ x, lines = [] }: ChartProps): uPlot.AlignedData {
  const ends: uPlot.AlignedData = [
    [x.low, x.high],
    [null, null],
  ];
  return uPlot.join([ends, ...lines.map((line): uPlot.AlignedData => [[...line.x], [...line.y]])]);
}

function axisOf(axis: Axis, size: number): uPlot.Axis {
  const line = { stroke: resolved("--line-soft"), width: 1 };
  const ticks = axis.ticks ?? (axis.isLog === true ? powersOfTen(axis.low, axis.high) : undefined);
  return {
    show: axis.size !== 0,
    stroke: resolved("--quiet"),
    grid: line,
    ticks: line,
    font: "11px system-ui",
    size: axis.size ?? size,
    ...(axis.label === undefined
      ? {}
      : { label: axis.label, labelSize: 16, labelFont: "11px system-ui" }),
    ...(ticks === undefined
      ? {}
      : { splits: () => [...ticks], filter: (_: uPlot, splits: number[]) => splits }),
    ...(axis.isWhole === true ? { incrs: WHOLE } : {}),
    values: (_, ticks) =>
      ticks.map((each: number | null) => (each === null ? "" : (axis.text ?? valueText)(each))),
  };
}

function scaleOf({ low, high, isLog }: Axis): uPlot.Scale {
  return {
    time: false,
    // uPlot.Scale.Distr is a const enum, whose names do not exist at run time.
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
    distr: isLog === true ? 3 : 1,
    range: (_, least: number | null, most: number | null) => [least ?? low, most ?? high],
  };
}

function optionsOf(props: ChartProps, width: number): uPlot.Options {
  const { x, y, lines = [], zoom = "none" } = props;
  return {
    width,
    height: props.height,
    padding: [8, 20, x.size === 0 ? 4 : 0, y.size === 0 ? 20 : 0],
    scales: { x: scaleOf(x), y: { ...scaleOf(y), range: [y.low, y.high] } },
    axes: [{ ...axisOf(x, 26) }, axisOf(y, 58)],
    legend: { show: props.hasLegend === true },
    cursor: {
      x: props.hasLegend === true,
      y: false,
      points: { show: props.hasLegend === true },
      drag: { x: zoom === "select", y: false },
      dataIdx: (plot, series, index) =>
        props.hasLegend === true ? nearestPoint(plot.data[series] ?? [], index) : index,
    },
    series: [
      { label: x.label ?? "", value: (_, each) => valueText(each) },
      { show: false, class: "ends" },
      ...lines.map(seriesOf),
    ],
    hooks: { draw: [(plot) => drawMarks(plot, props)] },
  };
}

/**
 * The place nearest to `index` at which a line has a point. A gap (null) is one: only places that
 * other lines have and this one has not (undefined) are left out.
 */
export function nearestPoint(values: ArrayLike<number | null | undefined>, index: number): number {
  for (let away = 0; away < 4; away += 1) {
    for (const place of [index - away, index + away]) if (values[place] !== undefined) return place;
  }
  return index;
}

function seriesOf(line: Line): uPlot.Series {
  return {
    label: line.label ?? "",
    stroke: resolved(line.color),
    width: line.width ?? 1.5,
    alpha: line.opacity ?? 1,
    points: { show: line.x.length < 2 },
    value: (plot, each: number | null, _, index) =>
      legendText(line, each, plot.data[0][index ?? -1]),
    ...(line.isDashed === true ? { dash: [6, 4] } : {}),
    ...(line.isStepped === true && uPlot.paths.stepped !== undefined
      ? { paths: uPlot.paths.stepped({ align: 1 }) }
      : {}),
  };
}

/** What the legend says of a line at the place `x`: its value, or why it has none. */
export function legendText(line: Line, each: number | null, x: number | undefined): string {
  if (each !== null) return valueText(each);
  return x === undefined ? "–" : (line.gap?.(x) ?? "–");
}

function listen(plot: uPlot, props: ChartProps): void {
  plot.over.addEventListener("mousemove", (event) => {
    const mark = markAt(plot, props, event.offsetX, event.offsetY);
    const text = mark?.tip ?? lineAt(plot, props.lines ?? [], event.offsetX, event.offsetY)?.tip;
    plot.over.style.cursor = mark?.onClick === undefined ? "" : "pointer";
    if (text === undefined) hideTip();
    else showTip(event, text);
  });
  plot.over.addEventListener("mouseleave", hideTip);
  plot.over.addEventListener("click", (event) =>
    markAt(plot, props, event.offsetX, event.offsetY)?.onClick?.(),
  );
}

/** The line with a tip that passes nearest to a place, at most 7 pixels away. */
export function lineAt<Given extends Line>(
  plot: uPlot,
  lines: readonly Given[],
  left: number,
  top: number,
): Given | undefined {
  const at = plot.posToVal(left, "x");
  let nearest: Given | undefined;
  let least = 7;
  for (const line of lines) {
    const next = line.x.findIndex((each) => each >= at);
    const [after, before] = [line.y[next], line.y[Math.max(next - 1, 0)]];
    if (line.tip === undefined || next < 0 || after == null || before == null) continue;
    const [from, to] = [plot.valToPos(before, "y"), plot.valToPos(after, "y")];
    const [x0, x1] = [line.x[Math.max(next - 1, 0)] ?? at, line.x[next] ?? at];
    const away = Math.abs((x1 === x0 ? to : from + ((at - x0) / (x1 - x0)) * (to - from)) - top);
    if (away < least) [nearest, least] = [line, away];
  }
  return nearest;
}

function zoomByWheel(plot: uPlot, { low, high }: Axis): void {
  const show = (from: number, span: number): void => {
    const min = Math.max(low, Math.min(high - span, from));
    plot.setScale("x", { min, max: min + span });
  };
  const shown = (): [number, number] => [plot.scales.x?.min ?? low, plot.scales.x?.max ?? high];
  plot.over.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [min, max] = shown();
    const share = event.offsetX / plot.over.clientWidth;
    const span = Math.min(
      high - low,
      Math.max((high - low) / 1e5, (max - min) * (event.deltaY > 0 ? 1.25 : 0.8)),
    );
    show(min + share * (max - min - span), span);
  });
  plot.over.addEventListener("pointerdown", (down) => {
    const [min, max] = shown();
    const move = (event: PointerEvent): void =>
      show(min + ((down.clientX - event.clientX) / plot.over.clientWidth) * (max - min), max - min);
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", () => window.removeEventListener("pointermove", move), {
      once: true,
    });
  });
}
