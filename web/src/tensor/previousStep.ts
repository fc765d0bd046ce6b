/**
 * The step to compare step `now` with: the last kept one before it. A live training is asked for the
 * step before even where none is listed: it keeps weights by itself, and says what else to do.
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
