import type { LevelNode } from "../wire";
import type { Box, Line, OpenLevel, Point, Scene } from "./scene";

/**
 * A scene as the worker sends it to the page: numbers in arrays, which are transferred instead of
 * copied. Boxes refer to nodes by index, because the page has the levels.
 */
export interface PackedScene {
  /**
   * Indexes into the nodes of all levels, one level after the other; negative ones (`~index`) into
   * `others`.
   */
  readonly nodes: Int32Array;
  /** Boxes that represent nodes outside a level; they are in no level. */
  readonly others: readonly LevelNode[];
  /** x, y, width, height of each box. */
  readonly frames: Float64Array;
  /** Twice the depth, and one more if it is open. */
  readonly states: Int32Array;
  /**
   * Source, target (places of boxes), tensors, label (place in `labels`), number of points of each
   * line.
   */
  readonly lines: Int32Array;
  readonly labels: readonly string[];
  /** For each line the position of its text, then its points. */
  readonly points: Float64Array;
  readonly width: number;
  readonly height: number;
}

const LINE = 5;
const FRAME = 4;

function nodesOf(levels: readonly OpenLevel[]): LevelNode[] {
  return levels.flatMap((each) => each.level.nodes);
}

/** `levels`: those the scene was made of; its boxes refer to the same node objects. */
export function pack(scene: Scene, levels: readonly OpenLevel[]): PackedScene {
  const places = new Map(nodesOf(levels).map((node, place) => [node, place]));
  const others: LevelNode[] = [];
  const boxAt = new Map<string, number>();
  const nodes = new Int32Array(scene.boxes.length);
  const frames = new Float64Array(scene.boxes.length * FRAME);
  const states = new Int32Array(scene.boxes.length);
  scene.boxes.forEach((box, place) => {
    nodes[place] = places.get(box.node) ?? ~(others.push(box.node) - 1);
    frames.set([box.x, box.y, box.width, box.height], place * FRAME);
    states[place] = 2 * box.depth + (box.isOpen ? 1 : 0);
    boxAt.set(box.path, place);
  });
  return {
    nodes,
    others,
    frames,
    states,
    ...packedLines(scene.lines, boxAt),
    width: scene.width,
    height: scene.height,
  };
}

function packedLines(
  all: readonly Line[],
  boxAt: ReadonlyMap<string, number>,
): Pick<PackedScene, "lines" | "labels" | "points"> {
  const drawn = all.filter((line) => boxAt.has(line.source) && boxAt.has(line.target));
  const labelAt = new Map<string, number>();
  const lines = new Int32Array(drawn.length * LINE);
  const points = new Float64Array(2 * drawn.reduce((sum, line) => sum + 1 + line.points.length, 0));
  let end = 0;
  drawn.forEach((line, place) => {
    const label = labelAt.get(line.label) ?? labelAt.size;
    labelAt.set(line.label, label);
    lines.set(
      [
        boxAt.get(line.source) ?? 0,
        boxAt.get(line.target) ?? 0,
        line.tensors,
        label,
        line.points.length,
      ],
      place * LINE,
    );
    for (const point of [line.at, ...line.points]) {
      points[end] = point.x;
      points[end + 1] = point.y;
      end += 2;
    }
  });
  return { lines, labels: [...labelAt.keys()], points };
}

/** The inverse of `pack`, with the nodes of the page's own levels. */
export function unpack(packed: PackedScene, levels: readonly OpenLevel[]): Scene {
  const known = nodesOf(levels);
  const boxes: Box[] = [];
  packed.nodes.forEach((number, place) => {
    const node = number < 0 ? packed.others[~number] : known[number];
    if (node === undefined) return;
    const [x = 0, y = 0, width = 0, height = 0] = packed.frames.subarray(
      place * FRAME,
      (place + 1) * FRAME,
    );
    const state = packed.states[place] ?? 0;
    boxes.push({
      path: node.path,
      node,
      x,
      y,
      width,
      height,
      depth: state >> 1,
      isOpen: (state & 1) === 1,
    });
  });
  const lines: Line[] = [];
  let at = 0;
  for (let place = 0; place < packed.lines.length; place += LINE) {
    const [from = 0, to = 0, tensors = 0, label = 0, count = 0] = packed.lines.subarray(
      place,
      place + LINE,
    );
    const points: Point[] = [];
    for (const end = at + 2 * (1 + count); at < end; at += 2)
      points.push({ x: packed.points[at] ?? 0, y: packed.points[at + 1] ?? 0 });
    const [text = { x: 0, y: 0 }, ...way] = points;
    const [source, target] = [boxes[from]?.path ?? "", boxes[to]?.path ?? ""];
    lines.push({
      source,
      target,
      label: packed.labels[label] ?? "",
      tensors,
      points: way,
      at: text,
    });
  }
  return { boxes, lines, width: packed.width, height: packed.height };
}

/** The buffers that are transferred to the page instead of copied. */
export function buffersOf(packed: PackedScene): Transferable[] {
  return [
    packed.nodes.buffer,
    packed.frames.buffer,
    packed.states.buffer,
    packed.lines.buffer,
    packed.points.buffer,
  ] as ArrayBuffer[];
}
