import type { JSX } from "preact";
import { rankListener, go, place, runs } from "../state/store";
import { START } from "../state/place";
import { attempt, toast } from "../state/toasts";
import { Icon } from "../parts/Icon";

/** Shown while the server has no run, or not the one the address names. */
export function Welcome({ isLoaded }: { readonly isLoaded: boolean }): JSX.Element {
  const { port, fingerprint } = rankListener.value;
  const isMissing = place.value.run !== "" && runs.value.length > 0;
  const connecting = [
    `SONDE_DEBUGGER_HOST=${location.hostname.replace(/^\[|\]$/g, "")}`,
    `SONDE_DEBUGGER_PORT=${port ?? ""}`,
    ...(fingerprint === "" ? [] : [`SONDE_DEBUGGER_FINGERPRINT=${fingerprint}`]),
    "sonde run train.py",
  ].join(" ");
  return (
    <main class="welcome">
      <h1>{!isLoaded ? "Connecting…" : isMissing ? "Run not found" : "Waiting for a training"}</h1>
      {isLoaded && isMissing && (
        <p>
          The server has no run “{place.value.run}”.{" "}
          <button type="button" onClick={() => go(START)}>
            Show all runs
          </button>
        </p>
      )}
      {isLoaded && !isMissing && (
        <>
          {port !== null && (
            <>
              <p>Start a training with these settings; it appears here by itself:</p>
              <CommandLine text={connecting} />
              <p class="quiet">
                On another machine also set <code>SONDE_DEBUGGER_TOKEN</code> to the token that the
                terminal of this server shows.
              </p>
            </>
          )}
          <h2>On pages of their own</h2>
          <p class="quiet">These commands start a server and print the address of its page.</p>
          <dl>
            <dt>Debug a script</dt>
            <dd>
              <CommandLine text="sonde debug train.py" />
            </dd>
            <dt>View a dump</dt>
            <dd>
              <CommandLine text="sonde view sonde_dump" />
            </dd>
          </dl>
        </>
      )}
    </main>
  );
}

/** A command line with a button that copies it. */
function CommandLine({ text }: { readonly text: string }): JSX.Element {
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
