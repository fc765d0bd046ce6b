// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { LossPanel } from "../../src/panels/LossPanel";
import { logLoss } from "../../src/state/preferences";
import type { LossPoint } from "../../src/wire";
import { answer, RUN, show, useEmptyPage } from "./page";

useEmptyPage();

/** What the panel gave its charts: the document of the tests has no canvas to draw on. */
const charts = vi.hoisted(() => [] as { label: string; bad: readonly number[]; series: unknown }[]);
vi.mock("../../src/parts/Chart", async (load) => ({
  ...(await load<object>()),
  Chart: (given: { label: string; bad: readonly number[]; series: unknown }) => {
    charts.push(given);
    return null;
  },
}));

beforeEach(() => {
  charts.length = 0;
});

/** The loss is kept for each run, so that every test shows a run of its own. */
let runs = 0;
function showLoss(points: readonly Partial<LossPoint>[], kind: "live" | "dump" = "live"): void {
  const id = `loss${++runs}`;
  const whole = points.map((point, step) => ({
    step,
    loss: 1,
    seconds: 0.1,
    bare_seconds: null,
    observed: true,
    optimizer: "",
    ...point,
  }));
  answer({ [`GET /runs/${id}/loss`]: () => ({ points: whole }) });
  show({ ...RUN, id, kind });
  render(<LossPanel />);
}

test("before the first step ends, the panel says when the curve appears", () => {
  showLoss([]);
  expect(screen.getByText("No step has ended yet")).toBeTruthy();
});

test("a dump has no loss, and the panel names what to open instead", () => {
  showLoss([], "dump");
  expect(screen.getByText("No loss")).toBeTruthy();
});

test("steps whose loss is not finite are counted and marked", async () => {
  showLoss([{}, { loss: "nan" }, { loss: "inf" }, {}]);
  await waitFor(() => screen.getByText("· not finite in 2 steps, first in step 1"));
  const drawn = charts.findLast((each) => each.label === "Loss by step");
  expect(drawn?.bad).toEqual([1, 2]);
});

test("each optimizer has its own curve", async () => {
  showLoss([{ optimizer: "Adam" }, { optimizer: "SGD" }, { optimizer: "Adam" }]);
  await waitFor(() => expect(charts.length).toBeGreaterThan(0));
  const drawn = charts.findLast((each) => each.label === "Loss by step");
  expect(drawn?.series).toMatchObject([{ label: "Adam" }, { label: "SGD" }]);
});

test("without a loss only the durations are drawn", async () => {
  showLoss([{ loss: null }, { loss: null }]);
  await waitFor(() => screen.getByText(/No loss was recorded/));
  expect(charts.map((each) => each.label)).not.toContain("Loss by step");
});

test("durations far above the others are cut off, and the panel says so", async () => {
  showLoss([{ seconds: 30 }, ...Array.from({ length: 40 }, () => ({ seconds: 0.1 }))]);
  await waitFor(() => screen.getByText(/values above .* are cut off/));
});

test("the logarithmic scale is a preference", async () => {
  showLoss([{}]);
  await waitFor(() => screen.getByRole("checkbox"));
  const before = logLoss.value;
  await userEvent.click(screen.getByRole("checkbox"));
  expect(logLoss.value).toBe(!before);
  logLoss.set(before);
});
