import type { JSX } from "preact";
import { api } from "../load/api";
import { counted } from "../text/numbers";
import { stepsToKeep } from "../state/preferences";
import { isOver } from "../state/store";
import { attempt, toast } from "../state/toasts";
import { CountField } from "../parts/CountField";

const MOST_STEPS = 1000;

/**
 * Keeps the values of an op, weight or gradient from now on; hidden once the training has ended.
 */
export function KeepButton({
  run,
  op,
}: {
  readonly run: string;
  readonly op: string;
}): JSX.Element | null {
  const steps = stepsToKeep.value;
  if (isOver.value) return null;
  return (
    <span
      class="keep"
      title="Keep the values of this op for a number of steps, to view and compare them later"
    >
      <button
        type="button"
        class="small"
        onClick={() =>
          void attempt(async () => {
            await api.keep(run, [op], steps);
            toast(`From now on the values of the last ${counted(steps, "step")} are kept`);
          })
        }
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
