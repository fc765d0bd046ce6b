import { expect, test } from "vitest";
import { peakFree } from "../src/state/peaks";

test("slow first steps are cut off, an even pace is not", () => {
  expect(peakFree([4000, 2, 1, 1, 2, 1, 1])).toBe(6);
  expect(peakFree([3, 2, 4, 3])).toBeUndefined();
  expect(peakFree([])).toBeUndefined();
});
