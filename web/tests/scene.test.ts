import { describe, expect, test } from "vitest";
import type { Level, LevelNode } from "../src/wire";
import { byLayers, plan, SceneMaker, type Scene } from "../src/graph/scene";
import { edgeText, fitted, pathOf, showing } from "../src/graph/view";
import { colourOf, NAN_COLOUR, scaleFor } from "../src/tensor/colours";

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
    hits: 0,
    has_origin: false,
    first_order: order,
    last_order: order,
  };
}

function level(scope: string, nodes: LevelNode[], edges: readonly (readonly [string, string])[]): Level {
  const drawn = edges.map(([source, target]) => ({ source, target, tensors: 1, label: "float32 [2, 3]" }));
  return { graph: 0, scope, group: "", nodes, edges: drawn, hidden: 0 };
}

const ROOT = level("", [node("in", 0), node("S/", 1, "scope"), node("out", 3)], [["in", "S/"], ["S/", "out"]]);
const INSIDE = level("S/", [node("S/a", 1), node("S/b", 2), node("in", 0, "outside")], [["in", "S/a"], ["S/a", "S/b"]]);

function box(scene: Scene, path: string): Scene["boxes"][number] {
  const found = scene.boxes.find((each) => each.path === path);
  if (found === undefined) throw new Error(`no box ${path}`);
  return found;
}

describe("a scene", () => {
  test("puts data flow from top to bottom and open scopes round what they hold", () => {
    const maker = new SceneMaker();
    const scene = maker.make([{ path: "", key: "1", level: ROOT }, { path: "S/", key: "2", level: INSIDE }], "");
    const [outer, a, b] = [box(scene, "S/"), box(scene, "S/a"), box(scene, "S/b")];
    expect(outer.isOpen).toBe(true);
    expect(box(scene, "in").y).toBeLessThan(outer.y);
    expect(a.y).toBeLessThan(b.y);
    for (const each of [a, b]) {
      expect(each.x).toBeGreaterThanOrEqual(outer.x);
      expect(each.x + each.width).toBeLessThanOrEqual(outer.x + outer.width);
      expect(each.y + each.height).toBeLessThanOrEqual(outer.y + outer.height);
      expect(each.depth).toBe(1);
    }
    const same = maker.make([{ path: "", key: "1", level: ROOT }, { path: "S/", key: "2", level: INSIDE }], "");
    expect(same).toEqual(scene);
  });

  test("shows what lies outside at the rim, many as one", () => {
    const few = plan(INSIDE, "S/");
    expect(few.nodes.map((each) => each.path)).toEqual(["S/a", "S/b", "S/#in#in"]);
    const outside = Array.from({ length: 12 }, (_, at) => node(`o${at}`, at, "outside"));
    const many = plan(level("S/", [node("S/a", 20), ...outside], outside.map((each) => [each.path, "S/a"] as const)), "S/");
    expect(many.nodes.map((each) => each.label)).toEqual(["S/a", "12 sources outside"]);
    expect(many.edges).toMatchObject([{ source: "S/#in", target: "S/a", tensors: 12 }]);
  });

  test("lays out thousands of boxes in layers without overlap", () => {
    const count = 3000;
    const sized = Array.from({ length: count }, (_, at) => ({ node: node(`n${at}`, at), width: 80, height: 26 }));
    const edges = Array.from({ length: count - 1 }, (_, at) => ({ source: `n${Math.floor(at / 3)}`, target: `n${at + 1}`, tensors: 1, label: "" }));
    const placed = byLayers(sized, edges);
    const seen = new Set([...placed.at.values()].map(({ x, y }) => `${x} ${y}`));
    expect(seen.size).toBe(count);
    for (const { source, target } of edges) {
      expect(placed.at.get(source)?.y).toBeLessThan(placed.at.get(target)?.y ?? 0);
    }
  });
});

test("a view shows a whole box, or its top when there is no room", () => {
  const scene: Scene = { boxes: [], lines: [], width: 1000, height: 500 };
  expect(fitted(scene, 548, 548).scale).toBe(0.5);
  const large = { path: "", node: node("x", 0), x: 900, y: 900, width: 50, height: 4000, depth: 0, isOpen: true };
  const view = showing({ x: 0, y: 0, scale: 1 }, large, 600, 400);
  expect(large.y * view.scale + view.y).toBeCloseTo(24);
});

test("edges have short texts and smooth ways", () => {
  expect(edgeText("float32 [8, 128]", 1)).toBe("8×128");
  expect(edgeText("int64[3]", 2)).toBe("2 × int64 3");
  expect(edgeText("float32 []", 1)).toBe("scalar");
  expect(edgeText("", 4)).toBe("4 tensors");
  expect(pathOf([{ x: 0, y: 0 }, { x: 0, y: 10 }, { x: 10, y: 20 }])).toBe("M0.0 0.0Q0.0 10.0 5.0 15.0L10.0 20.0");
});

test("a heat map's zero is neutral and NaN has a colour of its own", () => {
  const scale = scaleFor(-1, 4);
  expect(scale).toEqual({ low: -4, high: 4, isDiverging: true });
  expect(colourOf(0, 0, scale, false)).toEqual([248, 248, 246]);
  expect(colourOf(4, 0, scale, true)).toEqual([226, 118, 28]);
  expect(colourOf(2, 3, scale, true)).toEqual(NAN_COLOUR);
  expect(scaleFor(2, 2).high).toBeGreaterThan(2);
});
