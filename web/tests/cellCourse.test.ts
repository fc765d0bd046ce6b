// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { courseOf } from "../src/health/CellPanel";
import type { LayerCells } from "../src/wire";

function encoded(values: readonly number[]): string {
  return btoa(String.fromCharCode(...new Uint8Array(new Float32Array(values).buffer)));
}

test("the course of a layer has a word for each value that is not finite, and no absent steps", () => {
  const cells: LayerCells = {
    rank: 0,
    statistic: "grad_norm",
    total_layers: 1,
    first_step: 10,
    last_step: 18,
    top: 0,
    layers_per_row: 1,
    rows: 1,
    first: 10,
    steps_per_column: 2,
    columns: 5,
    layers: ["fc1"],
    cells: encoded([0.5, -Infinity, Infinity, NaN, 2]),
    least: 0.5,
    greatest: 2,
    other_cells: "",
  };
  expect(courseOf(cells)).toEqual({
    steps: [10, 14, 16, 18],
    values: [0.5, null, null, 2],
    bad: [14, 16],
    words: [null, "+inf", "nan", null],
  });
});
