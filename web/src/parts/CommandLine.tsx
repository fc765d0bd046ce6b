import type { JSX } from "preact";
import { attempt, toast } from "../state/toasts";
import { Icon } from "./Icon";

/** A command line with a button that copies it. */
export function CommandLine({ text }: { readonly text: string }): JSX.Element {
  return (
    <div class="command-line">
      <code>{text}</code>
      <button
        type="button"
        aria-label={`Copy ${text}`}
        title="Copy"
        onClick={() =>
          void attempt(() => navigator.clipboard.writeText(text).then(() => toast("Copied")))
        }
      >
        <Icon name="copy" /> Copy
      </button>
    </div>
  );
}
