import { useRef } from "preact/hooks";
import { counted, grouped } from "../text/numbers";
import type { LayerCells } from "../wire";
import {
  cellText,
  decoded,
  differences,
  differenceScale,
  differenceText,
  scaleOf,
  type MapScale,
} from "./mapColours";
import { isWhole, type MapView } from "./mapView";

/** What was loaded, ready to be drawn. */
export interface Picture {
  readonly data: LayerCells;
  readonly cells: Float32Array;
  readonly others: Float32Array | null;
  readonly shown: Float32Array;
  readonly scale: MapScale;
}

export interface Cell {
  readonly row: number;
  readonly column: number;
}

export function pictureOf(data: LayerCells): Picture {
  const cells = decoded(data.cells);
  if (data.other_cells === "") {
    const scale = scaleOf(data.statistic, data.least, data.greatest);
    return { data, cells, others: null, shown: cells, scale };
  }
  const others = decoded(data.other_cells);
  const { values, most } = differences(data.statistic, cells, others);
  return { data, cells, others, shown: values, scale: differenceScale(data.statistic, most) };
}

export function wholeOf(data: LayerCells): MapView {
  return { first: data.first_step, last: data.last_step + 1, top: 0, bottom: data.total_layers };
}

/** The last picture of the whole map, which is seen where finer cells are not loaded yet. */
export function useOverview(picture: Picture | null): Picture | null {
  const kept = useRef<Picture | null>(null);
  if (picture === null) kept.current = null;
  else if (isWhole(extentOf(picture.data), wholeOf(picture.data))) kept.current = picture;
  else if (kept.current !== null && !isSameMap(kept.current, picture)) kept.current = null;
  return kept.current;
}

function isSameMap(one: Picture, other: Picture): boolean {
  return (
    one.data.statistic === other.data.statistic &&
    one.data.rank === other.data.rank &&
    (one.others === null) === (other.others === null) &&
    one.data.total_layers === other.data.total_layers &&
    one.data.first_step === other.data.first_step
  );
}

/** The part of the map that was loaded. */
export function extentOf(data: LayerCells): MapView {
  return {
    first: data.first,
    last: data.first + data.steps_per_column * data.columns,
    top: data.top,
    bottom: data.top + data.layers_per_row * data.rows,
  };
}

/** A cell in words: its layers, its steps and its value. */
export function pointedText(picture: Picture, { row, column }: Cell): string {
  const { data, cells, others, shown } = picture;
  const at = row * data.columns + column;
  const first = data.first + column * data.steps_per_column;
  const last = Math.min(first + data.steps_per_column - 1, data.last_step);
  const more = Math.min(
    data.layers_per_row,
    data.total_layers - data.top - row * data.layers_per_row,
  );
  const layer = `${data.layers[row] ?? ""}${more > 1 ? ` and ${counted(more - 1, "more layer")}` : ""}`;
  const steps =
    first === last ? `step ${grouped(first)}` : `steps ${grouped(first)} to ${grouped(last)}`;
  const greatest = first === last && more <= 1 ? "" : "at most ";
  const value = `${greatest}${cellText(cells[at])}`;
  if (others === null) return `${layer}, ${steps}: ${value}`;
  const other = `${greatest}${cellText(others[at])}`;
  const factor = differenceText(data.statistic, shown[at] ?? NaN);
  return `${layer}, ${steps}: ${value}, other run ${other} (${factor})`;
}
