import { Graph, layout, type EdgeLabel, type GraphLabel, type NodeLabel } from "@dagrejs/dagre";
import type { Line, Placed, Plan, Point, Sized } from "./scene";
import { FONTS, textWidth } from "./textWidth";
import { edgeText, labelPlace } from "./view";

/** Positions of the boxes of one level, and the lines of its edges. */
export const MARGIN = 12;
const LAYER_GAP = 30;
const MOST_LABELLED = 150;
const LABEL_HEIGHT = 11;
const ROW_WIDTH = 1400;
/** The width of rows without edges: modules before their ops are known. */
const LOOSE_ROW_WIDTH = 560;
const GAP = 16;

/** Places boxes by the data flow, from top to bottom. */
export function byDagre(sized: readonly Sized[], edges: Plan["edges"]): Placed {
  if (edges.length === 0) return byLayers(sized, edges, LOOSE_ROW_WIDTH);
  const graph = new Graph<GraphLabel, NodeLabel, EdgeLabel>({ multigraph: true, compound: false });
  graph.setGraph({
    rankdir: "TB",
    nodesep: GAP,
    ranksep: LAYER_GAP,
    edgesep: 8,
    marginx: MARGIN,
    marginy: MARGIN,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { node, width, height } of sized) graph.setNode(node.path, { width, height });
  // A box whose first op runs after the last op of another box is below it, even if it writes into
  // the other box: that edge points upwards.
  const nodes = new Map(sized.map(({ node }) => [node.path, node]));
  const isUpward = (edge: Plan["edges"][number]): boolean => {
    const [source, target] = [nodes.get(edge.source), nodes.get(edge.target)];
    if (
      source === undefined ||
      target === undefined ||
      source.what === "outside" ||
      target.what === "outside"
    )
      return false;
    return source.kind === "op" && source.first_order > target.last_order;
  };
  const ends = (edge: Plan["edges"][number]): readonly [string, string, string] =>
    isUpward(edge) ? [edge.target, edge.source, "up"] : [edge.source, edge.target, "down"];
  for (const edge of edges) {
    const [top, bottom, name] = ends(edge);
    if (top !== bottom && nodes.has(top) && nodes.has(bottom))
      graph.setEdge(top, bottom, labelRoom(edge, edges.length), name);
  }
  for (const [top, bottom] of latecomers(sized, edges))
    graph.setEdge(top, bottom, { weight: 0 }, "after");
  layout(graph);
  const at = new Map<string, Point>();
  for (const { node, width, height } of sized) {
    const found = graph.node(node.path);
    at.set(node.path, { x: (found.x ?? 0) - width / 2, y: (found.y ?? 0) - height / 2 });
  }
  const lines = edges.flatMap((edge): Line[] => {
    const [top, bottom, name] = ends(edge);
    if (!graph.hasEdge(top, bottom, name)) return [];
    const { points: found, x, y } = graph.edge(top, bottom, name);
    const points = (found ?? []).map((point) => ({ x: point.x, y: point.y }));
    if (name === "up") points.reverse();
    return [
      { ...edge, points, at: x === undefined || y === undefined ? labelPlace(points) : { x, y } },
    ];
  });
  const size = graph.graph();
  return { at, lines, width: size.width ?? 0, height: size.height ?? 0 };
}

/**
 * Pairs of boxes, the first above the second: a value that comes from outside after ops of this
 * level have run, and that ops of the same phase use (such as clipped gradients), is below the last
 * of those ops.
 */
function latecomers(
  sized: readonly Sized[],
  edges: Plan["edges"],
): readonly (readonly [string, string])[] {
  const nodes = new Map(sized.map(({ node }) => [node.path, node]));
  const acting = sized
    .map(({ node }) => node)
    .filter((node) => node.what !== "outside" && node.kind === "op" && node.phase === "forward");
  const pairs = new Map<string, string>();
  for (const { source, target } of edges) {
    const late = nodes.get(source);
    if (late?.what !== "outside" || nodes.get(target)?.phase !== "forward" || pairs.has(source))
      continue;
    const before = acting.filter((node) => node.last_order < late.first_order);
    if (before.length === 0) continue;
    pairs.set(
      source,
      before.reduce((last, node) => (node.last_order > last.last_order ? node : last)).path,
    );
  }
  return [...pairs].map(([below, above]) => [above, below] as const);
}

/** Space for the text of an edge, if the level has few enough edges to read them. */
function labelRoom(edge: Plan["edges"][number], count: number): EdgeLabel {
  const text = edgeText(edge.label, edge.tensors);
  if (count > MOST_LABELLED || text === "") return {};
  return { width: Math.min(textWidth(text, FONTS.edge), 110), height: LABEL_HEIGHT, labelpos: "c" };
}

/** Places boxes in layers by the longest path from a source, each layer in execution order and
 * wrapped to a readable width. */
export function byLayers(
  sized: readonly Sized[],
  edges: Plan["edges"],
  rowWidth = ROW_WIDTH,
): Placed {
  const ordered = [...sized].sort((a, b) => a.node.first_order - b.node.first_order);
  const position = new Map(ordered.map((each, place) => [each.node.path, place]));
  const sources = new Map<string, string[]>();
  for (const edge of edges) {
    const from = position.get(edge.source);
    const to = position.get(edge.target);
    // An edge against the execution order (a value of the previous step) does not affect the
    // layers.
    if (from !== undefined && to !== undefined && from < to) {
      const known = sources.get(edge.target);
      if (known === undefined) sources.set(edge.target, [edge.source]);
      else known.push(edge.source);
    }
  }
  const layer = new Map<string, number>();
  const layers: Sized[][] = [];
  for (const each of ordered) {
    const depth =
      Math.max(-1, ...(sources.get(each.node.path) ?? []).map((name) => layer.get(name) ?? -1)) + 1;
    layer.set(each.node.path, depth);
    (layers[depth] ??= []).push(each);
  }
  const rows = layers.flatMap((boxes) => wrapped(boxes, rowWidth));
  const width = Math.max(0, ...rows.map((row) => row.width)) + 2 * MARGIN;
  const at = new Map<string, Point>();
  let y = MARGIN;
  for (const row of rows) {
    let x = (width - row.width) / 2;
    for (const { node, width: w } of row.boxes) {
      at.set(node.path, { x, y });
      x += w + GAP;
    }
    y += Math.max(...row.boxes.map((each) => each.height)) + (row.endsLayer ? LAYER_GAP : GAP);
  }
  return {
    at,
    lines: straight(edges, at, new Map(sized.map((each) => [each.node.path, each]))),
    width,
    height: y,
  };
}

interface Row {
  readonly boxes: readonly Sized[];
  readonly width: number;
  readonly endsLayer: boolean;
}

/** Divides a layer into rows of a readable width. */
function wrapped(boxes: readonly Sized[], rowWidth: number): Row[] {
  const rows: Sized[][] = [[]];
  let width = 0;
  for (const each of boxes) {
    if (width > 0 && width + each.width > rowWidth) {
      rows.push([]);
      width = 0;
    }
    rows.at(-1)?.push(each);
    width += each.width + GAP;
  }
  return rows.map((row, place) => ({
    boxes: row,
    width: row.reduce((sum, each) => sum + each.width + GAP, -GAP),
    endsLayer: place === rows.length - 1,
  }));
}

function straight(
  edges: Plan["edges"],
  at: ReadonlyMap<string, Point>,
  sizes: ReadonlyMap<string, Sized>,
): readonly Line[] {
  return edges.flatMap((edge): Line[] => {
    const [from, to] = [at.get(edge.source), at.get(edge.target)];
    const [a, b] = [sizes.get(edge.source), sizes.get(edge.target)];
    if (from === undefined || to === undefined || a === undefined || b === undefined) return [];
    const points = [
      { x: from.x + a.width / 2, y: from.y + a.height },
      { x: to.x + b.width / 2, y: to.y },
    ];
    return [{ ...edge, points, at: labelPlace(points) }];
  });
}
