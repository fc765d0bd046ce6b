import type { StatisticCurve, StatisticPoint } from "../wire";
import type { TensorAt } from "../load/api";
import { toNumber, type WireNumber } from "../text/numbers";

/** A tensor over steps: everything but the step. */
export type CurveAt = Omit<TensorAt, "step">;

/** A tensor as the address names it. */
export function curveKey({ run, rank, op, io, slot }: CurveAt): string {
  return [rank, io, slot, encodeURIComponent(run), op].join(" ");
}

/** The inverse of `curveKey`; null for text that names no tensor. */
export function parseCurveKey(text: string): CurveAt | null {
  const [rank, io, slot, run, ...op] = text.split(" ");
  if (io !== "input" && io !== "output") return null;
  if (run === undefined || op.length === 0) return null;
  const numbers = [Number(rank), Number(slot)];
  if (!numbers.every((each) => Number.isInteger(each) && each >= 0)) return null;
  return {
    run: decodeURIComponent(run),
    rank: numbers[0] ?? 0,
    io,
    slot: numbers[1] ?? 0,
    op: op.join(" "),
  };
}

export interface StatisticChoice {
  readonly id: string;
  readonly label: string;
  readonly of: (point: StatisticPoint) => WireNumber | null;
}

function share(part: number | null, whole: number): number | null {
  return part === null || whole === 0 ? null : (100 * part) / whole;
}

/** The numbers that can be drawn over steps. */
export const STATISTICS: readonly StatisticChoice[] = [
  { id: "max", label: "max", of: ({ statistics: of }) => of.finite_max ?? of.max },
  { id: "mean", label: "mean", of: ({ statistics: of }) => of.avg },
  { id: "min", label: "min", of: ({ statistics: of }) => of.finite_min ?? of.min },
  { id: "norm", label: "L2 norm", of: ({ statistics: of }) => of.l2norm },
  { id: "ratio", label: "update ratio |Δw|/|w|", of: (point) => point.update_ratio },
  { id: "std", label: "std", of: ({ statistics: of }) => of.std },
  { id: "abs", label: "mean |x|", of: ({ statistics: of }) => of.abs_mean },
  {
    id: "zeros",
    label: "zeros, %",
    of: ({ statistics: of }) => share(of.zero_count, of.count),
  },
  {
    id: "bad",
    label: "NaN and Inf",
    of: ({ statistics: of }) =>
      of.zero_count === null && of.avg === null
        ? null
        : of.nan_count + of.positive_inf_count + of.negative_inf_count,
  },
];

export const RANGE = "range";

/** The statistics that at least one point of the curves has. */
export function knownStatistics(curves: readonly StatisticCurve[]): readonly StatisticChoice[] {
  return STATISTICS.filter(({ of }) =>
    curves.some(({ points }) => points.some((point) => of(point) !== null)),
  );
}

/** The steps of all curves, in order. */
export function allSteps(curves: readonly StatisticCurve[]): readonly number[] {
  return [...new Set(curves.flatMap(({ points }) => points.map(({ step }) => step)))].sort(
    (a, b) => a - b,
  );
}

/**
 * One statistic of a curve at `steps`: undefined where it is not known, null where it is not
 * finite.
 */
export function valuesAt(
  curve: StatisticCurve,
  steps: readonly number[],
  { of }: StatisticChoice,
): readonly (number | null | undefined)[] {
  const byStep = new Map(curve.points.map((point) => [point.step, of(point)]));
  return steps.map((step) => {
    const value = byStep.get(step) ?? null;
    if (value === null) return undefined;
    const number = toNumber(value);
    return Number.isFinite(number) ? number : null;
  });
}

/**
 * An exponential moving average with weight `share` on the past, corrected for its start; values
 * that are not there or not finite stay so.
 */
export function smoothed(
  values: readonly (number | null | undefined)[],
  share: number,
): readonly (number | null | undefined)[] {
  if (share === 0) return values;
  let [sum, weight] = [0, 0];
  return values.map((value) => {
    if (value == null) return value;
    sum = share * sum + (1 - share) * value;
    weight = share * weight + (1 - share);
    return sum / weight;
  });
}

/** Steps in which a tensor has values that are not finite. */
export function badSteps(curves: readonly StatisticCurve[]): readonly number[] {
  const isBad = ({ statistics: of }: StatisticPoint): boolean =>
    of.nan_count + of.positive_inf_count + of.negative_inf_count > 0 ||
    (of.l2norm !== null && !Number.isFinite(toNumber(of.l2norm)));
  const found = curves.flatMap(({ points }) => points.filter(isBad).map(({ step }) => step));
  return [...new Set(found)].sort((a, b) => a - b);
}
