import { expect, test } from "vitest";
import { outlierLimit } from "../src/parts/outliers";

test("slow first steps are cut off, an even pace is not", () => {
  expect(outlierLimit([4000, 2, 1, 1, 2, 1, 1])).toBe(6);
  expect(outlierLimit([3, 2, 4, 3])).toBeUndefined();
  expect(outlierLimit([])).toBeUndefined();
});

test("what every third step takes is not cut off: a slower optimizer, say", () => {
  expect(outlierLimit([2, 2, 90, 2, 2, 90, 2, 2, 90])).toBeUndefined();
  expect(
    outlierLimit([4000, ...Array.from({ length: 9 }, (_, at) => (at % 3 === 0 ? 90 : 2))]),
  ).toBe(108);
});
