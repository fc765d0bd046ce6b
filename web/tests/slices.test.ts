import { describe, expect, test } from "vitest";
import {
  defaultIndex,
  IndexError,
  movedIndex,
  parseIndex,
  placeOf,
  planeIndex,
  windowIndex,
} from "../src/tensor/slices";
import { planesAfter } from "../src/tensor/find";
import { previousStep } from "../src/tensor/previousStep";
import { tilesFor } from "../src/tensor/tiles";

describe("an index", () => {
  test("names the last two dimensions when nothing is said", () => {
    expect(defaultIndex([4, 3, 8, 5])).toBe("[0, 0, :, :]");
    expect(parseIndex("", [4, 3, 8, 5])).toMatchObject({ sliced: [2, 3], rows: 8, columns: 5 });
    expect(parseIndex("", [])).toMatchObject({ sliced: [], rows: 1, columns: 1 });
    expect(parseIndex("", [7])).toMatchObject({ sliced: [0], rows: 1, columns: 7 });
  });

  test("takes slices with steps, negative places and dimensions left out", () => {
    expect(parseIndex("[-1, :, 3:5]", [4, 6, 9])).toMatchObject({
      rows: 6,
      columns: 2,
      axes: [3, { start: 0 }, { start: 3, stop: 5 }],
    });
    expect(parseIndex("1, ::2", [4, 7])).toMatchObject({ rows: 1, columns: 4 });
    expect(parseIndex("[2]", [4, 6, 9])).toMatchObject({ rows: 6, columns: 9 });
    expect(parseIndex("[-3:, 0]", [10, 2])).toMatchObject({ columns: 3 });
  });

  test("may have dots for whole dimensions, and no brackets", () => {
    expect(parseIndex("[...]", [4, 3, 8, 5])).toEqual(parseIndex("", [4, 3, 8, 5]));
    expect(parseIndex("...", [4, 3])).toEqual(parseIndex("[:, :]", [4, 3]));
    expect(parseIndex("[..., 0]", [4, 3])).toEqual(parseIndex("[:, 0]", [4, 3]));
    expect(parseIndex("1, ..., 2:4", [4, 3, 8])).toEqual(parseIndex("[1, :, 2:4]", [4, 3, 8]));
    expect(parseIndex("0,:", [4, 3])).toEqual(parseIndex("[0, :]", [4, 3]));
  });

  test.each([
    ["[..., ...]", [3, 3], /more than once/],
    ["[0, 1, 2]", [3, 3], /2 dimensions, but the index has 3/],
    ["[:, :, :]", [2, 2, 2], /two dimensions can be sliced/],
    ["[5, :]", [3, 3], /dimension 0 of size 3/],
    ["[x, :]", [3, 3], /neither a number nor a slice/],
    ["[::0, 1]", [3, 3], /at least 1/],
  ] as const)("%s of %s is refused", (text, shape, why) => {
    expect(() => parseIndex(text, shape)).toThrow(IndexError);
    expect(() => parseIndex(text, shape)).toThrow(why);
  });

  test("gives windows, places and neighbours", () => {
    const plane = parseIndex("[1, 10:50:2, :]", [4, 60, 9]);
    expect(windowIndex(plane, 5, 3, 2, 4)).toBe("[1, 20:26:2, 2:6]");
    expect([placeOf(plane, "row", 5), placeOf(plane, "column", 5)]).toEqual([20, 5]);
    expect(movedIndex(plane, 0, 9, [4, 60, 9])).toBe("[3, 10:50:2, :]");
  });
});

test("tiles cover what is on the screen", () => {
  expect(tilesFor([60, 70], [0, 5], 64, 64)).toEqual([
    [0, 0],
    [1, 0],
  ]);
  expect(tilesFor([], [0], 64, 64)).toEqual([]);
});

test("all planes are visited from the next one on, then from the first, and the current one last", () => {
  const shape = [2, 3, 4, 5];
  const planes = planesAfter(parseIndex("[1, 1, :, 1:5:2]", shape), shape).map((axes) =>
    planeIndex(axes, shape),
  );
  expect(planes).toEqual([
    "[1, 2, :, 1:5:2]",
    "[0, 0, :, 1:5:2]",
    "[0, 1, :, 1:5:2]",
    "[0, 2, :, 1:5:2]",
    "[1, 0, :, 1:5:2]",
    "[1, 1, :, 1:5:2]",
  ]);
  expect(planesAfter(parseIndex("", [4, 5]), [4, 5])).toHaveLength(1);
});

test("the step before is the last kept one that is earlier, and a training is always asked for it", () => {
  expect(previousStep([3, 5, 9], 9, false)).toBe(5);
  expect(previousStep([3, 5, 9], null, true)).toBe(5);
  expect(previousStep([3], 3, false)).toBeNull();
  expect(previousStep([], null, true)).toBeNull();
  expect(previousStep([8], 8, true)).toBe(7);
  expect(previousStep([0], 0, true)).toBeNull();
});
