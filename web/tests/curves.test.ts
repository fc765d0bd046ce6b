import { expect, test } from "vitest";
import {
  allSteps,
  badSteps,
  curveKey,
  knownStatistics,
  parseCurveKey,
  smoothed,
  STATISTICS,
  valuesAt,
} from "../src/tensor/curves";
import type { StatisticCurve, StatisticNumbers } from "../src/wire";

const NOTHING: StatisticNumbers = {
  ...{ count: 4, nan_count: 0, positive_inf_count: 0, negative_inf_count: 0, zero_count: null },
  ...{ negative_count: null, positive_count: null, max: null, min: null, finite_max: null },
  ...{ finite_min: null, avg: null, l2norm: null, std: null, abs_mean: null },
};

function curve(
  norms: Readonly<Record<number, number | string>>,
  ratio: number | null = null,
): StatisticCurve {
  const points = Object.entries(norms).map(([step, l2norm]) => ({
    step: Number(step),
    statistics: { ...NOTHING, l2norm },
    update_ratio: ratio,
  }));
  const type = { dtype: "float32", shape: [4] };
  return { op: "w", io: "output", slot: 0, type, points, is_recorded: true };
}

test("a tensor survives the way through the address", () => {
  const at = {
    run: "my run 1",
    rank: 3,
    op: "Default/a b/relu-op0",
    io: "input",
    slot: 2,
  } as const;
  expect(parseCurveKey(curveKey(at))).toEqual(at);
  for (const bad of ["", "0 output", "x output 0 r op", "0 both 0 r op", "-1 output 0 r op"])
    expect(parseCurveKey(bad)).toBeNull();
});

test("only statistics that a point has are offered", () => {
  expect(knownStatistics([curve({ 0: 1 })]).map(({ id }) => id)).toEqual(["norm"]);
  expect(knownStatistics([curve({ 0: 1 }, 0.1)]).map(({ id }) => id)).toEqual(["norm", "ratio"]);
});

test("curves of different steps share an axis, with gaps and marks for what is not finite", () => {
  const curves = [curve({ 0: 1, 16: 2 }), curve({ 1: 3, 16: "inf" })];
  const steps = allSteps(curves);
  expect(steps).toEqual([0, 1, 16]);
  const norm = STATISTICS.find(({ id }) => id === "norm");
  if (norm === undefined) throw new Error("there is no norm");
  expect(curves.map((each) => valuesAt(each, steps, norm))).toEqual([
    [1, undefined, 2],
    [undefined, 3, null],
  ]);
  expect(badSteps(curves)).toEqual([16]);
});

test("smoothing averages what is there and keeps gaps", () => {
  expect(smoothed([1, undefined, 3, null], 0)).toEqual([1, undefined, 3, null]);
  const found = smoothed([1, undefined, 3, null], 0.5);
  expect(found[0]).toBeCloseTo(1);
  expect(found[1]).toBeUndefined();
  expect(found[2]).toBeCloseTo((0.25 * 1 + 0.5 * 3) / 0.75);
  expect(found[3]).toBeNull();
});
