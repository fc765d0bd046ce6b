import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Heat } from "../wire";
import { brief } from "../text/numbers";
import { isDark, stretched, type CellBy } from "../state/preferences";
import {
  colourOf,
  cssColour,
  NAN_COLOUR,
  NEGATIVE_INF_COLOUR,
  POSITIVE_INF_COLOUR,
  scaleFor,
  stretchedScale,
  type Scale,
} from "./colours";
import { placeOf, rangeLength, type Plane } from "./slices";

interface HeatMapProps {
  readonly heat: Heat;
  readonly plane: Plane;
  readonly label: string;
  /** What a cell shows of its elements, if it covers several; null: the legend has no choice. */
  readonly by: CellBy;
  readonly onBy?: (by: CellBy) => void;
  /** A part of the plane was chosen: rows [row, row + rows) and columns likewise. */
  readonly onArea?: (row: number, rows: number, column: number, columns: number) => void;
}

interface Pointed {
  readonly x: number;
  readonly y: number;
  readonly row: number;
  readonly column: number;
}

const MARKS: readonly (readonly [number, string])[] = [
  [1, "nan"],
  [2, "+inf"],
  [4, "−inf"],
];

/** A heat map of few cells does not fill the screen. */
const MOST_PIXELS = 80;

function length(plane: Plane, which: "row" | "column"): number {
  const dimension =
    which === "row"
      ? plane.sliced.length === 2
        ? plane.sliced[0]
        : undefined
      : plane.sliced.at(-1);
  const axis = dimension === undefined ? undefined : plane.axes[dimension];
  return axis === undefined || typeof axis === "number" ? 1 : rangeLength(axis);
}

/** A plane of a tensor as a heat map; non-finite values have their own colours. */
export function HeatMap({ heat, plane, label, by, onBy, onArea }: HeatMapProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const pointed = useSignal<Pointed | null>(null);
  const dark = isDark.value;
  const isStretched = stretched.value;
  const scale = isStretched ? stretchedScale(heat.cells) : scaleFor(heat.low, heat.high);
  useLayoutEffect(() => {
    if (canvas.current !== null) paint(canvas.current, heat, scale, dark);
  }, [heat, dark, isStretched]);
  const [allRows, allColumns] = [length(plane, "row"), length(plane, "column")];
  const area = (at: { row: number; column: number }): readonly [number, number, number, number] => {
    const [top, bottom] = [
      Math.floor((at.row * allRows) / heat.rows),
      Math.ceil(((at.row + 1) * allRows) / heat.rows),
    ];
    const [left, right] = [
      Math.floor((at.column * allColumns) / heat.columns),
      Math.ceil(((at.column + 1) * allColumns) / heat.columns),
    ];
    return [top, bottom - top, left, right - left];
  };
  const find = (event: MouseEvent & { readonly currentTarget: HTMLCanvasElement }): Pointed => {
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const row = Math.min(Math.max(Math.floor((y / box.height) * heat.rows), 0), heat.rows - 1);
    const column = Math.min(
      Math.max(Math.floor((x / box.width) * heat.columns), 0),
      heat.columns - 1,
    );
    return { x, y, row, column };
  };
  return (
    <div class="heat">
      <div
        class="heat-frame"
        style={{
          aspectRatio: shownRatio(heat),
          maxWidth: `${Math.max(heat.columns, heat.rows * 0.4) * MOST_PIXELS}px`,
        }}
      >
        <canvas
          ref={canvas}
          role="img"
          aria-label={label}
          onMouseMove={(event) => (pointed.value = find(event))}
          onMouseLeave={() => (pointed.value = null)}
          onClick={(event) => onArea?.(...area(find(event)))}
        />
        {pointed.value !== null && (
          <Pointer
            heat={heat}
            plane={plane}
            at={pointed.value}
            area={area(pointed.value)}
            by={by}
          />
        )}
      </div>
      <HeatLegend scale={scale} />
      {(allRows > heat.rows || allColumns > heat.columns) && (
        <p class="cell-size">
          A cell is {cellSize(allRows, heat.rows)} × {cellSize(allColumns, heat.columns)} elements:{" "}
          {onBy === undefined ? (
            BY_TEXT[by]
          ) : (
            <span class="segments" role="radiogroup" aria-label="What a cell shows">
              {(["largest", "mean"] as const).map((each) => (
                <button
                  key={each}
                  type="button"
                  role="radio"
                  aria-checked={by === each}
                  onClick={() => onBy(each)}
                >
                  {BY_TEXT[each]}
                </button>
              ))}
            </span>
          )}
        </p>
      )}
    </div>
  );
}

const BY_TEXT: Readonly<Record<CellBy, string>> = {
  largest: "the one of largest |x|",
  mean: "their mean",
};

/** How many elements a cell covers in one direction, such as "13" or "12–13". */
function cellSize(all: number, cells: number): string {
  const [least, most] = [Math.floor(all / cells), Math.ceil(all / cells)];
  return least === most ? String(most) : `${least}–${most}`;
}

/** Cells are square if there is space; a vector or a long plane gets higher cells. */
function shownRatio(heat: Heat): string {
  const ratio = Math.min(Math.max(heat.columns / Math.max(heat.rows, 1), 0.4), 8);
  return String(ratio);
}

function paint(canvas: HTMLCanvasElement, heat: Heat, scale: Scale, dark: boolean): void {
  canvas.width = Math.max(heat.columns, 1);
  canvas.height = Math.max(heat.rows, 1);
  const context = canvas.getContext("2d");
  if (context === null || heat.cells.length === 0) return;
  const image = context.createImageData(canvas.width, canvas.height);
  heat.cells.forEach((cell, at) => {
    const [red, green, blue] = colourOf(cell, heat.marks[at] ?? 0, scale, dark);
    image.data.set([red, green, blue, 255], at * 4);
  });
  context.putImageData(image, 0, 0);
}

interface PointerProps {
  readonly heat: Heat;
  readonly plane: Plane;
  readonly at: Pointed;
  readonly area: readonly [number, number, number, number];
  readonly by: CellBy;
}

function Pointer({ heat, plane, at, area, by }: PointerProps): JSX.Element {
  const value = heat.cells[at.row * heat.columns + at.column] ?? null;
  const marks = heat.marks[at.row * heat.columns + at.column] ?? 0;
  const [row, rows, column, columns] = area;
  const text = (which: "row" | "column", first: number, count: number): string => {
    const start = placeOf(plane, which, first);
    return count > 1 ? `${start}…${placeOf(plane, which, first + count - 1)}` : String(start);
  };
  return (
    <div class="heat-pointer" style={{ left: `${at.x + 12}px`, top: `${at.y + 12}px` }}>
      [{plane.sliced.length === 2 ? `${text("row", row, rows)}, ` : ""}
      {text("column", column, columns)}] <b>{value === null ? "" : brief(value)}</b>
      {rows * columns > 1 && value !== null && (by === "mean" ? " mean" : " of largest |x|")}
      {MARKS.filter(([bit]) => (marks & bit) !== 0).map(([bit, name]) => (
        <b key={bit} class={bit === 1 ? "mark-nan" : "mark-inf"}>
          {" "}
          {name}
        </b>
      ))}
    </div>
  );
}

function HeatLegend({ scale }: { scale: Scale }): JSX.Element {
  const dark = isDark.value;
  const stops = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    cssColour(colourOf(scale.low + (scale.high - scale.low) * share, 0, scale, dark)),
  );
  return (
    <div class="heat-legend">
      <span>{brief(scale.low)}</span>
      <span class="ramp" style={{ background: `linear-gradient(90deg, ${stops.join(",")})` }} />
      <span>{brief(scale.high)}</span>
      <span class="swatch" style={{ background: cssColour(NAN_COLOUR) }} /> nan
      <span class="swatch" style={{ background: cssColour(POSITIVE_INF_COLOUR) }} /> +inf
      <span class="swatch" style={{ background: cssColour(NEGATIVE_INF_COLOUR) }} /> −inf
      <span class="spacer" />
      <label
        class="check"
        title="Spread the colours over the middle 96 % of the values; more extreme values get the end colours"
      >
        <input
          type="checkbox"
          checked={stretched.value}
          onChange={(event) => stretched.set(event.currentTarget.checked)}
        />
        more contrast
      </label>
    </div>
  );
}
