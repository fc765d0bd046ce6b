import { api, type TensorAt } from "../load/api";
import { parseIndex, planeIndex, windowIndex, type Axis, type Plane } from "./slices";

/** What to find: NaN (1), +Inf (2) or -Inf (4). */
export type Bit = 1 | 2 | 4;

/** An element of a plane. */
export interface Cell {
  readonly row: number;
  readonly column: number;
}

/** The element found last: its tensor, its plane, and its place. */
export interface FoundMark extends Cell {
  readonly tensor: string;
  readonly axes: string;
  readonly bit: Bit;
}

export function isFoundMark(value: unknown): value is FoundMark | null {
  if (value === null) return true;
  if (
    typeof value !== "object" ||
    !("tensor" in value && "axes" in value && "bit" in value && "row" in value && "column" in value)
  )
    return false;
  return (
    typeof value.tensor === "string" &&
    typeof value.axes === "string" &&
    typeof value.row === "number" &&
    typeof value.column === "number"
  );
}

export interface Found {
  /** The plane, as the text of an index. */
  readonly index: string;
  readonly cell: Cell;
}

const HEAT_CELLS = 320;
const AT_ONCE = 16;
const TEXTS = { 1: "nan", 2: "inf", 4: "-inf" } as const;

/** All planes of a tensor parallel to `plane`, starting with the next one, `plane` last. */
export function planesAfter(plane: Plane, shape: readonly number[]): readonly (readonly Axis[])[] {
  const fixed = plane.axes.flatMap((axis, dimension) =>
    typeof axis === "number" ? [dimension] : [],
  );
  const count = fixed.reduce((product, dimension) => product * (shape[dimension] ?? 1), 1);
  const start = fixed.reduce(
    (number, dimension) => number * (shape[dimension] ?? 1) + Number(plane.axes[dimension]),
    0,
  );
  return Array.from({ length: count }, (_, turn) => {
    let rest = (start + turn + 1) % count;
    const axes = [...plane.axes];
    for (const dimension of fixed.toReversed()) {
      const size = shape[dimension] ?? 1;
      axes[dimension] = rest % size;
      rest = Math.floor(rest / size);
    }
    return axes;
  });
}

/** The part of a plane that one cell of its heat map covers. */
interface Block {
  readonly top: number;
  readonly rows: number;
  readonly left: number;
  readonly columns: number;
}

function blockOf(
  place: number,
  heat: { readonly rows: number; readonly columns: number },
  plane: Plane,
): Block {
  const [row, column] = [Math.floor(place / heat.columns), place % heat.columns];
  const [top, left] = [
    Math.floor((row * plane.rows) / heat.rows),
    Math.floor((column * plane.columns) / heat.columns),
  ];
  const rows = Math.ceil(((row + 1) * plane.rows) / heat.rows) - top;
  const columns = Math.ceil(((column + 1) * plane.columns) / heat.columns) - left;
  return { top, rows, left, columns };
}

function isIn(cell: Cell, { top, rows, left, columns }: Block): boolean {
  return (
    cell.row >= top && cell.row < top + rows && cell.column >= left && cell.column < left + columns
  );
}

export interface Search {
  readonly at: TensorAt;
  readonly shape: readonly number[];
  readonly plane: Plane;
  readonly bit: Bit;
  /** The element found last; null: search from the beginning of the plane. */
  readonly after: Cell | null;
}

/**
 * The next wanted element of one plane. The plane's heat map shows which blocks contain one; only
 * the values of such a block are loaded.
 */
async function findInPlane({ at, plane, bit, after }: Search): Promise<Cell | null> {
  const heat = await api.heat({
    ...at,
    index: windowIndex(plane, 0, plane.rows, 0, plane.columns),
    rows: HEAT_CELLS,
    columns: HEAT_CELLS,
    by: "mean",
  });
  let isPast = after === null;
  for (const [place, marks] of heat.marks.entries()) {
    const block = blockOf(place, heat, plane);
    const here = after !== null && !isPast && isIn(after, block) ? after : null;
    if (!isPast && here === null) continue;
    isPast = true;
    if ((marks & bit) === 0) continue;
    const { values, columns } = await api.table({
      ...at,
      index: windowIndex(plane, block.top, block.rows, block.left, block.columns),
    });
    const from =
      here === null ? 0 : (here.row - block.top) * columns + here.column - block.left + 1;
    const inside = values.indexOf(TEXTS[bit], from);
    if (inside !== -1)
      return {
        row: block.top + Math.floor(inside / columns),
        column: block.left + (inside % columns),
      };
  }
  return null;
}

/**
 * The next wanted element in the plane, then in the planes after it, then from the first plane on.
 */
export async function findNext(search: Search): Promise<Found | null> {
  const { at, shape, plane, bit } = search;
  const here = await findInPlane(search);
  if (here !== null) return { index: planeIndex(plane.axes, shape), cell: here };
  const others = planesAfter(plane, shape).map((axes) => planeIndex(axes, shape));
  for (let first = 0; first < others.length; first += AT_ONCE) {
    const some = others.slice(first, first + AT_ONCE);
    const heats = await Promise.all(
      some.map((index) => api.heat({ ...at, index, rows: 1, columns: 1, by: "mean" })),
    );
    const place = heats.findIndex((heat) => heat.marks.some((marks) => (marks & bit) !== 0));
    const index = some[place];
    if (index === undefined) continue;
    const cell = await findInPlane({ ...search, plane: parseIndex(index, shape), after: null });
    if (cell !== null) return { index, cell };
  }
  return null;
}
