import type { JSX } from "preact";
import { graphText, lastPart } from "../text/names";
import { grouped } from "../text/numbers";
import { follow } from "../state/preferences";
import { command, go, graph, place, rank, run, selectOp } from "../state/store";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import type { Camera } from "./camera";

const ZOOM = 1.3;

/** The line above the graph. */
export function GraphTools({
  camera,
  loading,
}: {
  readonly camera: Camera;
  readonly loading: boolean;
}): JSX.Element {
  const current = rank.value?.op ?? null;
  return (
    <div class="toolbar graph-tools">
      <GraphName />
      <span class="spacer" />
      {loading && <span class="quiet">loading…</span>}
      {current !== null && (
        <button
          type="button"
          class="small"
          title="Go to the current op (c)"
          onClick={() => {
            selectOp(current);
            camera.reveal(current, true);
          }}
        >
          <Icon name="here" /> {lastPart(current)}
        </button>
      )}
      {run.value?.kind === "live" && (
        <label class="check" title="Select the op at which training pauses">
          <input
            type="checkbox"
            checked={follow.value}
            onChange={(event) => follow.set(event.currentTarget.checked)}
          />
          follow training
        </label>
      )}
      <button
        type="button"
        class="small"
        title="Close every scope"
        disabled={place.value.open.length === 0}
        onClick={() => {
          camera.restart();
          go({ open: [], isClosed: true });
        }}
      >
        collapse
      </button>
      <button
        type="button"
        class="icon"
        aria-label="Zoom out"
        onClick={() => camera.zoom(1 / ZOOM)}
      >
        −
      </button>
      <button type="button" class="icon" aria-label="Zoom in" onClick={() => camera.zoom(ZOOM)}>
        +
      </button>
      <button type="button" class="small" title="Show everything (0)" onClick={() => camera.fit()}>
        fit
      </button>
    </div>
  );
}

/** The name of this graph; others are chosen in the list on the left. */
function GraphName(): JSX.Element {
  const current = graph.value;
  if (current === null) return <span />;
  return (
    <span class="quiet" title={current.name}>
      {graphText(current, rank.value?.graphs ?? [])}
    </span>
  );
}

export function NoGraph(): JSX.Element {
  const canStep = run.value?.controls.includes("step") === true && rank.value?.state !== "running";
  return (
    <Empty title="No graph yet">
      <p>The ops appear with the first step.</p>
      {canStep && (
        <button type="button" class="primary" onClick={() => command({ command: "step" })}>
          Run one step
        </button>
      )}
    </Empty>
  );
}

export function Legend({ hidden }: { readonly hidden: number }): JSX.Element {
  return (
    <div class="legend">
      <span class="swatch is-forward" /> forward
      <span class="swatch is-backward" /> backward
      <span class="swatch is-optimizer" /> optimizer
      <span class="swatch is-parameter" /> parameter
      <span class="swatch is-hit" /> hit
      <span class="swatch is-origin" /> origin
      <span class="swatch is-current" /> current op
      {run.value?.peer != null && (
        <>
          <span class="swatch is-same" /> same
          <span class="swatch is-inherited" /> inherited
          <span class="swatch is-diverged" /> diverged
        </>
      )}
      <span class="spacer" />
      {hidden > 0 && (
        <span class="left-out" title="The list on the left has all nodes">
          {grouped(hidden)} boxes not drawn
        </span>
      )}
    </div>
  );
}
