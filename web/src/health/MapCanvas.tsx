import type { JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { isDark } from "../state/preferences";
import type { LayerCells } from "../wire";
import { LayerLabels, StepLabels } from "./MapLabels";
import { clear, frameCell, imageOf, paint } from "./mapDrawing";
import { pointedText, wholeOf, type Cell, type Picture } from "./mapPicture";
import { inside, panned, zoomed, type MapView } from "./mapView";

export const MAP_HEIGHT = 300;
const DRAG_PIXELS = 4;
const WHEEL_FACTOR = 1.25;
const KEY_FACTOR = 2;

type Shares = readonly [across: number, down: number];

interface PointedCell extends Cell {
  /** Where its middle is, as shares of the map. */
  readonly x: number;
  readonly y: number;
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

/** The cells of a map of layers, which is moved and zoomed by pointer, wheel and keys. */
export function MapCanvas(props: MapCanvasProps): JSX.Element {
  const { picture, view, label, onView, onCell } = props;
  const { data } = picture;
  const frame = useRef<HTMLDivElement>(null);
  const drag = useRef<{ x: number; y: number; view: MapView; isMoved: boolean } | null>(null);
  const [pointed, setPointed] = useState<PointedCell | null>(null);
  const whole = wholeOf(data);
  const canvas = useDrawing(props, pointed);
  useWidth(frame, props.onWidth);
  const sharesOf = (event: MouseEvent): Shares => {
    const box = canvas.current?.getBoundingClientRect();
    if (box === undefined) return [0, 0];
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const point = (cell: Cell | null): void =>
    setPointed(cell === null ? null : withPlace(cell, data, view));
  useWheel(frame, (event) => {
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
  });
  const onKey = (event: KeyboardEvent): void => {
    const next = afterKey(event, { data, view, pointed });
    if (next === null) return;
    if (next.view !== undefined) onView(next.view);
    else if (next.cell !== undefined) point(next.cell);
    else if (next.opened !== undefined) onCell({ ...next.opened, data });
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="map-area">
      <LayerLabels data={data} view={view} height={MAP_HEIGHT} />
      <div
        ref={frame}
        class="map-frame"
        role="application"
        aria-label={`${label}. Arrows choose a cell, plus and minus zoom, 0 shows all, Enter opens.`}
        tabIndex={0}
        title=""
        style={{ height: `${MAP_HEIGHT}px` }}
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
            point(cellAt(sharesOf(event), data, view));
            return;
          }
          const [x, y] = [event.clientX - from.x, event.clientY - from.y];
          from.isMoved ||= Math.hypot(x, y) > DRAG_PIXELS;
          if (from.isMoved) onView(panned(from.view, whole, -x / box.width, -y / box.height));
        }}
        onPointerUp={(event) => {
          const cell = cellAt(sharesOf(event), data, view);
          if (drag.current?.isMoved === false && cell !== null) onCell({ ...cell, data });
          drag.current = null;
        }}
        onPointerCancel={() => (drag.current = null)}
        onPointerLeave={() => setPointed(null)}
        onDblClick={(event) =>
          onView(inside(zoomed(view, whole, { steps: 4, layers: 2 }, ...sharesOf(event)), whole))
        }
      >
        <canvas ref={canvas} height={MAP_HEIGHT} />
        {pointed !== null && <MapPointer picture={picture} at={pointed} />}
        <p class="map-live" role="status">
          {pointed === null ? "" : pointedText(picture, pointed)}
        </p>
      </div>
      <StepLabels view={view} />
    </div>
  );
}

/** The canvas, drawn anew whenever something on it changes. */
function useDrawing(
  { picture, overview, view }: MapCanvasProps,
  pointed: Cell | null,
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  const image = useMemo(() => imageOf(picture, dark), [picture, dark]);
  const behind = useMemo(
    () => (overview === null || overview === picture ? null : imageOf(overview, dark)),
    [overview, picture, dark],
  );
  useLayoutEffect(() => {
    if (canvas.current === null) return;
    clear(canvas.current);
    if (behind !== null && overview !== null) paint(canvas.current, behind, overview.data, view);
    paint(canvas.current, image, picture.data, view);
    if (pointed !== null) frameCell(canvas.current, picture.data, view, pointed);
  });
  return canvas;
}

function useWidth(frame: RefObject<HTMLElement | null>, onWidth: (width: number) => void): void {
  useEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => onWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
}

/** A listener of Preact is passive in some browsers, and could not stop the page from scrolling. */
function useWheel(
  frame: RefObject<HTMLElement | null>,
  onWheel: (event: WheelEvent) => void,
): void {
  const latest = useRef(onWheel);
  latest.current = onWheel;
  useEffect(() => {
    const element = frame.current;
    const listener = (event: WheelEvent): void => latest.current(event);
    element?.addEventListener("wheel", listener, { passive: false });
    return () => element?.removeEventListener("wheel", listener);
  }, []);
}

/** The cell at a place of the map; null where nothing was loaded. */
export function cellAt([x, y]: Shares, data: LayerCells, view: MapView): Cell | null {
  const step = view.first + (view.last - view.first) * x;
  const layer = view.top + (view.bottom - view.top) * y;
  const column = Math.floor((step - data.first) / data.steps_per_column);
  const row = Math.floor((layer - data.top) / data.layers_per_row);
  const isInside = column >= 0 && column < data.columns && row >= 0 && row < data.rows;
  return isInside ? { row, column } : null;
}

function withPlace(cell: Cell, data: LayerCells, view: MapView): PointedCell {
  const step = data.first + (cell.column + 0.5) * data.steps_per_column;
  const layer = data.top + (cell.row + 0.5) * data.layers_per_row;
  return {
    ...cell,
    x: (step - view.first) / (view.last - view.first),
    y: (layer - view.top) / (view.bottom - view.top),
  };
}

interface MapState {
  readonly data: LayerCells;
  readonly view: MapView;
  readonly pointed: PointedCell | null;
}

interface AfterKey {
  readonly view?: MapView;
  /** The cell that is pointed at next. */
  readonly cell?: Cell;
  readonly opened?: Cell;
}

/** What a key does; null: nothing. */
export function afterKey(
  event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">,
  { data, view, pointed }: MapState,
): AfterKey | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const whole = wholeOf(data);
  const now = pointed ?? cellAt([0.5, 0.5], data, view) ?? { row: 0, column: 0 };
  const [x, y] = pointed === null ? [0.5, 0.5] : [pointed.x, pointed.y];
  const zoomedBy = (factor: number): AfterKey => ({
    view: zoomed(view, whole, { steps: factor, layers: factor }, x, y),
  });
  const move = MOVES[event.key];
  if (move !== undefined && event.shiftKey)
    return { view: panned(view, whole, move[1] * 0.25, move[0] * 0.25) };
  if (move !== undefined) return { cell: moved(now, move, data) };
  if (event.key === "+" || event.key === "=") return zoomedBy(KEY_FACTOR);
  if (event.key === "-") return zoomedBy(1 / KEY_FACTOR);
  if (event.key === "0") return { view: whole };
  return event.key === "Enter" ? { opened: now } : null;
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
