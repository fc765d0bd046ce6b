import type { JSX } from "preact";
import type { KeptOp } from "../wire";
import { api } from "../load/api";
import { bytesText, counted } from "../text/numbers";
import { stepsToKeep } from "../state/preferences";
import { isOver, rank } from "../state/store";
import { attempt } from "../state/toasts";
import { CountField } from "../parts/CountField";

const MOST_STEPS = 1000;

/** What is kept, in words: "last 2 steps, 3 MB". */
export function keptText({ steps, nbytes }: KeptOp): string {
  const size = nbytes === 0 ? "from the next step" : bytesText(nbytes);
  return `last ${counted(steps, "step")}, ${size}`;
}

/**
 * Keeps the values of ops, weights or gradients, or of all inside a scope, from now on, or stops
 * that; hidden once the training has ended.
 */
export function KeepButton({
  run,
  op,
  ops = [op],
}: {
  readonly run: string;
  readonly op: string;
  /** Several instead of the one. */
  readonly ops?: readonly string[];
}): JSX.Element | null {
  const steps = stepsToKeep.value;
  const kept = rank.value?.kept.find((each) => ops.includes(each.pattern));
  if (isOver.value) return null;
  if (kept !== undefined) {
    return (
      <button
        type="button"
        class="small toggle"
        aria-pressed="true"
        title="Click to keep no more values of this op"
        onClick={() => void attempt(() => api.keep(run, ops, 0))}
      >
        kept: {keptText(kept)}
      </button>
    );
  }
  return (
    <span
      class="keep"
      title="Keep the values of this op for a number of steps, to view and compare them later"
    >
      <button
        type="button"
        class="small"
        onClick={() => void attempt(() => api.keep(run, ops, steps))}
      >
        keep values
      </button>
      <CountField
        label="Steps to keep"
        title="Number of steps"
        class="small"
        value={steps}
        least={1}
        most={MOST_STEPS}
        onChange={(count) => stepsToKeep.set(count)}
      />
    </span>
  );
}
