import type { JSX } from "preact";
import { command, run } from "../state/store";
import { Dialog } from "../parts/Dialog";
import { closeDialog } from "./dialogs";
import { FIRST_PRESETS, noteAsked, watchFor } from "./Presets";

/** Asked before a training that nothing watches continues. */
export function UnwatchedDialog(): JSX.Element {
  const id = run.value?.id ?? "";
  const go = (): void => {
    noteAsked(id);
    closeDialog();
    command({ command: "continue" });
  };
  return (
    <Dialog title="Nothing is watched" onClose={closeDialog}>
      <p>
        The training would run to its end without a stop, even if its values become NaN. Watch it
        first?
      </p>
      <footer>
        <button type="button" onClick={closeDialog}>
          Cancel
        </button>
        <button type="button" onClick={go}>
          Continue unwatched
        </button>
        <button
          type="button"
          class="primary"
          data-first
          onClick={() => void watchFor(id, FIRST_PRESETS).then((isDone) => isDone && go())}
        >
          Watch for NaN, Inf and dead layers
        </button>
      </footer>
    </Dialog>
  );
}
