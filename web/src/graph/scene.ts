import type { Level, LevelNode } from "../wire";
import { grouped } from "../text/numbers";
import { byDagre, byLayers, MARGIN } from "./placing";
import { withColumn } from "./sideColumn";
import { isSide } from "./sideParts";
import { FONTS, labelFont, textWidth } from "./textWidth";

/**
 * The positions of all boxes and lines. Levels are laid out one by one, inner ones first; an open
 * level is a box of the level around it. Runs in a worker.
 */
export interface Box {
  readonly path: string;
  readonly node: LevelNode;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly isOpen: boolean;
}

export interface Line {
  readonly source: string;
  readonly target: string;
  readonly label: string;
  readonly tensors: number;
  readonly points: readonly Point[];
  /** The middle of its text. */
  readonly at: Point;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Scene {
  readonly boxes: readonly Box[];
  readonly lines: readonly Line[];
  readonly width: number;
  readonly height: number;
}

/** A level that is on the screen; `key` changes when its content does. */
export interface OpenLevel {
  readonly path: string;
  readonly key: string;
  readonly level: Level;
}

const HEAD = 26;
// Beyond these numbers dagre is too slow, and layers in execution order are drawn instead.
const MOST_NODES = 260;
const MOST_EDGES = 700;
const MOST_PROXIES = 8;
const PHASES: readonly LevelNode["phase"][] = ["forward", "backward", "optimizer"];

export interface Plan {
  readonly nodes: readonly LevelNode[];
  readonly edges: readonly Level["edges"][number][];
}

export function boxSize(node: LevelNode): { readonly width: number; readonly height: number } {
  const text = textWidth(node.label, labelFont(node)) + textWidth(countText(node), FONTS.count);
  const width = Math.min(Math.max(text + 22, 62), 260);
  if (node.what === "outside") return { width: Math.min(width, 150), height: 18 };
  if (node.what === "op") return { width, height: node.kind === "op" ? 26 : 20 };
  return { width: width + 26, height: 32 };
}

/** The number in a box: the ops of a scope, or the members of a group. */
export function countText(node: LevelNode): string {
  if (node.what !== "scope" && node.what !== "group") return "";
  return node.stands_for > 1 ? `×${grouped(node.stands_for)}` : grouped(node.ops);
}

/** Lays out levels; those whose content and open boxes are unchanged are not laid out again. */
export class SceneMaker {
  private readonly known = new Map<string, Arranged>();
  private hasColumn = false;

  /** `hasColumn`: what surrounds the network is in a column beside it. */
  make(levels: readonly OpenLevel[], root: string, hasColumn = false): Scene {
    this.hasColumn = hasColumn;
    const byPath = new Map(levels.map((each) => [each.path, each]));
    const keys = new Map<string, string>();
    return flat(this.scene(root, byPath, keys));
  }

  private scene(
    path: string,
    levels: ReadonlyMap<string, OpenLevel>,
    keys: Map<string, string>,
  ): Arranged {
    const open = levels.get(path);
    if (open === undefined) return NOTHING;
    const inner = new Map<string, Arranged>();
    for (const node of open.level.nodes) {
      if (node.path !== path && node.what !== "outside" && levels.has(node.path)) {
        inner.set(node.path, this.scene(node.path, levels, keys));
      }
    }
    const key = `${open.key}|${[...inner.keys()].map((each) => keys.get(each) ?? "").join("|")}`;
    keys.set(path, key);
    const before = this.known.get(key);
    if (before !== undefined) return before;
    const made = arrange(plan(open.level, path), inner, this.hasColumn && path === "");
    if (this.known.size > 400) this.known.clear();
    this.known.set(key, made);
    return made;
  }
}

/** From this many members on a group is a strip in the order of the calls, without lines. */
const LEAST_IN_STRIP = 40;

function isInside(node: LevelNode): boolean {
  return node.what !== "outside";
}

function isStrip(level: Level): boolean {
  return level.group !== "" && level.nodes.filter(isInside).length >= LEAST_IN_STRIP;
}

/**
 * The level as it is drawn: boxes outside of it are at its border, many of them merged into one.
 */
export function plan(level: Level, path: string): Plan {
  if (isStrip(level)) return { nodes: level.nodes.filter(isInside), edges: [] };
  const outside = new Map(
    level.nodes.filter((node) => node.what === "outside").map((node) => [node.path, node]),
  );
  if (outside.size === 0) return level;
  const nodeOf = new Map(level.nodes.map((node) => [node.path, node]));
  const isEarlier = (one: string, other: string): boolean =>
    (nodeOf.get(one)?.first_order ?? 0) <= (nodeOf.get(other)?.last_order ?? 0);
  const phase = (path: string): number => PHASES.indexOf(nodeOf.get(path)?.phase ?? "forward");
  // Values that a later phase reads (saved tensors, gradients), or that it writes for the next
  // step,
  // are drawn in that phase.
  const sources = level.edges.filter(
    (edge) => outside.has(edge.source) && isEarlier(edge.source, edge.target),
  );
  const targets = level.edges.filter(
    (edge) => outside.has(edge.target) && phase(edge.target) <= phase(edge.source),
  );
  const within = level.edges.filter(
    (edge) => !outside.has(edge.source) && !outside.has(edge.target),
  );
  const nodes = level.nodes.filter((node) => node.what !== "outside");
  const edges = [...within];
  for (const [side, crossing] of [
    ["in", sources],
    ["out", targets],
  ] as const) {
    const end = side === "in" ? "source" : "target";
    const names = [...new Set(crossing.map((edge) => edge[end]))];
    const many = names.length > MOST_PROXIES;
    const proxies = new Map<string, LevelNode>();
    for (const edge of crossing) {
      const node = outside.get(edge[end]);
      if (node === undefined) continue;
      const name = many ? `${path}#${side}` : `${path}#${side}#${node.path}`;
      const label = many
        ? `${names.length} ${side === "in" ? "sources" : "users"} outside`
        : node.label;
      proxies.set(name, { ...node, path: name, label, members: many ? names : [node.path] });
      edges.push({ ...edge, [end]: name });
    }
    nodes.push(...proxies.values());
  }
  return { nodes, edges: merged(edges) };
}

function merged(edges: Plan["edges"]): Plan["edges"] {
  const found = new Map<string, Plan["edges"][number]>();
  for (const edge of edges) {
    const key = `${edge.source}\n${edge.target}`;
    const before = found.get(key);
    if (before === undefined) found.set(key, edge);
    else {
      const label = before.label === edge.label ? edge.label : "";
      found.set(key, { ...edge, tensors: before.tensors + edge.tensors, label });
    }
  }
  return [...found.values()];
}

export interface Sized {
  readonly node: LevelNode;
  readonly width: number;
  readonly height: number;
}

export interface Placed {
  readonly at: ReadonlyMap<string, Point>;
  readonly lines: readonly Line[];
  readonly width: number;
  readonly height: number;
}

function arrange(what: Plan, inner: ReadonlyMap<string, Arranged>, hasColumn: boolean): Arranged {
  const sized = what.nodes.map((node): Sized => {
    const scene = inner.get(node.path);
    if (scene === undefined) return { node, ...boxSize(node) };
    return {
      node,
      width: Math.max(scene.width + 2 * MARGIN, boxSize(node).width + 40),
      height: scene.height + HEAD + MARGIN,
    };
  });
  const side = hasColumn ? sized.filter(({ node }) => isSide(node)) : [];
  const main = side.length === 0 ? sized : sized.filter(({ node }) => !isSide(node));
  if (side.length === 0 || main.length === 0)
    return assemble(sized, placedByFlow(sized, what.edges), inner);
  const names = new Set(main.map(({ node }) => node.path));
  const edges = what.edges.filter(({ source, target }) => names.has(source) && names.has(target));
  const placed = withColumn(placedByFlow(main, edges), main, side, what.edges);
  return assemble(sized, placed, inner);
}

function placedByFlow(sized: readonly Sized[], edges: Plan["edges"]): Placed {
  if (edges.length === 0 && sized.length >= LEAST_IN_STRIP) return byLayers(sized, edges);
  const isSmall = sized.length <= MOST_NODES && edges.length <= MOST_EDGES;
  return isSmall ? byDagre(sized, edges) : byLayers(sized, edges);
}

/** A level that is laid out; the positions of open levels inside it are relative to their boxes. */
interface Arranged {
  readonly parts: readonly { readonly box: Box; readonly inner: Arranged | null }[];
  readonly lines: readonly Line[];
  readonly width: number;
  readonly height: number;
}

const NOTHING: Arranged = { parts: [], lines: [], width: 0, height: 0 };

function assemble(
  sized: readonly Sized[],
  placed: Placed,
  inside: ReadonlyMap<string, Arranged>,
): Arranged {
  const parts = sized.flatMap(({ node, width, height }): Arranged["parts"][number][] => {
    const at = placed.at.get(node.path);
    if (at === undefined) return [];
    const inner = inside.get(node.path) ?? null;
    return [
      {
        box: {
          path: node.path,
          node,
          x: at.x,
          y: at.y,
          width,
          height,
          depth: 0,
          isOpen: inner !== null,
        },
        inner,
      },
    ];
  });
  return { parts, lines: placed.lines, width: placed.width, height: placed.height };
}

/** All open levels together, with absolute positions. */
function flat(root: Arranged): Scene {
  const boxes: Box[] = [];
  const lines: Line[] = [];
  const move = (scene: Arranged, right: number, down: number, depth: number): void => {
    for (const line of scene.lines) {
      const moved = ({ x, y }: Point): Point => ({ x: x + right, y: y + down });
      lines.push(
        depth === 0 ? line : { ...line, points: line.points.map(moved), at: moved(line.at) },
      );
    }
    for (const { box, inner } of scene.parts) {
      boxes.push(depth === 0 ? box : { ...box, x: box.x + right, y: box.y + down, depth });
      if (inner === null) continue;
      const margin = Math.max((box.width - inner.width) / 2, MARGIN);
      move(inner, right + box.x + margin, down + box.y + HEAD, depth + 1);
    }
  };
  move(root, 0, 0, 0);
  return { boxes, lines, width: root.width, height: root.height };
}
