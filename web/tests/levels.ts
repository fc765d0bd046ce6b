/** Levels of a graph as the server sends them, for the tests beside this file. */
import type { Level, LevelNode } from "../src/wire";

export function node(
  path: string,
  order: number,
  what: LevelNode["what"] = "op",
  hits = 0,
): LevelNode {
  return {
    path,
    label: path,
    what,
    type: "add",
    kind: "op",
    phase: "forward",
    ops: 1,
    stands_for: 1,
    members: what === "outside" ? [path] : [],
    hits,
    has_origin: false,
    findings: [],
    first_order: order,
    last_order: order,
    part: "",
    is_function: false,
  };
}

type Drawn = readonly [source: string, target: string, label?: string, tensors?: number];

export function level(scope: string, nodes: LevelNode[], edges: readonly Drawn[]): Level {
  const drawn = edges.map(([source, target, label = "float32 [2, 3]", tensors = 1]) => ({
    source,
    target,
    tensors,
    label,
  }));
  return { graph: 0, scope, group: "", nodes, edges: drawn, hidden: 0 };
}
