import { MARGIN } from "./placing";
import type { Line, Placed, Plan, Point, Sized } from "./scene";

/*
 * The outermost level of a model: the network in the middle, and what surrounds it in a training
 * step (data, loss, backward, clipping, optimizer) in a column beside it, in execution order.
 */

const COLUMN_GAP = 44;
const BOX_GAP = 22;
const BRACKET = 14;
const BRACKET_STEP = 7;
const HEAD_MIDDLE = 13;

interface Frame extends Sized {
  readonly at: Point;
  /** Its place in the column; -1: it is not in the column. */
  readonly place: number;
}

/** Adds the column to the right of what `main` has placed. */
export function withColumn(
  main: Placed,
  inMain: readonly Sized[],
  side: readonly Sized[],
  edges: Plan["edges"],
): Placed {
  const ordered = [...side].sort((a, b) => a.node.first_order - b.node.first_order);
  const left = main.width + COLUMN_GAP - MARGIN;
  const frames = new Map<string, Frame>();
  for (const each of inMain) {
    const at = main.at.get(each.node.path);
    if (at !== undefined) frames.set(each.node.path, { ...each, at, place: -1 });
  }
  let y = MARGIN;
  ordered.forEach((each, place) => {
    frames.set(each.node.path, { ...each, at: { x: left, y }, place });
    y += each.height + BOX_GAP;
  });
  const width = Math.max(0, ...ordered.map((each) => each.width));
  const lines = edges.flatMap((edge): Line[] => {
    const [from, to] = [frames.get(edge.source), frames.get(edge.target)];
    if (from === undefined || to === undefined || (from.place === -1 && to.place === -1)) return [];
    // What the line says, the dashed boxes inside an open network say, too.
    if (isObstructed(from, to, frames)) return [];
    const points = pointsBetween(from, to, left + width);
    return [{ ...edge, label: "", tensors: 1, points, at: points[0] ?? { x: 0, y: 0 } }];
  });
  const brackets = BRACKET + BRACKET_STEP * ordered.length;
  return {
    at: new Map([...frames].map(([path, frame]) => [path, frame.at])),
    lines: [...main.lines, ...lines],
    width: left + width + brackets + MARGIN,
    height: Math.max(main.height, y - BOX_GAP + MARGIN),
  };
}

/** Whether a line between a box of the main part and the column would cross another box. */
function isObstructed(from: Frame, to: Frame, frames: ReadonlyMap<string, Frame>): boolean {
  if (from.place !== -1 && to.place !== -1) return false;
  const [column, beside] = from.place === -1 ? [to, from] : [from, to];
  const [near = { x: 0, y: 0 }, far = { x: 0, y: 0 }] = besideColumn(column, beside);
  const [top, bottom] = [Math.min(near.y, far.y), Math.max(near.y, far.y)];
  return [...frames.values()].some(
    (other) =>
      other.place === -1 &&
      other !== beside &&
      other.at.x + other.width > near.x &&
      other.at.x < far.x &&
      other.at.y <= bottom &&
      other.at.y + other.height >= top,
  );
}

/** The middle of a box's side; of an open box, of its head. */
function middle({ at, height }: Frame): number {
  return at.y + Math.min(height / 2, HEAD_MIDDLE + 3);
}

function pointsBetween(from: Frame, to: Frame, right: number): Point[] {
  if (from.place !== -1 && to.place !== -1) return alongColumn(from, to, right);
  return from.place === -1 ? besideColumn(to, from) : besideColumn(from, to).reverse();
}

/** From the right side of a box to a box of the column. */
function besideColumn(column: Frame, beside: Frame): Point[] {
  const y = middle(column);
  const near = {
    x: beside.at.x + beside.width,
    y: Math.min(Math.max(y, beside.at.y + HEAD_MIDDLE), beside.at.y + beside.height - 6),
  };
  return [near, { x: column.at.x, y }];
}

/** Neighbours are joined by a short line, others by a bracket on the right. */
function alongColumn(from: Frame, to: Frame, right: number): Point[] {
  if (to.place === from.place + 1) {
    const x = from.at.x + Math.min(from.width, to.width) / 2;
    return [
      { x, y: from.at.y + from.height },
      { x, y: to.at.y },
    ];
  }
  const x = right + BRACKET + BRACKET_STEP * Math.min(from.place, to.place);
  const [top, bottom] = [middle(from) + 4, middle(to) - 4];
  return [
    { x: from.at.x + from.width, y: top },
    { x, y: top },
    { x, y: bottom },
    { x: to.at.x + to.width, y: bottom },
  ];
}
