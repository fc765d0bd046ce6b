const PEAK = 6;
// What one step in ten takes is no exception: the slower of two optimizers, say.
const USUAL = 0.9;
const ROOM = 1.2;

/** Where to cut so that one slow step, the first above all, does not press all others flat; undefined: nowhere. */
export function outlierLimit(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const usual = sorted[Math.floor((sorted.length - 1) * USUAL)] ?? 0;
  const limit = Math.max(PEAK * (sorted[Math.floor(sorted.length / 2)] ?? 0), ROOM * usual);
  return (sorted.at(-1) ?? 0) > limit ? limit : undefined;
}
