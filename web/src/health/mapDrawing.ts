import type { LayerCells } from "../wire";
import { pixels } from "./mapColours";
import type { Cell, Picture } from "./mapPicture";
import type { MapView } from "./mapView";

/** Draws the cells of a map of layers on a canvas. */

/** The cells as a small canvas, which is drawn enlarged. */
export function imageOf({ data, shown, scale }: Picture, dark: boolean): HTMLCanvasElement {
  const found = document.createElement("canvas");
  [found.width, found.height] = [Math.max(data.columns, 1), Math.max(data.rows, 1)];
  const context = found.getContext("2d");
  const image = context?.createImageData(found.width, found.height);
  if (context == null || image === undefined) return found;
  image.data.set(pixels(shown, scale, dark));
  context.putImageData(image, 0, 0);
  return found;
}

export function clear(canvas: HTMLCanvasElement): void {
  canvas.width = Math.max(canvas.clientWidth, 1);
}

/** Where cells are on the canvas: left, top, and the size of one. */
function placeOf(
  canvas: HTMLCanvasElement,
  data: LayerCells,
  view: MapView,
): readonly [number, number, number, number] {
  const x = canvas.width / (view.last - view.first);
  const y = canvas.height / (view.bottom - view.top);
  return [
    (data.first - view.first) * x,
    (data.top - view.top) * y,
    data.steps_per_column * x,
    data.layers_per_row * y,
  ];
}

export function paint(
  canvas: HTMLCanvasElement,
  image: HTMLCanvasElement,
  data: LayerCells,
  view: MapView,
): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const [left, top, cellWidth, cellHeight] = placeOf(canvas, data, view);
  const [width, height] = [cellWidth * data.columns, cellHeight * data.rows];
  context.imageSmoothingEnabled = false;
  context.clearRect(left, top, width, height); // Cells without a value are transparent.
  context.drawImage(image, left, top, width, height);
}

export function frameCell(
  canvas: HTMLCanvasElement,
  data: LayerCells,
  view: MapView,
  { row, column }: Cell,
): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const [left, top, width, height] = placeOf(canvas, data, view);
  context.strokeStyle = getComputedStyle(canvas).color;
  context.strokeRect(
    left + column * width,
    top + row * height,
    Math.max(width, 3),
    Math.max(height, 3),
  );
}
