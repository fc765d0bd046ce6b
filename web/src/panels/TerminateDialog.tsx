import type { JSX } from "preact";
import { command } from "../state/store";
import { Dialog } from "../parts/Dialog";
import { closeDialog } from "./dialogs";

/** Confirms before a training is terminated. */
export function TerminateDialog(): JSX.Element {
  const close = (): void => {
    closeDialog();
  };
  return (
    <Dialog title="End the training?" onClose={close}>
      <p>
        Sonde raises an exception in the training, so its cleanup code and checkpoint callbacks run.
        The training cannot be continued.
      </p>
      <footer>
        <button type="button" data-first onClick={close}>
          {" "}
          Cancel{" "}
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
