// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { LossPanel } from "../../src/panels/LossPanel";
import type { LossPoint, RunView } from "../../src/wire";
import { answer, RUN, show, useEmptyPage } from "./page";

interface Drawn {
  readonly label: string;
  readonly isLog?: boolean;
  readonly bad: readonly number[];
  readonly series: readonly { readonly label: string; readonly values: readonly unknown[] }[];
}

/** What the panel lets be drawn; the document of the tests has no canvas. */
let drawn: Drawn[] = [];
vi.mock("../../src/parts/Chart", () => ({
  COLOURS: ["one", "two", "three", "four"],
  colourOf: () => "one",
  Chart: (props: Drawn) => {
    drawn = [...drawn.filter((each) => each.label !== props.label), props];
    return null;
  },
}));

useEmptyPage();

function point(step: number, more: Partial<LossPoint> = {}): LossPoint {
  const loss = 1 / (step + 1);
  return { step, loss, seconds: 0.3, bare_seconds: null, observed: true, optimizer: "", ...more };
}

/** Each test has a run of its own: the points of a run are kept. */
let runs = 0;
function showPoints(points: readonly LossPoint[], more: Partial<RunView> = {}): void {
  drawn = [];
  runs += 1;
  answer({ [`GET /runs/r${runs}/loss`]: () => ({ rank: 0, points }) });
  show({ ...RUN, id: `r${runs}`, ...more });
  render(<LossPanel />);
}

function chart(label: string): Drawn | undefined {
  return drawn.find((each) => each.label === label);
}

test("without a step the panel says what to expect, of a training and of a dump", async () => {
  showPoints([]);
  expect(await screen.findByText("No step has ended yet")).toBeDefined();
  showPoints([], { kind: "dump" });
  expect(await screen.findByText("No loss")).toBeDefined();
});

test("steps whose loss is not finite are counted and marked", async () => {
  showPoints([point(0), point(1, { loss: "nan" }), point(2, { loss: "inf" })]);
  expect((await screen.findByText(/not finite/)).textContent).toContain(
    "not finite in 2 steps, first in step 1",
  );
  expect(chart("Loss by step")?.bad).toEqual([1, 2]);
});

test("several optimizers have a line each", async () => {
  showPoints([point(0, { optimizer: "D" }), point(1, { optimizer: "G" })]);
  await screen.findByText("Loss");
  expect(chart("Loss by step")?.series.map(({ label }) => label)).toEqual(["D", "G"]);
  expect(chart("Milliseconds by step")?.series).toHaveLength(4);
});

test("step times with and without Sonde are drawn in milliseconds", async () => {
  showPoints([point(0), point(1, { bare_seconds: 0.25, observed: false })]);
  await screen.findByText("Loss");
  const [without, with_] = chart("Milliseconds by step")?.series ?? [];
  expect(without?.values[1]).toBe(250);
  expect(with_?.values).toEqual([300, 300]);
});

test("a run without a loss says which loss is recorded", async () => {
  showPoints([point(0, { loss: null })]);
  expect(await screen.findByText(/No loss was recorded/)).toBeDefined();
  expect(chart("Loss by step")).toBeUndefined();
});

test("the scale of the loss can be logarithmic", async () => {
  showPoints([point(0)]);
  const box = await screen.findByRole("checkbox");
  expect(chart("Loss by step")?.isLog).toBe(false);
  await userEvent.click(box);
  expect(chart("Loss by step")?.isLog).toBe(true);
  await userEvent.click(box);
});
