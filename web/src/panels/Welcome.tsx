import type { JSX } from "preact";
import { rankListener, go, place, runs } from "../state/store";
import { START } from "../state/place";

/** Shown while the server has no run, or not the one the address names. */
export function Welcome({ isLoaded }: { readonly isLoaded: boolean }): JSX.Element {
  const { port, fingerprint } = rankListener.value;
  const isMissing = place.value.run !== "" && runs.value.length > 0;
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
          <p>Start one in a terminal:</p>
          <dl>
            <dt>Debug a script (starts its own server)</dt>
            <dd>
              <code>sonde debug train.py</code>
            </dd>
            {port !== null && (
              <>
                <dt>
                  Connect a training to this server; on another machine also with the token, which
                  the server’s terminal shows
                </dt>
                <dd>
                  <code>
                    SONDE_DEBUGGER_HOST={location.hostname.replace(/^\[|\]$/g, "")}{" "}
                    SONDE_DEBUGGER_PORT={port}{" "}
                    {fingerprint !== "" && `SONDE_DEBUGGER_FINGERPRINT=${fingerprint} `}
                    sonde run train.py
                  </code>
                </dd>
              </>
            )}
            <dt>View a dump (starts its own server)</dt>
            <dd>
              <code>sonde view sonde_dump</code>
            </dd>
          </dl>
        </>
      )}
    </main>
  );
}
