import type { JSX } from "preact";
import { door, go, place, runs } from "../state/store";
import { START } from "../state/place";

/** What there is to see before a training has connected. */
export function Welcome({ isLoaded }: { readonly isLoaded: boolean }): JSX.Element {
  const { port, hasToken } = door.value;
  const isMissing = place.value.run !== "" && runs.value.length > 0;
  return (
    <main class="welcome">
      <h1>{!isLoaded ? "Connecting…" : isMissing ? "That run is not here" : "Waiting for a training"}</h1>
      {isLoaded && isMissing && (
        <p>
          The server knows no run “{place.value.run}”. <button type="button" onClick={() => go(START)}>Show what it knows</button>
        </p>
      )}
      {isLoaded && !isMissing && (
        <>
          <p>Start one in a terminal; it appears here by itself.</p>
          <dl>
            <dt>A script, with a server of its own</dt>
            <dd>
              <code>sonde debug train.py</code>
            </dd>
            {port !== null && (
              <>
                <dt>A training that connects to this server{hasToken && "; its terminal names the token"}</dt>
                <dd>
                  <code>
                    SONDE_DEBUGGER_HOST={location.hostname.replace(/^\[|\]$/g, "")} SONDE_DEBUGGER_PORT={port} {hasToken && "SONDE_DEBUGGER_TOKEN=… "}
                    sonde run train.py
                  </code>
                </dd>
              </>
            )}
            <dt>A dump on disk</dt>
            <dd>
              <code>sonde view sonde_dump</code>
            </dd>
          </dl>
        </>
      )}
    </main>
  );
}
