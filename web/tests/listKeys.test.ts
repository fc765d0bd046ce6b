import { expect, test } from "vitest";
import { nextPlace } from "../src/panels/listKeys";
import { ordinal } from "../src/text/numbers";

test("keys walk from one wanted row to the next, and start at either end", () => {
  const isOp = (place: number): boolean => place !== 0 && place !== 2;
  expect(nextPlace(5, -1, 1, isOp)).toBe(1);
  expect(nextPlace(5, 1, 1, isOp)).toBe(3);
  expect(nextPlace(5, -1, -1, isOp)).toBe(4);
  expect(nextPlace(5, 1, -1, isOp)).toBe(-1);
  expect(nextPlace(0, -1, 1, isOp)).toBe(-1);
});

test("counts are called by their ordinals", () => {
  expect([1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal)).toEqual([
    "1st",
    "2nd",
    "3rd",
    "4th",
    "11th",
    "12th",
    "13th",
    "21st",
    "102nd",
    "111th",
  ]);
});
