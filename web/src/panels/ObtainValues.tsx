import type { JSX } from "preact";
import { api } from "../load/api";
import { stepsToKeep } from "../state/preferences";
import { command, isOver, run } from "../state/store";
import { attempt } from "../state/toasts";

/** Whether the values of an op that has none can still be obtained; a parameter always has some. */
export function canObtainValues(op: string): boolean {
  return run.value?.kind === "live" && !isOver.value && op.includes("/");
}

/** Buttons that obtain the values of an op: run to it, or keep them from the next step. */
export function ObtainValues({ op }: { readonly op: string }): JSX.Element | null {
  const current = run.value;
  if (current === null) return null;
  return (
    <>
      {current.controls.includes("to") && (
        <button type="button" class="small" onClick={() => command({ command: "to", op })}>
          Run to this op
        </button>
      )}{" "}
      <button
        type="button"
        class="small"
        onClick={() => void attempt(() => api.keep(current.id, [op], stepsToKeep.value))}
      >
        Keep from the next step
      </button>
    </>
  );
}
