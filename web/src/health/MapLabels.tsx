import type { JSX } from "preact";
import { grouped } from "../text/numbers";
import type { LayerCells } from "../wire";
import { axisSteps, type MapView } from "./mapView";

const LABEL_PIXELS = 15;
const STEP_LABELS = 8;

/** The last parts of a layer's name, which differ. */
function briefLayer(name: string): string {
  const parts = name.split("/");
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : name;
}

/** Names of layers beside the map, as many as there is space for. */
export function LayerLabels({
  data,
  view,
  height,
}: {
  readonly data: LayerCells;
  readonly view: MapView;
  readonly height: number;
}): JSX.Element {
  const rowPixels = (height / (view.bottom - view.top)) * data.layers_per_row;
  const every = Math.max(Math.ceil(LABEL_PIXELS / rowPixels), 1);
  return (
    <div class="layer-labels" style={{ height: `${height}px` }}>
      {data.layers.map((name, row) => {
        const middle = ((data.top - view.top) / data.layers_per_row + row + 0.5) * rowPixels;
        if (row % every !== 0 || middle < 4 || middle > height - 4) return null;
        return (
          <span key={name} style={{ top: `${middle}px` }} title={name}>
            <bdi>{briefLayer(name)}</bdi>
          </span>
        );
      })}
    </div>
  );
}

/** The axis of steps below the map. */
export function StepLabels({ view }: { readonly view: MapView }): JSX.Element {
  return (
    <div class="step-labels" aria-hidden="true">
      {axisSteps(view.first, view.last - 1, STEP_LABELS).map((step) => (
        <span
          key={step}
          style={{ left: `${((step + 0.5 - view.first) / (view.last - view.first)) * 100}%` }}
        >
          {grouped(step)}
        </span>
      ))}
    </div>
  );
}
