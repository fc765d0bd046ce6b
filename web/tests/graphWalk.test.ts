// @vitest-environment happy-dom
import { describe, expect, test } from "vitest";
import { scopesAround, scopesOnScreen, stuckHeads } from "../src/graph/Orientation";
import { type Box, type Scene, SceneMaker } from "../src/graph/scene";
import { boxBeside } from "../src/graph/walking";
import type { LevelNode } from "../src/wire";
import { level, node } from "./levels";

const part = (path: string, order: number, name: LevelNode["part"]): LevelNode => ({
  ...node(path, order, "scope"),
  part: name,
});

const ROOT = level(
  "",
  [
    part("data/", 0, "data"),
    part("net/", 1, "network"),
    part("loss/", 8, "loss"),
    part("Gradients/", 9, "backward"),
  ],
  [
    ["data/", "net/"],
    ["net/", "loss/"],
    ["loss/", "Gradients/"],
    ["data/", "Gradients/"],
  ],
);
const NET = level("net/", [node("net/a", 1), node("net/b", 2)], [["net/a", "net/b"]]);

function made(hasColumn: boolean): Scene {
  return new SceneMaker().make(
    [
      { path: "", key: "1", level: ROOT },
      { path: "net/", key: "2", level: NET },
    ],
    "",
    hasColumn,
  );
}

function box(scene: Scene, path: string): Box {
  const found = scene.boxes.find((each) => each.path === path);
  if (found === undefined) throw new Error(`no box ${path}`);
  return found;
}

describe("the network and what surrounds it", () => {
  test("what surrounds the network is in a column beside it, in execution order", () => {
    const scene = made(true);
    const net = box(scene, "net/");
    const side = ["data/", "loss/", "Gradients/"].map((path) => box(scene, path));
    expect(side.every((each) => each.x > net.x + net.width)).toBe(true);
    expect(new Set(side.map((each) => each.x)).size).toBe(1);
    expect(side.map((each) => each.y)).toEqual(side.map((each) => each.y).sort((a, b) => a - b));
    expect(side[0]?.y).toBe(net.y);
    expect(scene.lines).toHaveLength(ROOT.edges.length + NET.edges.length);
    expect(scene.width).toBeGreaterThan((side[0]?.x ?? 0) + (side[0]?.width ?? 0));
  });

  test("by data flow the loss is below the network", () => {
    const scene = made(false);
    expect(box(scene, "loss/").y).toBeGreaterThan(box(scene, "net/").y);
  });

  test("a group of very many is a strip in the order of its calls, without lines", () => {
    const many = Array.from({ length: 60 }, (_, at) => node(`add-op${at}`, at));
    const strip = {
      ...level(
        "",
        many,
        many.slice(1).map((each, at) => [`add-op${at}`, each.path] as const),
      ),
      group: "*add",
    };
    const scene = new SceneMaker().make([{ path: "", key: "1", level: strip }], "");
    expect(scene.lines).toEqual([]);
    const places = scene.boxes.map(({ x, y }) => [y, x] as const);
    expect(places).toEqual([...places].sort((a, b) => a[0] - b[0] || a[1] - b[1]));
    expect(scene.width).toBeLessThan(1500);
  });
});

describe("the keyboard in the graph", () => {
  test("arrow keys walk along edges, into a scope and out of it", () => {
    const scene = made(true);
    const walk = (from: string, key: Parameters<typeof boxBeside>[2]): string | undefined =>
      boxBeside(scene, from === "" ? undefined : box(scene, from), key)?.path;
    expect(walk("", "ArrowDown")).toBe("net/");
    expect(walk("net/", "ArrowDown")).toBe("net/a");
    expect(walk("net/a", "ArrowDown")).toBe("net/b");
    expect(walk("net/b", "ArrowUp")).toBe("net/a");
    expect(walk("net/a", "ArrowUp")).toBe("net/");
    expect(walk("net/", "ArrowRight")).toBe("data/");
    expect(walk("loss/", "ArrowDown")).toBe("Gradients/");
    expect(walk("loss/", "ArrowLeft")).toBe("net/");
  });
});

const SCREEN = { width: 800, height: 600 };

describe("where the screen is", () => {
  test("the scopes around a point, and the heads of those that begin above the screen", () => {
    const scene = made(true);
    const [net, inner] = [box(scene, "net/"), box(scene, "net/b")];
    expect(scopesAround(scene, inner.x, inner.y).map((each) => each.path)).toEqual(["net/"]);
    expect(scopesAround(scene, -50, -50)).toEqual([]);
    const top = { x: 0, y: 0, scale: 1 };
    expect(stuckHeads(scene, top, SCREEN)).toEqual([]);
    const scrolled = { x: 0, y: -(net.y + 30), scale: 1 };
    expect(stuckHeads(scene, scrolled, SCREEN)).toMatchObject([{ box: { path: "net/" }, y: 0 }]);
    const narrow = { ...SCREEN, width: 2 * net.x + net.width };
    const onScreen = scopesOnScreen(scene, scrolled, narrow);
    expect(onScreen.map((each) => each.path)).toEqual(["net/"]);
    expect(stuckHeads(scene, { ...scrolled, y: -5000 }, SCREEN)).toEqual([]);
  });
});
