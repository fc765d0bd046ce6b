import { describe, expect, test } from "vitest";
import type { LevelNode } from "../src/wire";
import { byLayers } from "../src/graph/placing";
import { plan, SceneMaker, type Scene } from "../src/graph/scene";
import {
  begun,
  centredOn,
  edgeText,
  fitted,
  isReadable,
  pathOf,
  READABLE_SCALE,
  showing,
} from "../src/graph/view";
import { colourOf, NAN_COLOUR, scaleFor } from "../src/tensor/colours";
import { level, node } from "./levels";

const ROOT = level(
  "",
  [node("in", 0), node("S/", 1, "scope"), node("out", 3)],
  [
    ["in", "S/"],
    ["S/", "out"],
  ],
);
const INSIDE = level(
  "S/",
  [node("S/a", 1), node("S/b", 2), node("in", 0, "outside")],
  [
    ["in", "S/a"],
    ["S/a", "S/b"],
  ],
);

function box(scene: Scene, path: string): Scene["boxes"][number] {
  const found = scene.boxes.find((each) => each.path === path);
  if (found === undefined) throw new Error(`no box ${path}`);
  return found;
}

describe("a scene", () => {
  test("puts data flow from top to bottom and open scopes round what they hold", () => {
    const maker = new SceneMaker();
    const scene = maker.make(
      [
        { path: "", key: "1", level: ROOT },
        { path: "S/", key: "2", level: INSIDE },
      ],
      "",
    );
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
    const same = maker.make(
      [
        { path: "", key: "1", level: ROOT },
        { path: "S/", key: "2", level: INSIDE },
      ],
      "",
    );
    expect(same).toEqual(scene);
  });

  test("shows what lies outside at the rim, many as one", () => {
    const few = plan(INSIDE, "S/");
    expect(few.nodes.map((each) => each.path)).toEqual(["S/a", "S/b", "S/#in#in"]);
    const outside = Array.from({ length: 12 }, (_, at) => node(`o${at}`, at, "outside"));
    const many = plan(
      level(
        "S/",
        [node("S/a", 20), ...outside],
        outside.map((each) => [each.path, "S/a"] as const),
      ),
      "S/",
    );
    expect(many.nodes.map((each) => each.label)).toEqual(["S/a", "12 sources outside"]);
    expect(many.edges).toMatchObject([{ source: "S/#in", target: "S/a", tensors: 12 }]);
  });

  test("draws what a later phase takes or brings in that phase only", () => {
    const grad: LevelNode = { ...node("G/", 9, "outside"), phase: "backward" };
    const forward = plan(
      level(
        "S/",
        [node("S/a", 1), node("in", 0, "outside"), grad],
        [
          ["in", "S/a"],
          ["S/a", "G/"],
          ["G/", "S/a"],
        ],
      ),
      "S/",
    );
    expect(forward.nodes.map((each) => each.path)).toEqual(["S/a", "S/#in#in"]);
    const inner: LevelNode = { ...node("G/b", 9), phase: "backward" };
    const backward = plan(
      level(
        "G/",
        [inner, node("S/", 1, "outside")],
        [
          ["S/", "G/b"],
          ["G/b", "S/"],
        ],
      ),
      "G/",
    );
    expect(backward.edges.map(({ source, target }) => [source, target])).toEqual([
      ["G/#in#S/", "G/b"],
      ["G/b", "G/#out#S/"],
    ]);
  });

  test("puts what gradients are made into after the backward pass below the ops before it", () => {
    const grad: LevelNode = { ...node("G/", 5, "outside"), phase: "backward" };
    const nodes = [node("S/net", 1), node("S/loss", 2), grad, node("S/norm", 8), node("S/clip", 9)];
    const clipped = level("S/", nodes, [
      ["S/net", "S/loss"],
      ["G/", "S/norm"],
      ["S/norm", "S/clip"],
    ]);
    const scene = new SceneMaker().make(
      [
        { path: "", key: "1", level: level("", [node("S/", 1, "scope")], []) },
        { path: "S/", key: "2", level: clipped },
      ],
      "",
    );
    const tops = ["S/net", "S/loss", "S/#in#G/", "S/norm", "S/clip"].map(
      (path) => box(scene, path).y,
    );
    expect(tops).toEqual([...new Set(tops)].sort((a, b) => a - b));
    expect(scene.lines.map(({ source, target }) => [source, target])).not.toContainEqual([
      "S/loss",
      "S/#in#G/",
    ]);
  });

  test("puts what runs later below what it writes into", () => {
    const update = level(
      "",
      [node("net", 0), node("norm", 5), node("clip", 6)],
      [
        ["net", "norm"],
        ["norm", "clip"],
        ["clip", "net"],
      ],
    );
    const scene = new SceneMaker().make([{ path: "", key: "1", level: update }], "");
    const tops = ["net", "norm", "clip"].map((path) => box(scene, path).y);
    expect(tops).toEqual([...tops].sort((a, b) => a - b));
    const upward = scene.lines.find((line) => line.source === "clip");
    expect(upward?.points[0]?.y).toBeGreaterThan(upward?.points.at(-1)?.y ?? Infinity);
  });

  test("gives the text of an edge room of its own", () => {
    const pair = level(
      "",
      [node("a", 0), node("b", 1)],
      [
        ["a", "b"],
        ["b", "a"],
      ],
    );
    const scene = new SceneMaker().make([{ path: "", key: "1", level: pair }], "");
    const [down, up] = scene.lines.map((line) => line.at.x);
    expect(Math.abs((down ?? 0) - (up ?? 0))).toBeGreaterThanOrEqual("2×3".length * 5);
  });

  test("lays out thousands of boxes in layers without overlap", () => {
    const count = 3000;
    const sized = Array.from({ length: count }, (_, at) => ({
      node: node(`n${at}`, at),
      width: 80,
      height: 26,
    }));
    const edges = Array.from({ length: count - 1 }, (_, at) => ({
      source: `n${Math.floor(at / 3)}`,
      target: `n${at + 1}`,
      tensors: 1,
      label: "",
    }));
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
  const large = {
    path: "",
    node: node("x", 0),
    x: 900,
    y: 900,
    width: 50,
    height: 4000,
    depth: 0,
    isOpen: true,
  };
  const view = showing({ x: 0, y: 0, scale: 1 }, large, 600, 400);
  expect(large.y * view.scale + view.y).toBeCloseTo(24);
});

test("the first look is all that can be read, else its beginning at a size that can", () => {
  const [first, second] = [node("first", 1), node("second", 2)];
  const at = (each: LevelNode, x: number, y: number): Scene["boxes"][number] => ({
    path: each.path,
    node: each,
    x,
    y,
    width: 100,
    height: 20,
    depth: 0,
    isOpen: false,
  });
  const small: Scene = {
    boxes: [at(second, 0, 0), at(first, 300, 300)],
    lines: [],
    width: 600,
    height: 600,
  };
  expect(isReadable(small, 648, 648)).toBe(true);
  expect(begun(small, 648, 648)).toEqual(fitted(small, 648, 648));
  const large: Scene = {
    ...small,
    boxes: [at(second, 0, 0), at(first, 1900, 300)],
    width: 2000,
    height: 4000,
  };
  expect(isReadable(large, 648, 648)).toBe(false);
  const view = begun(large, 648, 648);
  expect(view.scale).toBe(READABLE_SCALE);
  const { x, y } = { x: 1900 * view.scale + view.x, y: 300 * view.scale + view.y };
  expect(x).toBeGreaterThan(0);
  expect(x + 100 * view.scale).toBeLessThan(648);
  expect(y).toBeGreaterThan(0);
  expect(2000 * view.scale + view.x).toBeGreaterThanOrEqual(648 - 24); // No room is left beside it.
  // Data making runs first, in the column on the right: the view begins with the network.
  const data = { ...first, part: "data" as const };
  const model: Scene = { ...large, boxes: [at(second, 0, 0), at(data, 1900, 0)] };
  expect(begun(model, 648, 648)).toEqual({ scale: READABLE_SCALE, x: 24, y: 24 });
  const low = centredOn(large, at(second, 0, 0), 648, 648, 1);
  expect(low).toEqual({ scale: 1, x: 24, y: 24 });
});

test("edges have short texts and smooth ways", () => {
  expect(edgeText("float32 [8, 128]", 1)).toBe("8×128");
  expect(edgeText("int64[3]", 2)).toBe("2 × int64 3");
  expect(edgeText("float32 []", 1)).toBe("scalar");
  expect(edgeText("", 4)).toBe("4 tensors");
  expect(
    pathOf([
      { x: 0, y: 0 },
      { x: 0, y: 10 },
      { x: 10, y: 20 },
    ]),
  ).toBe("M0.0 0.0Q0.0 10.0 5.0 15.0L10.0 20.0");
});

test("a heat map's zero is neutral and NaN has a colour of its own", () => {
  const scale = scaleFor(-1, 4);
  expect(scale).toEqual({ low: -4, high: 4, isDiverging: true });
  expect(colourOf(0, 0, scale, false)).toEqual([248, 248, 246]);
  expect(colourOf(4, 0, scale, true)).toEqual([226, 118, 28]);
  expect(colourOf(2, 3, scale, true)).toEqual(NAN_COLOUR);
  expect(scaleFor(2, 2).high).toBeGreaterThan(2);
});
