/**
 * The step to compare step `now` with: the last one before it that is kept. If none is listed, it
 * is the step before `now` of a live training: that keeps weights by itself, or answers what to do.
 */
export function previousStep(
  steps: readonly number[],
  now: number | null,
  isLive: boolean,
): number | null {
  const shown = now ?? Math.max(...steps, -1);
  const earlier = steps.filter((each) => each < shown);
  if (earlier.length > 0) return Math.max(...earlier);
  return isLive && shown > 0 ? shown - 1 : null;
}
