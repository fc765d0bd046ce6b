// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { afterKey, cellAt } from "../src/health/MapCanvas";
import { extentOf, wholeOf } from "../src/health/mapPicture";
import type { LayerCells } from "../src/wire";

/** 4 layers by 100 steps, in 4 rows and 10 columns. */
const DATA = {
  first: 0,
  first_step: 0,
  last_step: 99,
  top: 0,
  rows: 4,
  columns: 10,
  steps_per_column: 10,
  layers_per_row: 1,
  total_layers: 4,
} as unknown as LayerCells;
const WHOLE = wholeOf(DATA);
const NO_KEYS = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };
const POINTED = { row: 3, column: 9, x: 0.95, y: 0.875 };

test("a place of the map is the cell there, and none where nothing was loaded", () => {
  expect(extentOf(DATA)).toEqual(WHOLE);
  expect(cellAt([0.55, 0.3], DATA, WHOLE)).toEqual({ row: 1, column: 5 });
  const wider = { ...WHOLE, first: -100 };
  expect(cellAt([0.2, 0.3], DATA, wider)).toBeNull();
});

test("arrows choose the next cell and stop at the edge, Enter opens, other keys are left alone", () => {
  const at = { data: DATA, view: WHOLE, pointed: null };
  const key = (name: string, more = {}): Parameters<typeof afterKey>[0] => ({
    key: name,
    ...NO_KEYS,
    ...more,
  });
  expect(afterKey(key("ArrowUp"), at)).toEqual({ cell: { row: 1, column: 5 } });
  expect(afterKey(key("ArrowRight"), { ...at, pointed: POINTED })).toEqual({
    cell: { row: 3, column: 9 },
  });
  expect(afterKey(key("Enter"), { ...at, pointed: POINTED })?.opened).toMatchObject({ row: 3 });
  expect(afterKey(key("0"), { ...at, view: { ...WHOLE, first: 50 } })).toEqual({ view: WHOLE });
  expect(afterKey(key("a"), at)).toBeNull();
  expect(afterKey(key("+", { ctrlKey: true }), at)).toBeNull();
});

test("plus zooms in at the chosen cell", () => {
  const event = { key: "+", ...NO_KEYS };
  const next = afterKey(event, { data: DATA, view: WHOLE, pointed: POINTED })?.view;
  expect((next?.last ?? 0) - (next?.first ?? 0)).toBeCloseTo(50);
  expect(next?.first).toBeGreaterThan(40);
});
