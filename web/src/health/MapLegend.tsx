import type { JSX } from "preact";
import { cssColour, NAN_COLOUR, POSITIVE_INF_COLOUR } from "../tensor/colours";
import { isDark } from "../state/preferences";
import { counted } from "../text/numbers";
import { gradient } from "./mapColours";
import { extentOf, wholeOf, type Picture } from "./mapPicture";
import { isWhole } from "./mapView";

/** What the colours of a map of layers mean, and how to move in it. */
export function MapLegend({
  picture,
  isCompared,
  onWhole,
}: {
  readonly picture: Picture;
  readonly isCompared: boolean;
  readonly onWhole: () => void;
}): JSX.Element {
  const { data, scale } = picture;
  const shown = extentOf(data);
  return (
    <div class="heat-legend map-legend">
      <span>{scale.ends[0]}</span>
      <span class="ramp" style={{ background: gradient(scale, isDark.value) }} />
      <span>{scale.ends[1]}</span>
      <span class="swatch" style={{ background: cssColour(NAN_COLOUR) }} />{" "}
      {isCompared ? "finite in one run only" : "nan"}
      {!isCompared && (
        <>
          <span class="swatch" style={{ background: cssColour(POSITIVE_INF_COLOUR) }} /> inf
        </>
      )}
      <span class="swatch map-absent" /> no value
      <span class="spacer" />
      <span>
        a cell: {counted(data.steps_per_column, "step")} × {counted(data.layers_per_row, "layer")}
        {data.steps_per_column * data.layers_per_row > 1 ? ", the greatest value" : ""}
      </span>
      {!isWhole(shown, wholeOf(data)) && (
        <button type="button" onClick={onWhole}>
          show all
        </button>
      )}
      <span title="Drag to move; Ctrl and the wheel zoom steps, Shift and the wheel layers; a double click zooms both">
        drag, Ctrl-wheel, Shift-wheel
      </span>
    </div>
  );
}
