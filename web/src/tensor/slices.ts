/**
 * The index of a plane of a tensor, such as `[0, :, 3:5]`: at most two dimensions are sliced, and
 * dimensions that are not named, at the end or at the place of `...`, are taken whole. The brackets
 * may be left out. Tables and heat maps request parts of a plane.
 */
export interface Range {
  readonly start: number;
  readonly stop: number;
  readonly step: number;
}

export type Axis = number | Range;

export interface Plane {
  readonly axes: readonly Axis[];
  /** The sliced dimensions, at most two: rows, then columns. */
  readonly sliced: readonly number[];
  readonly rows: number;
  readonly columns: number;
}

export class IndexError extends Error {}

const LEAST_STEP = 1;
const REST = "...";

export function rangeLength(range: Range): number {
  return Math.max(0, Math.ceil((range.stop - range.start) / range.step));
}

/** The last two dimensions, at index 0 of all others. */
export function defaultIndex(shape: readonly number[]): string {
  return `[${shape.map((_, axis) => (axis >= shape.length - 2 ? ":" : "0")).join(", ")}]`;
}

/**
 * The plane `text` names in a tensor of `shape`; empty text, or `...` alone: the default.
 * IndexError says why not.
 */
export function parseIndex(text: string, shape: readonly number[]): Plane {
  const inside = (index: string): string => index.replace(/^\[/, "").replace(/\]$/, "").trim();
  const isDefault = text.trim() === "" || inside(text.trim()) === REST;
  const parts = wholeParts(inside(isDefault ? defaultIndex(shape) : text.trim()), shape);
  const axes = parts.map((part, axis) => parseAxis(part, axis, shape[axis] ?? 0));
  const sliced = axes.flatMap((axis, place) => (typeof axis === "number" ? [] : [place]));
  if (sliced.length > 2) {
    throw new IndexError(
      `At most two dimensions can be sliced; an example: ${defaultIndex(shape)}`,
    );
  }
  const lengths = sliced.map((place) => rangeLength(axes[place] as Range));
  return {
    axes,
    sliced,
    rows: sliced.length === 2 ? (lengths[0] ?? 1) : 1,
    columns: lengths[sliced.length - 1] ?? 1,
  };
}

/** One word for each dimension; ":" for those that are not named. */
function wholeParts(body: string, shape: readonly number[]): string[] {
  const words = body === "" ? [] : body.split(",").map((part) => part.trim());
  const rest = words.indexOf(REST);
  if (rest !== words.lastIndexOf(REST)) throw new IndexError("The index has ... more than once");
  const named = words.length - (rest === -1 ? 0 : 1);
  if (named > shape.length) {
    throw new IndexError(
      `The tensor has ${shape.length} dimensions, but the index has ${named}; an example: ${defaultIndex(shape)}`,
    );
  }
  const whole = Array.from({ length: shape.length - named }, () => ":");
  if (rest === -1) return [...words, ...whole];
  return [...words.slice(0, rest), ...whole, ...words.slice(rest + 1)];
}

function parseAxis(part: string, axis: number, size: number): Axis {
  if (/^-?\d+$/.test(part)) {
    const given = Number(part);
    const place = given < 0 ? given + size : given;
    if (place < 0 || place >= size) {
      throw new IndexError(`Index ${given} is out of range for dimension ${axis} of size ${size}`);
    }
    return place;
  }
  const match = /^(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(\d+)?)?$/.exec(part);
  if (match === null) {
    throw new IndexError(`“${part}” is neither a number nor a slice such as 3:5 or ::2`);
  }
  const step = match[3] === undefined ? LEAST_STEP : Number(match[3]);
  if (step < LEAST_STEP)
    throw new IndexError(`The step of a slice must be at least 1 (dimension ${axis})`);
  const clip = (given: string | undefined, otherwise: number): number => {
    if (given === undefined) return otherwise;
    const place = Number(given) < 0 ? Number(given) + size : Number(given);
    return Math.min(Math.max(place, 0), size);
  };
  const start = clip(match[1], 0);
  return { start, stop: Math.max(start, clip(match[2], size)), step };
}

/** `plane` narrowed to rows [row, row + rows) and columns likewise, as the text of an index. */
export function windowIndex(
  plane: Plane,
  row: number,
  rows: number,
  column: number,
  columns: number,
): string {
  const [first, second] = plane.sliced;
  const texts = plane.axes.map((axis, place) => {
    if (typeof axis === "number") return String(axis);
    const isRow = plane.sliced.length === 2 && place === first;
    const isColumn = plane.sliced.length === 2 ? place === second : true;
    if (isRow) return rangeText(axis, row, rows);
    return isColumn ? rangeText(axis, column, columns) : ":";
  });
  return `[${texts.join(", ")}]`;
}

function rangeText(range: Range, from: number, count: number): string {
  const start = range.start + from * range.step;
  const stop = Math.min(range.start + (from + count) * range.step, range.stop);
  return range.step === 1 ? `${start}:${stop}` : `${start}:${stop}:${range.step}`;
}

/** The place in the tensor of a row or column of the plane. */
export function placeOf(plane: Plane, which: "row" | "column", at: number): number {
  const dimension = which === "row" ? plane.sliced[0] : plane.sliced[plane.sliced.length - 1];
  const axis = dimension === undefined ? undefined : plane.axes[dimension];
  return axis === undefined || typeof axis === "number" ? at : axis.start + at * axis.step;
}

/** The axes as the text of an index; whole dimensions are ":". */
export function planeIndex(axes: readonly Axis[], shape: readonly number[]): string {
  const texts = axes.map((axis, dimension) => {
    if (typeof axis === "number") return String(axis);
    const isWhole = axis.step === 1 && axis.start === 0 && axis.stop === (shape[dimension] ?? 0);
    const ends = isWhole ? ":" : `${axis.start}:${axis.stop}`;
    return axis.step === 1 ? ends : `${ends}:${axis.step}`;
  });
  return `[${texts.join(", ")}]`;
}

/** The index with dimension `axis`, now at one place, moved by `by`, kept inside. */
export function movedIndex(
  plane: Plane,
  axis: number,
  by: number,
  shape: readonly number[],
): string {
  const moved = plane.axes.map((each, dimension) =>
    typeof each === "number" && dimension === axis
      ? Math.min(Math.max(each + by, 0), (shape[dimension] ?? 1) - 1)
      : each,
  );
  return planeIndex(moved, shape);
}
