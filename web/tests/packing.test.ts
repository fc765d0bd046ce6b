import { describe, expect, test } from "vitest";
import { buffersOf, pack, unpack } from "../src/graph/packing";
import { SceneMaker, type OpenLevel } from "../src/graph/scene";
import { level, node } from "./levels";

const LEVELS: readonly OpenLevel[] = [
  {
    path: "",
    key: "1",
    level: level(
      "",
      [node("in", 0), node("S/", 1, "scope", 1), node("out", 3, "op", 3)],
      [
        ["in", "S/", "a", 0],
        ["S/", "out", "b", 1],
      ],
    ),
  },
  {
    path: "S/",
    key: "2",
    level: level(
      "S/",
      [node("S/a", 1, "op", 1), node("S/T/", 2, "scope", 2), node("in", 0, "outside")],
      [
        ["in", "S/a", "a", 0],
        ["S/a", "S/T/", "", 1],
      ],
    ),
  },
  {
    path: "S/T/",
    key: "3",
    level: level(
      "S/T/",
      [node("S/T/x", 2, "op", 2), node("S/T/y", 3, "op", 3)],
      [["S/T/x", "S/T/y", "a", 0]],
    ),
  },
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
    const [outer, inner, op] = ["S/", "S/T/", "S/T/y"].map((path) =>
      boxes.find((box) => box.path === path),
    );
    for (const [round, within] of [
      [outer, inner],
      [inner, op],
    ]) {
      if (round === undefined || within === undefined) throw new Error("a box is missing");
      expect(within.x).toBeGreaterThan(round.x);
      expect(within.y).toBeGreaterThan(round.y);
      expect(within.x + within.width).toBeLessThan(round.x + round.width);
      expect(within.y + within.height).toBeLessThan(round.y + round.height);
    }
    expect([outer?.depth, inner?.depth, op?.depth]).toEqual([0, 1, 2]);
  });
});
