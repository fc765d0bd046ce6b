import { grouped } from "../text/numbers";
import type { Box, Line, Point, Scene } from "./scene";
import { isSide } from "./sideParts";

/**
 * The visible part of a scene: a screen point is the scene point times `scale`, plus the offset.
 */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Rectangle {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export const LEAST_SCALE = 0.02;
export const MOST_SCALE = 2.5;
const ROOM = 24;
/** At this scale text is still readable: most of it is 11 pixels high at scale 1. */
export const READABLE_SCALE = 0.8;
/** A point in this share of the screen, from its upper left corner on, is well visible. */
const SEEN_SHARE = 0.7;

export function fitted(scene: Scene, width: number, height: number): View {
  if (scene.width === 0 || width === 0) return { x: 0, y: 0, scale: 1 };
  const scale = Math.min((width - 2 * ROOM) / scene.width, (height - 2 * ROOM) / scene.height, 1.1);
  const readable = Math.max(scale, LEAST_SCALE);
  return {
    scale: readable,
    x: (width - scene.width * readable) / 2,
    y: Math.max((height - scene.height * readable) / 2, ROOM),
  };
}

export function isReadable(scene: Scene, width: number, height: number): boolean {
  return fitted(scene, width, height).scale >= READABLE_SCALE;
}

/**
 * The initial view of a scene: the whole scene if its text is readable then, else its beginning.
 */
export function begun(scene: Scene, width: number, height: number): View {
  const whole = fitted(scene, width, height);
  const first = scene.boxes
    .filter(
      (box) =>
        !box.isOpen && box.node.what !== "outside" && box.node.kind === "op" && !isSide(box.node),
    )
    .reduce<Box | null>(
      (best, box) => (best === null || box.node.first_order < best.node.first_order ? box : best),
      null,
    );
  if (whole.scale >= READABLE_SCALE || first === null) return whole;
  const scale = READABLE_SCALE;
  return {
    scale,
    x: start((first.x + first.width / 2) * scale, scene.width * scale, width, 1 / 2),
    y: start((first.y + first.height / 2) * scale, scene.height * scale, height, 1 / 4),
  };
}

/** As `offset`, but from the edge of the scene on if `point` is well on the screen then. */
function start(point: number, size: number, all: number, at: number): number {
  const isSeen = size > all - 2 * ROOM && point + ROOM <= all * SEEN_SHARE;
  return isSeen ? ROOM : offset(point, size, all, at);
}

/**
 * Moves `point` to the share `at` of the screen `all`, without empty space beside a scene of
 * `size`.
 */
function offset(point: number, size: number, all: number, at: number): number {
  if (size <= all - 2 * ROOM) return (all - size) / 2;
  return Math.min(Math.max(all * at - point, all - ROOM - size), ROOM);
}

export function zoomed(view: View, factor: number, around: Point): View {
  const scale = Math.min(Math.max(view.scale * factor, LEAST_SCALE), MOST_SCALE);
  const change = scale / view.scale;
  return {
    scale,
    x: around.x - (around.x - view.x) * change,
    y: around.y - (around.y - view.y) * change,
  };
}

/** Centres `box`, without empty space beside the scene. */
export function centredOn(
  scene: Scene,
  box: Box,
  width: number,
  height: number,
  scale: number,
): View {
  const top = box.isOpen
    ? box.y + Math.min(box.height, height / scale) / 2
    : box.y + box.height / 2;
  return {
    scale,
    x: offset((box.x + box.width / 2) * scale, scene.width * scale, width, 1 / 2),
    y: offset(top * scale, scene.height * scale, height, 1 / 2),
  };
}

/**
 * `view`, moved, and zoomed out a little if necessary, so that `box` is visible, its top left
 * first.
 */
export function showing(view: View, box: Box, width: number, height: number): View {
  const room = Math.min((width - 2 * ROOM) / box.width, (height - 2 * ROOM) / box.height);
  const scale = Math.min(view.scale, Math.max(room, READABLE_SCALE));
  const change = scale / view.scale;
  const [left, top] = [box.x * scale, box.y * scale];
  const place = (start: number, size: number, offset: number, all: number): number => {
    const most = ROOM - start;
    const least = all - ROOM - start - size;
    return least > most
      ? Math.min(Math.max(offset, most), least)
      : Math.min(Math.max(offset, least), most);
  };
  const fits = (size: number, all: number): boolean => size <= all - 2 * ROOM;
  const x = view.x + box.x * view.scale * (1 - change);
  const y = view.y + box.y * view.scale * (1 - change);
  return {
    scale,
    x: fits(box.width * scale, width)
      ? place(left, box.width * scale, x, width)
      : width / 2 - left - (box.width * scale) / 2,
    y: fits(box.height * scale, height) ? place(top, box.height * scale, y, height) : ROOM - top,
  };
}

/** The part of the scene that is visible, with a margin of `share` of the screen on each side. */
export function visible(view: View, width: number, height: number, share: number): Rectangle {
  const [w, h] = [width / view.scale, height / view.scale];
  const [left, top] = [-view.x / view.scale, -view.y / view.scale];
  return {
    left: left - w * share,
    top: top - h * share,
    right: left + w * (1 + share),
    bottom: top + h * (1 + share),
  };
}

export function contains(outer: Rectangle, inner: Rectangle): boolean {
  return (
    outer.left <= inner.left &&
    outer.top <= inner.top &&
    outer.right >= inner.right &&
    outer.bottom >= inner.bottom
  );
}

export function meets(box: Box, area: Rectangle): boolean {
  return (
    box.x < area.right &&
    box.x + box.width > area.left &&
    box.y < area.bottom &&
    box.y + box.height > area.top
  );
}

export function lineMeets(line: Line, area: Rectangle): boolean {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const point of line.points) {
    left = Math.min(left, point.x);
    right = Math.max(right, point.x);
    top = Math.min(top, point.y);
    bottom = Math.max(bottom, point.y);
  }
  return left < area.right && right > area.left && top < area.bottom && bottom > area.top;
}

/** A smooth path through the points: each corner is a curve between the centres of two segments. */
export function pathOf(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  const text = (value: number): string => value.toFixed(1);
  let path = `M${text(first.x)} ${text(first.y)}`;
  rest.forEach((point, place) => {
    const next = rest[place + 1];
    if (next === undefined) path += `L${text(point.x)} ${text(point.y)}`;
    else {
      const middle = { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
      path += `Q${text(point.x)} ${text(point.y)} ${text(middle.x)} ${text(middle.y)}`;
    }
  });
  return path;
}

/** The position of an edge's text: its middle or, if it points upwards, nearer to its start. */
export function labelPlace(points: readonly Point[]): Point {
  const [first, last] = [points[0], points.at(-1)];
  const isUpward = first !== undefined && last !== undefined && first.y > last.y;
  const next = points[1];
  if (!isUpward || next === undefined) return middleOf(points);
  return { x: first.x + (next.x - first.x) * 0.6, y: first.y + (next.y - first.y) * 0.6 };
}

function middleOf(points: readonly Point[]): Point {
  const at = points[Math.floor(points.length / 2)];
  if (points.length % 2 === 1 || points.length < 2) return at ?? { x: 0, y: 0 };
  const before = points[points.length / 2 - 1];
  if (at === undefined || before === undefined) return { x: 0, y: 0 };
  return { x: (at.x + before.x) / 2, y: (at.y + before.y) / 2 };
}

/** float32[8,128] as 8×128; types other than float32 are named. */
export function edgeText(label: string, tensors: number): string {
  const found = /^(\w+) ?\[([\d, ]*)\]$/.exec(label);
  if (found === null)
    return label !== "" ? label : tensors > 1 ? `${grouped(tensors)} tensors` : "";
  const shape = (found[2] ?? "")
    .split(",")
    .map((size) => size.trim())
    .join("×");
  const type = found[1] === "float32" ? "" : `${found[1] ?? ""} `;
  const text = type + (shape === "" ? "scalar" : shape);
  return tensors > 1 ? `${grouped(tensors)} × ${text}` : text;
}
