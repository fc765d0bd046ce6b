import type { JSX } from "preact";
import { command } from "../state/store";
import { Dialog } from "../parts/Dialog";
import { dialog } from "./dialogs";

/** Asks before a training is ended. */
export function TerminateDialog(): JSX.Element {
  const close = (): void => {
    dialog.value = null;
  };
  return (
    <Dialog title="End the training?" onClose={close}>
      <p>The training ends through an exception, so that its own cleaning up and its checkpoint callbacks run. It cannot be continued.</p>
      <footer>
        <button type="button" data-first onClick={close}>
          Keep it
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            command({ command: "terminate" });
            close();
          }}
        >
          Terminate
        </button>
      </footer>
    </Dialog>
  );
}
