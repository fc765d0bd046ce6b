import { expect, test } from "vitest";
import { peakFree } from "../src/state/peaks";

test("slow first steps are cut off, an even pace is not", () => {
  expect(peakFree([4000, 2, 1, 1, 2, 1, 1])).toBe(6);
  expect(peakFree([3, 2, 4, 3])).toBeUndefined();
  expect(peakFree([])).toBeUndefined();
});

test("what every third step takes is not cut off: a slower optimizer, say", () => {
  expect(peakFree([2, 2, 90, 2, 2, 90, 2, 2, 90])).toBeUndefined();
  expect(peakFree([4000, ...Array.from({ length: 9 }, (_, at) => (at % 3 === 0 ? 90 : 2))])).toBe(108);
});
