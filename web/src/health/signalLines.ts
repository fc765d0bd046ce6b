import { COLOURS, colourOf, type Series } from "../parts/Chart";
import { smoothed } from "../tensor/curves";
import { brief, toNumber } from "../text/numbers";
import type { SignalCurve } from "../wire";

/** A curve of one run; `name` is that of the run, empty for the one on the screen. */
export interface RunCurve {
  readonly name: string;
  readonly curve: SignalCurve;
}

export interface SignalLines {
  readonly steps: readonly number[];
  readonly series: readonly Series[];
  /** Steps in which the run on the screen has a value that is not finite. */
  readonly bad: readonly number[];
}

type Values = readonly (number | null | undefined)[];

/** The lines of one signal: of every run the values and, with smoothing, a smoothed line. */
export function signalLines(
  title: string,
  curves: readonly RunCurve[],
  smoothing: number,
): SignalLines {
  const steps = [...new Set(curves.flatMap(({ curve }) => curve.steps))].sort((a, b) => a - b);
  const series: Series[] = [];
  const bad: number[] = [];
  curves.forEach(({ name, curve }, number) => {
    const places = new Map(curve.steps.map((step, at) => [step, at]));
    const spread = (of: SignalCurve["values"]): Values =>
      steps.map((step) => {
        const value = of[places.get(step) ?? -1];
        if (value == null) return undefined;
        const found = toNumber(value);
        return Number.isFinite(found) ? found : null;
      });
    const values = spread(curve.values);
    const words = steps.map((step) => {
      const value = curve.values[places.get(step) ?? -1];
      return typeof value === "string" ? brief(value) : null;
    });
    const whose = [name, curve.optimizer].filter((each) => each !== "").join(", ");
    const label = whose === "" ? title : whose;
    const isDashed = number >= COLOURS.length;
    const colour = colourOf(number);
    if (name === "") steps.forEach((step, at) => values[at] === null && bad.push(step));
    if (smoothing > 0) {
      series.push({ label, colour, values, words, isDashed, isFaint: true });
      series.push({ label: "smoothed", colour, values: smoothed(values, smoothing), isDashed });
    } else series.push({ label, colour, values, words, isDashed });
    if (curve.low.length > 0) {
      series.push({ label: "least", colour, values: spread(curve.low), isFaint: true });
      series.push({ label: "greatest", colour, values: spread(curve.high), isFaint: true });
    }
  });
  return { steps, series, bad };
}
