import type { JSX } from "preact";
import { api } from "../state/api";
import { counted } from "../state/numbers";
import { stepsToKeep } from "../state/preferences";
import { isOver } from "../state/store";
import { attempt, toast } from "../state/toasts";
import { CountField } from "../parts/CountField";

const MOST_STEPS = 1000;

/** Has the values of an op, or of a weight or gradient, kept for so many steps; nothing where none will come. */
export function KeepButton({ run, op }: { readonly run: string; readonly op: string }): JSX.Element | null {
  const steps = stepsToKeep.value;
  if (isOver.value) return null;
  return (
    <span class="keep" title="Keep its values of the last steps, to look at and to compare later">
      <button
        type="button"
        class="small"
        onClick={() =>
          void attempt(async () => {
            await api.keep(run, [op], steps);
            toast(`Its values of the last ${counted(steps, "step")} are kept from now on`);
          })
        }
      >
        keep values
      </button>
      <CountField label="Steps to keep" title="So many steps" class="small" value={steps} least={1} most={MOST_STEPS} onChange={(count) => (stepsToKeep.value = count)} />
    </span>
  );
}
