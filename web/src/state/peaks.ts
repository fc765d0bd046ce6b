const PEAK = 6;

/** Where to cut so that one slow step, the first above all, does not press all others flat; undefined: nowhere. */
export function peakFree(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const limit = PEAK * (sorted[Math.floor(sorted.length / 2)] ?? 0);
  return (sorted.at(-1) ?? 0) > limit ? limit : undefined;
}
