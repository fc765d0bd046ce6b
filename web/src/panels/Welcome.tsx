import type { JSX } from "preact";
import { rankListener, go, place, runs } from "../state/store";
import { START } from "../state/place";
import { CommandLine } from "../parts/CommandLine";
import { SmoothingField } from "../parts/SmoothingField";
import { EventLogs, useLogs } from "../health/logs/EventLogs";

/** Shown while the server has no run, or not the one the address names. */
export function Welcome({ isLoaded }: { readonly isLoaded: boolean }): JSX.Element {
  const { port, fingerprint } = rankListener.value;
  const logs = useLogs() ?? [];
  const isMissing = place.value.run !== "" && runs.value.length > 0;
  const connecting = [
    `SONDE_DEBUGGER_HOST=${location.hostname.replace(/^\[|\]$/g, "")}`,
    `SONDE_DEBUGGER_PORT=${port ?? ""}`,
    ...(fingerprint === "" ? [] : [`SONDE_DEBUGGER_FINGERPRINT=${fingerprint}`]),
    "sonde run train.py",
  ].join(" ");
  if (logs.length > 0 && port === null && runs.value.length === 0)
    return (
      <main class="scroll charts health only-logs">
        <SmoothingField />
        <EventLogs logs={logs} />
      </main>
    );
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
          <EventLogs logs={logs} />
        </>
      )}
    </main>
  );
}
