import { describe, expect, test } from "vitest";
import type { Level, LevelNode } from "../src/wire";
import { buffersOf, pack, unpack } from "../src/graph/packing";
import { SceneMaker, type OpenLevel } from "../src/graph/scene";

function node(path: string, order: number, what: LevelNode["what"] = "op"): LevelNode {
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
    hits: order,
    has_origin: false,
    first_order: order,
    last_order: order,
  };
}

function level(scope: string, nodes: LevelNode[], edges: readonly (readonly [string, string, string])[]): Level {
  const drawn = edges.map(([source, target, label], place) => ({ source, target, tensors: place, label }));
  return { graph: 0, scope, group: "", nodes, edges: drawn, hidden: 0 };
}

const LEVELS: readonly OpenLevel[] = [
  { path: "", key: "1", level: level("", [node("in", 0), node("S/", 1, "scope"), node("out", 3)], [["in", "S/", "a"], ["S/", "out", "b"]]) },
  {
    path: "S/",
    key: "2",
    level: level("S/", [node("S/a", 1), node("S/T/", 2, "scope"), node("in", 0, "outside")], [["in", "S/a", "a"], ["S/a", "S/T/", ""]]),
  },
  { path: "S/T/", key: "3", level: level("S/T/", [node("S/T/x", 2), node("S/T/y", 3)], [["S/T/x", "S/T/y", "a"]]) },
];

describe("a packed scene", () => {
  test("is the same after its way through the worker", () => {
    const scene = new SceneMaker().make(LEVELS, "");
    const packed = pack(scene, LEVELS);
    const arrived = structuredClone(packed, { transfer: buffersOf(packed) });
    expect(unpack(arrived, LEVELS)).toEqual(scene);
    expect(arrived.others.map((each) => each.path)).toEqual(["S/#in#in"]);
    expect(arrived.labels).toEqual(["a", "b", ""]);
  });

  test("of nothing is nothing", () => {
    const nothing = new SceneMaker().make([], "");
    expect(unpack(pack(nothing, []), [])).toEqual({ boxes: [], lines: [], width: 0, height: 0 });
  });

  test("has what is open at its place, however deep", () => {
    const { boxes } = new SceneMaker().make(LEVELS, "");
    const [outer, inner, op] = ["S/", "S/T/", "S/T/y"].map((path) => boxes.find((box) => box.path === path));
    for (const [round, within] of [[outer, inner], [inner, op]]) {
      if (round === undefined || within === undefined) throw new Error("a box is missing");
      expect(within.x).toBeGreaterThan(round.x);
      expect(within.y).toBeGreaterThan(round.y);
      expect(within.x + within.width).toBeLessThan(round.x + round.width);
      expect(within.y + within.height).toBeLessThan(round.y + round.height);
    }
    expect([outer?.depth, inner?.depth, op?.depth]).toEqual([0, 1, 2]);
  });
});
