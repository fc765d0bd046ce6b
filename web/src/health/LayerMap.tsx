import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, type LayersRequest, type RankAt } from "../load/api";
import { useResource } from "../load/resource";
import { cssColour, NAN_COLOUR, POSITIVE_INF_COLOUR } from "../tensor/colours";
import { isDark } from "../state/preferences";
import { go, place, runs } from "../state/store";
import { runTitle } from "../text/names";
import { counted, grouped } from "../text/numbers";
import type { LayerCells, LayerStatisticView } from "../wire";
import { CellPanel, type ChosenCell } from "./CellPanel";
import { LayerLabels, StepLabels } from "./MapLabels";
import {
  cellText,
  decoded,
  differences,
  differenceScale,
  differenceText,
  gradient,
  pixels,
  scaleOf,
  type MapScale,
} from "./mapColours";
import { inside, isWhole, panned, zoomed, type MapView } from "./mapView";

interface LayerMapProps {
  readonly at: RankAt;
  readonly statistics: readonly LayerStatisticView[];
  /** Changes when the run has more steps. */
  readonly version: string;
}

/** What was loaded, ready to be drawn. */
interface Picture {
  readonly data: LayerCells;
  readonly cells: Float32Array;
  readonly others: Float32Array | null;
  readonly shown: Float32Array;
  readonly scale: MapScale;
}

interface Cell {
  readonly row: number;
  readonly column: number;
}

const HEIGHT = 300;
const DRAG_PIXELS = 4;
const WHEEL_FACTOR = 1.25;
const KEY_FACTOR = 2;

const NAMES: Readonly<Record<string, string>> = {
  grad_norm: "gradient norm",
  activation_rms: "activation rms",
  zero_fraction: "zero fraction",
  weight_norm: "weight norm",
  update_ratio: "update ratio",
  non_finite_count: "NaN and Inf",
};

function pictureOf(data: LayerCells): Picture {
  const cells = decoded(data.cells);
  if (data.other_cells === "") {
    const scale = scaleOf(data.statistic, data.least, data.greatest);
    return { data, cells, others: null, shown: cells, scale };
  }
  const others = decoded(data.other_cells);
  const { values, most } = differences(data.statistic, cells, others);
  return { data, cells, others, shown: values, scale: differenceScale(data.statistic, most) };
}

function wholeOf(data: LayerCells): MapView {
  return { first: data.first_step, last: data.last_step + 1, top: 0, bottom: data.total_layers };
}

/** The last picture of the whole map, which is seen where finer cells are not loaded yet. */
function useOverview(picture: Picture | null): Picture | null {
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
function extentOf(data: LayerCells): MapView {
  return {
    first: data.first,
    last: data.first + data.steps_per_column * data.columns,
    top: data.top,
    bottom: data.top + data.layers_per_row * data.rows,
  };
}

/** A statistic of all layers by steps. The browser has the cells on the screen, and no others. */
export function LayerMap({ at, statistics, version }: LayerMapProps): JSX.Element {
  const wanted = place.value.layerStatistic;
  const statistic = statistics.find(({ name }) => name === wanted) ?? statistics[0];
  const name = statistic?.name ?? "";
  const withRun = runs.value.some(({ id }) => id === place.value.layersWith)
    ? place.value.layersWith
    : "";
  const [view, setView] = useState<MapView | null>(null);
  const [width, setWidth] = useState(600);
  const [chosen, setChosen] = useState<ChosenCell | null>(null);
  const subject = { ...at, statistic: name, with_run: withRun === "" ? null : withRun };
  useEffect(() => {
    setView(null);
    setChosen(null);
  }, [at.run, at.rank, name]);
  const request: LayersRequest = {
    ...subject,
    first: view === null ? null : Math.floor(view.first),
    last: view === null ? null : Math.ceil(view.last) - 1,
    top: view === null ? 0 : Math.floor(view.top),
    bottom: view === null ? null : Math.ceil(view.bottom),
    rows: HEIGHT,
    columns: Math.max(Math.round(width), 100),
  };
  const { data, error } = useResource(
    subject,
    `${version} ${JSON.stringify(request)}`,
    (_subject, signal) => api.layers(request, signal),
  );
  const picture = useMemo(() => (data === null ? null : pictureOf(data)), [data]);
  const overview = useOverview(picture);
  const title = NAMES[name] ?? name;
  return (
    <section class="layer-map" aria-label="Layers by steps">
      <h4 class="with-choice">
        <span title={statistic?.description}>Layers by steps: {title}</span>
        <span class="chart-head">
          <label class="check">
            statistic{" "}
            <select
              value={name}
              onChange={(event) => go({ layerStatistic: event.currentTarget.value })}
            >
              {statistics.map((each) => (
                <option key={each.name} value={each.name} title={each.description}>
                  {NAMES[each.name] ?? each.name}
                </option>
              ))}
            </select>
          </label>
          <OtherRun run={at.run} chosen={withRun} />
        </span>
      </h4>
      {error !== null && <p class="error-line">{error}</p>}
      {picture === null ? (
        <p class="quiet note">{error === null ? "Reading the statistics of all steps …" : ""}</p>
      ) : (
        <>
          <MapCanvas
            picture={picture}
            overview={overview}
            view={view ?? wholeOf(picture.data)}
            label={`${title} of ${counted(picture.data.total_layers, "layer")} by steps`}
            onView={setView}
            onWidth={setWidth}
            onCell={(cell) => void chooseCell(request, cell).then(setChosen)}
          />
          <MapLegend picture={picture} isCompared={withRun !== ""} onWhole={() => setView(null)} />
        </>
      )}
      {chosen !== null && (
        <CellPanel at={at} statistic={name} title={title} cell={chosen} version={version} />
      )}
    </section>
  );
}

/** Chooses the run with which the map is compared cell by cell. */
function OtherRun({
  run,
  chosen,
}: {
  readonly run: string;
  readonly chosen: string;
}): JSX.Element | null {
  const others = runs.value.filter(({ id }) => id !== run);
  if (others.length === 0) return null;
  return (
    <label class="check">
      compared with{" "}
      <select value={chosen} onChange={(event) => go({ layersWith: event.currentTarget.value })}>
        <option value="">nothing</option>
        {others.map(({ id }) => (
          <option key={id} value={id}>
            {runTitle(runs.value, id)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The steps of a cell, and its layer: of several the one with the greatest value. */
async function chooseCell(
  request: LayersRequest,
  { data, row, column }: Cell & { readonly data: LayerCells },
): Promise<ChosenCell | null> {
  const first = data.first + column * data.steps_per_column;
  const last = Math.min(first + data.steps_per_column - 1, data.last_step);
  const top = data.top + row * data.layers_per_row;
  const found = { first, last };
  const bottom = Math.min(top + data.layers_per_row, data.total_layers);
  if (data.layers_per_row === 1) return { ...found, layer: data.layers[row] ?? "", number: top };
  const { rows, ...part } = { ...request, ...found, top, bottom };
  const each = await api.layers({ ...part, rows: bottom - top, columns: 1, with_run: null });
  const values = [...decoded(each.cells)].map((value) => (Number.isNaN(value) ? Infinity : value));
  const place = values.indexOf(Math.max(...values));
  return rows === 0 ? null : { ...found, layer: each.layers[place] ?? "", number: top + place };
}

interface MapCanvasProps {
  readonly picture: Picture;
  readonly overview: Picture | null;
  readonly view: MapView;
  readonly label: string;
  readonly onView: (view: MapView) => void;
  readonly onWidth: (width: number) => void;
  readonly onCell: (cell: Cell & { readonly data: LayerCells }) => void;
}

function MapCanvas({
  picture,
  overview,
  view,
  label,
  onView,
  onWidth,
  onCell,
}: MapCanvasProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<{ x: number; y: number; view: MapView; isMoved: boolean } | null>(null);
  const [pointed, setPointed] = useState<(Cell & { x: number; y: number }) | null>(null);
  const dark = isDark.value;
  const { data } = picture;
  const whole = wholeOf(data);
  const image = useMemo(() => imageOf(picture, dark), [picture, dark]);
  const behind = useMemo(
    () => (overview === null || overview === picture ? null : imageOf(overview, dark)),
    [overview, picture, dark],
  );
  useLayoutEffect(() => {
    if (canvas.current === null) return;
    clear(canvas.current);
    if (behind !== null && overview !== null) paint(canvas.current, behind, overview.data, view);
    paint(canvas.current, image, data, view);
    if (pointed !== null) frameCell(canvas.current, data, view, pointed);
  });
  useEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => onWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const sharesOf = (event: MouseEvent): readonly [number, number] => {
    const box = canvas.current?.getBoundingClientRect();
    if (box === undefined) return [0, 0];
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const cellAt = ([x, y]: readonly [number, number]): Cell | null => {
    const step = view.first + (view.last - view.first) * x;
    const layer = view.top + (view.bottom - view.top) * y;
    const column = Math.floor((step - data.first) / data.steps_per_column);
    const row = Math.floor((layer - data.top) / data.layers_per_row);
    const isInside = column >= 0 && column < data.columns && row >= 0 && row < data.rows;
    return isInside ? { row, column } : null;
  };
  const point = (cell: Cell | null): void => {
    if (cell === null) {
      setPointed(null);
      return;
    }
    const step = data.first + (cell.column + 0.5) * data.steps_per_column;
    const layer = data.top + (cell.row + 0.5) * data.layers_per_row;
    setPointed({
      ...cell,
      x: (step - view.first) / (view.last - view.first),
      y: (layer - view.top) / (view.bottom - view.top),
    });
  };
  // A listener of Preact is passive in some browsers, and could not stop the page from scrolling.
  const onWheel = useRef((_: WheelEvent): void => undefined);
  onWheel.current = (event) => {
    if (!(
      event.ctrlKey ||
      event.metaKey ||
      event.shiftKey ||
      document.activeElement === frame.current
    ))
      return;
    event.preventDefault();
    const amount = event.deltaY === 0 ? event.deltaX : event.deltaY;
    const factor = amount < 0 ? WHEEL_FACTOR : 1 / WHEEL_FACTOR;
    const by = event.shiftKey ? { steps: 1, layers: factor } : { steps: factor, layers: 1 };
    onView(zoomed(view, whole, by, ...sharesOf(event)));
  };
  useEffect(() => {
    const element = frame.current;
    const listener = (event: WheelEvent): void => onWheel.current(event);
    element?.addEventListener("wheel", listener, { passive: false });
    return () => element?.removeEventListener("wheel", listener);
  }, []);
  const onKey = (event: KeyboardEvent): void => {
    const now = pointed ?? cellAt([0.5, 0.5]) ?? { row: 0, column: 0 };
    const [x, y] = pointed === null ? [0.5, 0.5] : [pointed.x, pointed.y];
    const move = MOVES[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (move !== undefined && event.shiftKey)
      onView(panned(view, whole, move[1] * 0.25, move[0] * 0.25));
    else if (move !== undefined) point(moved(now, move, data));
    else if (event.key === "+" || event.key === "=")
      onView(zoomed(view, whole, { steps: KEY_FACTOR, layers: KEY_FACTOR }, x, y));
    else if (event.key === "-")
      onView(zoomed(view, whole, { steps: 1 / KEY_FACTOR, layers: 1 / KEY_FACTOR }, x, y));
    else if (event.key === "0") onView(whole);
    else if (event.key === "Enter") onCell({ ...now, data });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="map-area">
      <LayerLabels data={data} view={view} height={HEIGHT} />
      <div
        ref={frame}
        class="map-frame"
        role="application"
        aria-label={`${label}. Arrows choose a cell, plus and minus zoom, 0 shows all, Enter opens.`}
        tabIndex={0}
        title=""
        style={{ height: `${HEIGHT}px` }}
        onKeyDown={onKey}
        onBlur={() => setPointed(null)}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY, view, isMoved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          const from = drag.current;
          const box = event.currentTarget.getBoundingClientRect();
          if (from === null) {
            point(cellAt(sharesOf(event)));
            return;
          }
          const [x, y] = [event.clientX - from.x, event.clientY - from.y];
          from.isMoved ||= Math.hypot(x, y) > DRAG_PIXELS;
          if (from.isMoved) onView(panned(from.view, whole, -x / box.width, -y / box.height));
        }}
        onPointerUp={(event) => {
          const cell = cellAt(sharesOf(event));
          if (drag.current?.isMoved === false && cell !== null) onCell({ ...cell, data });
          drag.current = null;
        }}
        onPointerCancel={() => (drag.current = null)}
        onPointerLeave={() => setPointed(null)}
        onDblClick={(event) =>
          onView(inside(zoomed(view, whole, { steps: 4, layers: 2 }, ...sharesOf(event)), whole))
        }
      >
        <canvas ref={canvas} height={HEIGHT} />
        {pointed !== null && <MapPointer picture={picture} at={pointed} />}
        <p class="map-live" role="status">
          {pointed === null ? "" : pointedText(picture, pointed)}
        </p>
      </div>
      <StepLabels view={view} />
    </div>
  );
}

const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function moved(from: Cell, [down, right]: readonly [number, number], data: LayerCells): Cell {
  return {
    row: Math.min(Math.max(from.row + down, 0), data.rows - 1),
    column: Math.min(Math.max(from.column + right, 0), data.columns - 1),
  };
}

/** The cells as a small canvas, which is drawn enlarged. */
function imageOf({ data, shown, scale }: Picture, dark: boolean): HTMLCanvasElement {
  const found = document.createElement("canvas");
  [found.width, found.height] = [Math.max(data.columns, 1), Math.max(data.rows, 1)];
  const context = found.getContext("2d");
  const image = context?.createImageData(found.width, found.height);
  if (context == null || image === undefined) return found;
  image.data.set(pixels(shown, scale, dark));
  context.putImageData(image, 0, 0);
  return found;
}

function clear(canvas: HTMLCanvasElement): void {
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

function paint(
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

function frameCell(
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

function pointedText(picture: Picture, { row, column }: Cell): string {
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

function MapPointer({
  picture,
  at,
}: {
  readonly picture: Picture;
  readonly at: Cell & { readonly x: number; readonly y: number };
}): JSX.Element {
  const side = at.x > 0.5 ? { right: `${(1 - at.x) * 100}%` } : { left: `${at.x * 100}%` };
  const edge = at.y > 0.5 ? { bottom: `${(1 - at.y) * 100}%` } : { top: `${at.y * 100}%` };
  return (
    <div class="heat-pointer map-pointer" style={{ ...side, ...edge }} aria-hidden="true">
      {pointedText(picture, at)}
    </div>
  );
}

function MapLegend({
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
