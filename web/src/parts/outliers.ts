const PEAK = 6;
// A duration of every tenth step is not an outlier: it may be the slower of two optimizers.
const USUAL = 0.9;
const ROOM = 1.2;

/**
 * The upper limit of the axis, so that one slow step, usually the first, does not flatten the
 * curve; undefined: no limit.
 */
export function outlierLimit(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const usual = sorted[Math.floor((sorted.length - 1) * USUAL)] ?? 0;
  const limit = Math.max(PEAK * (sorted[Math.floor(sorted.length / 2)] ?? 0), ROOM * usual);
  return (sorted.at(-1) ?? 0) > limit ? limit : undefined;
}
