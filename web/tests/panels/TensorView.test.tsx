// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { go, place, setOpTensors } from "../../src/state/store";
import { TensorView } from "../../src/tensor/TensorView";
import type { StatisticNumbers, Summary } from "../../src/wire";
import { answer, RANK, RUN, sent, show, useEmptyPage, type Sent } from "./page";

useEmptyPage();

const LOG = "Default/net/log-op0";
const STATISTICS: StatisticNumbers = {
  count: 6,
  nan_count: 1,
  positive_inf_count: 0,
  negative_inf_count: 0,
  zero_count: 0,
  negative_count: 0,
  positive_count: 5,
  max: "nan",
  min: "nan",
  finite_max: 6,
  finite_min: 1,
  avg: "nan",
  l2norm: "nan",
  std: "nan",
  abs_mean: "nan",
};

function summary(shape: readonly number[]): Summary {
  return {
    tensor: { op: LOG, io: "output", slot: 0, step: 3 },
    type: { dtype: "float32", shape },
    statistics: STATISTICS,
    histogram: null,
  };
}

function table(request: Sent): unknown {
  return {
    tensor: { op: LOG, io: "output", slot: 0, step: 3 },
    type: { dtype: "float32", shape: [2, 3] },
    index: request.query.get("index"),
    rows: 2,
    columns: 3,
    row_start: 0,
    column_start: 0,
    row_step: 1,
    column_step: 1,
    values: [1, 2, "nan", 4, 5, 6],
  };
}

function serve(shape: readonly number[]): void {
  answer({
    "GET /runs/r/tensor/summary": () => summary(shape),
    "GET /runs/r/tensor/table": table,
    "POST /runs/r/keep": () => null,
  });
  go({ op: LOG, io: "output", slot: 0, tab: "tensor" });
}

test("without a tensor the panel says how to open one", () => {
  show(RUN);
  render(<TensorView />);
  expect(screen.getByText("No tensor open")).toBeTruthy();
});

test("the values and the statistics of the tensor are shown", async () => {
  show(RUN);
  serve([2, 3]);
  render(<TensorView />);
  await waitFor(() => screen.getByText("nan", { selector: ".grid *" }));
  expect(screen.getByRole("rowheader", { name: /^finite max/ })).toBeTruthy();
  expect(sent.find((each) => each.path.endsWith("/table"))?.query.get("op")).toBe(LOG);
});

test("a tensor without elements says so, and no values are requested", async () => {
  show(RUN);
  serve([0, 3]);
  render(<TensorView />);
  await waitFor(() => screen.getByText("The tensor is empty"));
  expect(sent.map((each) => each.path)).not.toContain("/runs/r/tensor/table");
});

test("while the index is wrong, the last valid values stay on the screen", async () => {
  show(RUN);
  serve([2, 3]);
  render(<TensorView />);
  await waitFor(() => screen.getByText("nan", { selector: ".grid *" }));
  go({ index: "[7, 7, 7]" });
  await waitFor(() => expect(document.querySelector(".bad-text")).not.toBeNull());
  expect(screen.getByText("nan", { selector: ".grid *" })).toBeTruthy();
});

test("values that were not kept: the reason, and in a training a button to keep them", async () => {
  show(RUN);
  go({ op: LOG, io: "output", slot: 0 });
  setOpTensors({
    op: LOG,
    step: 3,
    sources: [],
    tensors: [
      {
        io: "output",
        slot: 0,
        type: { dtype: "float32", shape: [2, 3] },
        statistics: null,
        kept: false,
        steps: [],
        why: "its memory was used again",
        statistics_step: null,
      },
    ],
  });
  render(<TensorView />);
  await waitFor(() => screen.getByText("No values yet"));
  expect(screen.getByText("its memory was used again")).toBeTruthy();
  expect(screen.getAllByRole("button", { name: /keep/i }).length).toBeGreaterThan(0);
  setOpTensors(null);
});

test("a dump of statistics shows them, and leads to their curve", async () => {
  show({ ...RUN, kind: "dump" });
  go({ op: LOG, io: "output", slot: 0 });
  setOpTensors({
    op: LOG,
    step: 3,
    sources: [],
    tensors: [
      {
        io: "output",
        slot: 0,
        type: { dtype: "float32", shape: [2, 3] },
        statistics: STATISTICS,
        kept: false,
        steps: [],
        why: "the dump has only statistics of it",
        statistics_step: null,
      },
    ],
  });
  render(<TensorView />);
  await waitFor(() => screen.getByText("Only statistics"));
  expect(screen.getByRole("rowheader", { name: /^finite max/ })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Over steps" }));
  expect(place.value.mode).toBe("curve");
  setOpTensors(null);
});

test("a dump has no button to keep values", async () => {
  show({ ...RUN, kind: "dump" });
  go({ op: LOG, io: "output", slot: 0 });
  render(<TensorView />);
  await waitFor(() => screen.getByText("No values available"));
  expect(screen.queryByRole("button", { name: /keep/i })).toBeNull();
});

test("while the training runs, the panel says when the answer comes", () => {
  show({ ...RUN, ranks: [{ ...RANK, state: "running" }] });
  serve([2, 3]);
  render(<TensorView />);
  expect(screen.getByText(/it answers when its step ends/)).toBeTruthy();
});

test("find goes to the first NaN", async () => {
  show(RUN);
  serve([2, 3]);
  answer({
    "GET /runs/r/tensor/summary": () => summary([2, 3]),
    "GET /runs/r/tensor/table": table,
    "GET /runs/r/tensor/heat": () => ({
      ...(table({ query: new URLSearchParams() } as Sent) as object),
      cells: [1, 2, null, 4, 5, 6],
      marks: [0, 0, 1, 0, 0, 0],
      low: 1,
      high: 6,
    }),
  });
  render(<TensorView />);
  await waitFor(() => screen.getByText("nan", { selector: ".grid *" }));
  go({ mode: "heat" });
  await userEvent.click(screen.getByRole("button", { name: "find" }));
  await waitFor(() => expect(place.value.mode).toBe("table"));
});
