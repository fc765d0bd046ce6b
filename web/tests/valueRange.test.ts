import { expect, test, vi } from "vitest";

vi.stubGlobal("matchMedia", () => ({ addEventListener: () => undefined }));
const { tickTexts, valueRange } = await import("../src/parts/valueRange");

const BASES = [1, 0.9999992573941524, 4.25, 3e-4, -7, 12_345.678, 1e20, 0];

test("an axis has two ends around its values, however near they are", () => {
  for (const low of BASES)
    for (let power = -17; power <= 1; power += 0.25) {
      const high = low + Math.max(Math.abs(low), 1e-6) * 10 ** power;
      const [first, last] = valueRange(low, high) as [number, number];
      expect(first, `${low} ${high}`).toBeLessThan(last);
      expect(first).toBeLessThanOrEqual(low);
      expect(last).toBeGreaterThanOrEqual(high);
    }
});

test("the norms of clipped gradients have ticks that tell them apart", () => {
  const [low, high] = valueRange(0.9999992573941524, 0.9999992796702339) as [number, number];
  expect(high - low).toBeGreaterThan(1e-6);
  expect(high - low).toBeLessThan(1e-5);
});

test("ticks have as many digits as distinguish them", () => {
  expect(tickTexts([0, 0.5, 1])).toEqual(["0", "0.5", "1"]);
  expect(tickTexts([0.0999998, 0.0999999, 0.1])).toEqual(["0.0999998", "0.0999999", "0.1"]);
  expect(tickTexts([1, null, 10])).toEqual(["1", "", "10"]);
});
