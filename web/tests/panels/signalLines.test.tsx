// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { signalLines } from "../../src/health/signalLines";

const CURVE = { name: "loss", low: [], high: [] };

test("curves of two optimizers are lines of their own, named after them", () => {
  const { steps, series, bad } = signalLines(
    "loss",
    [
      {
        name: "",
        curve: { ...CURVE, optimizer: "Adam of D", steps: [0, 2], values: [1.5, "nan"] },
      },
      { name: "", curve: { ...CURVE, optimizer: "Adam of G", steps: [1, 3], values: [0.6, 0.7] } },
      { name: "b", curve: { ...CURVE, optimizer: "", steps: [0], values: [2] } },
    ],
    0,
  );
  expect(steps).toEqual([0, 1, 2, 3]);
  expect(series.map(({ label }) => label)).toEqual(["Adam of D", "Adam of G", "b"]);
  expect(series[0]?.values).toEqual([1.5, undefined, null, undefined]);
  expect(bad).toEqual([2]);
});
