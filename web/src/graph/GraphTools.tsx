import type { JSX } from "preact";
import { opName, runTitle } from "../text/names";
import { BOX_STATISTIC_NAMES, BOX_STATISTICS, type GraphDetail } from "../state/place";
import { follow } from "../state/preferences";
import { chooseView, command, go, place, rank, run, runs, selectOp } from "../state/store";
import { attempt } from "../state/toasts";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import { Boxes, NO_MARKS } from "./Boxes";
import type { Camera } from "./camera";
import { pngOf, save, svgText } from "./exporting";

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
      <ViewSwitch />
      <ColourChoice />
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
          <Icon name="here" /> {opName(current)}
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
    </div>
  );
}

/** What is done with the picture: close, zoom, save. */
export function PictureTools({ camera }: { readonly camera: Camera }): JSX.Element {
  return (
    <>
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
      <SaveButtons camera={camera} />
    </>
  );
}

const VIEWS: readonly (readonly [GraphDetail, string])[] = [
  ["model", "The network first; what surrounds it in a step beside it, closed"],
  ["step", "The whole training step by data flow, without helpers and constants"],
  ["everything", "Every node, in the scopes of its full name"],
];

/** How much of the graph is drawn. */
function ViewSwitch(): JSX.Element {
  return (
    <span class="segments" role="group" aria-label="How much of the graph is drawn">
      {VIEWS.map(([view, title]) => (
        <button
          key={view}
          type="button"
          class="small"
          aria-pressed={place.value.view === view}
          title={title}
          onClick={() => chooseView(view)}
        >
          {view}
        </button>
      ))}
    </span>
  );
}

function ColourChoice(): JSX.Element {
  const isCompared = run.value?.peer != null;
  return (
    <select
      aria-label="Colour by"
      title="What the boxes are coloured by"
      class={place.value.colourBy === "" ? "" : "active"}
      value={place.value.colourBy}
      onChange={(event) => {
        const wanted = event.currentTarget.value;
        go({ colourBy: BOX_STATISTICS.find((id) => id === wanted) ?? "" });
      }}
    >
      <option value="">colour: phase</option>
      {BOX_STATISTICS.filter((id) => id !== "distance" || isCompared).map((id) => (
        <option key={id} value={id}>
          {BOX_STATISTIC_NAMES[id]}
        </option>
      ))}
    </select>
  );
}

/** Saves the graph, as it is open, as a picture. */
function SaveButtons({ camera }: { readonly camera: Camera }): JSX.Element {
  const name = `${runTitle(runs.value, run.value?.id ?? "").replaceAll(/[^\w.-]+/g, "-")}-graph`;
  const text = (): string => {
    const scene = camera.scene.peek();
    const area = { left: -1, top: -1, right: scene.width + 1, bottom: scene.height + 1 };
    const page = document.querySelector(".canvas");
    if (page === null) throw new Error("There is no graph on the page");
    const drawn = (
      <Boxes
        scene={scene}
        area={area}
        marks={NO_MARKS}
        onBox={() => undefined}
        onToggle={() => undefined}
      />
    );
    return svgText(scene, drawn, page);
  };
  return (
    <select
      aria-label="Save as"
      title="Save the graph, as it is open, as a picture"
      value=""
      onChange={(event) => {
        const kind = event.currentTarget.value;
        event.currentTarget.value = "";
        void attempt(async () => {
          const made = text();
          if (kind === "svg") save(new Blob([made], { type: "image/svg+xml" }), `${name}.svg`);
          else save(await pngOf(made), `${name}.png`);
        });
      }}
    >
      <option value="">save</option>
      <option value="svg">as SVG</option>
      <option value="png">as PNG</option>
    </select>
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
