import { expect, test } from "vitest";
import { lastPlace, lossLines, timeLines } from "../src/parts/chartLines";
import type { LossPoint } from "../src/wire";

const point = (step: number, loss: LossPoint["loss"], optimizer: string): LossPoint => ({
  step,
  loss,
  seconds: 0.002,
  bare_seconds: 0.001,
  observed: false,
  optimizer,
});

test("one optimizer is one line without a name; what is not finite is a gap with its word", () => {
  const [line, ...others] = lossLines([
    point(0, 1, "Adam"),
    point(1, "nan", "Adam"),
    point(2, 3, "Adam"),
  ]);
  expect(others).toEqual([]);
  expect(line).toEqual({ optimizer: "", values: [1, null, 3], words: ["1", "nan", "3"] });
});

test("two optimizers that take turns are two lines, each with its own steps", () => {
  const lines = lossLines([
    point(0, 1, "D"),
    point(1, 9, "G"),
    point(2, 2, "D"),
    point(3, "inf", "G"),
  ]);
  expect(lines.map(({ optimizer, values }) => [optimizer, values])).toEqual([
    ["D", [1, undefined, 2, undefined]],
    ["G", [undefined, 9, undefined, null]],
  ]);
});

test("an optimizer without a loss of its own leaves the line of the other whole", () => {
  const lines = lossLines([
    point(0, 1, "Muon"),
    point(1, null, "AdamW"),
    point(2, 2, "Muon"),
    point(3, null, "AdamW"),
  ]);
  expect(lines.map(({ optimizer, values }) => [optimizer, values])).toEqual([
    ["", [1, undefined, 2, undefined]],
  ]);
});

test("of very many optimizers the last ones share a line", () => {
  const points = Array.from({ length: 20 }, (_, step) => point(step, step, `Adam ${step}`));
  const lines = lossLines(points);
  expect(lines.map(({ optimizer }) => optimizer)).toEqual([
    "Adam 0",
    "Adam 1",
    "Adam 2",
    "Adam 3",
    "Adam 4",
    "others",
  ]);
  expect(lines.at(-1)?.values.filter((value) => value !== undefined)).toHaveLength(15);
});

test("times are of all steps, also of those without a loss", () => {
  const lines = timeLines([point(0, 1, "Muon"), point(1, null, "AdamW")], (each) => each.seconds);
  expect(lines.map(({ optimizer, values }) => [optimizer, values])).toEqual([
    ["Muon", [2, undefined]],
    ["AdamW", [undefined, 2]],
  ]);
});

test("the last value of a line is looked for backwards", () => {
  expect(lastPlace([1, undefined, undefined], 2)).toBe(0);
  expect(lastPlace([1, null, undefined], 2)).toBe(1);
  expect(lastPlace([undefined], 0)).toBe(-1);
});
