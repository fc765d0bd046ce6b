/** The last kept step before the one on the screen; `step` null is the latest. */
export function previousStep(steps: readonly number[], step: number | null): number | null {
  const now = step ?? Math.max(...steps, -1);
  const earlier = steps.filter((each) => each < now);
  return earlier.length === 0 ? null : Math.max(...earlier);
}
