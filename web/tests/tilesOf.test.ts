import { expect, test } from "vitest";
import { canBeImages, tileIndex, tilesOf } from "../src/tensor/tilesOf";

test("the heads of an attention are one plane each, the last dimension fastest", () => {
  const { tiles, total } = tilesOf([2, 3, 5, 5], false, 4);
  expect(total).toBe(6);
  expect(tiles).toEqual([
    [0, 0],
    [0, 1],
    [0, 2],
    [1, 0],
  ]);
  expect(tileIndex([2, 3, 5, 5], [1, 2])).toBe("[1, 2, :, :]");
});

test("a batch of colour images has one tile for each image", () => {
  expect(canBeImages([8, 3, 32, 32])).toBe(true);
  expect(canBeImages([8, 4, 32, 32])).toBe(false);
  expect(canBeImages([16, 3, 3, 3])).toBe(false); // filters
  expect(tilesOf([8, 3, 32, 32], true, 64).tiles).toHaveLength(8);
  expect(tileIndex([8, 3, 32, 32], [7, 1])).toBe("[7, 1, :, :]");
});

test("a matrix has no tiles, nor has an empty tensor", () => {
  expect(tilesOf([4, 4], false, 64).tiles).toEqual([]);
  expect(tilesOf([4, 0, 4], false, 64).tiles).toEqual([]);
});
