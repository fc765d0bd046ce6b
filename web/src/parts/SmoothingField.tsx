import type { JSX } from "preact";
import { smoothing } from "../state/preferences";

/** How much the lines of charts over steps are smoothed. */
export function SmoothingField(): JSX.Element {
  return (
    <label class="check" title="Weight of the past in a moving average; 0 draws the values">
      smoothing
      <input
        type="range"
        min="0"
        max="0.99"
        step="0.01"
        aria-label="Smoothing"
        value={smoothing.value}
        onInput={(event) => smoothing.set(Math.min(Number(event.currentTarget.value), 0.99))}
      />
      <span class="quiet number">{smoothing.value.toFixed(2)}</span>
    </label>
  );
}
