// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import type { JSX } from "preact";
import { expect, test } from "vitest";
import { go, place } from "../../src/state/store";
import { SAME } from "../../src/tensor/CompareChoice";
import { ComparePane } from "../../src/tensor/ComparePane";
import { parseIndex } from "../../src/tensor/slices";
import type { Compared, DistanceNumbers } from "../../src/wire";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const DISTANCES: DistanceNumbers = {
  max_abs_error: 0.5,
  mean_abs_error: 0.1,
  max_relative_error: 0.2,
  mean_relative_error: 0.1,
  cosine: 0.9,
  relative_l2: 0.1,
  max_ulp: 4,
  within_1: 0,
  within_5: 0,
  equal_count: 5,
  count: 6,
  non_finite_disagreed: 0,
};

function compared(distances: Partial<DistanceNumbers> = {}): Compared {
  const type = { dtype: "float32", shape: [2, 3] };
  const table = (step: number, values: readonly number[]): Compared["a"] => ({
    tensor: { op: "net/log", io: "output", slot: 0, step },
    type,
    index: "[0:2, 0:3]",
    rows: 2,
    columns: 3,
    row_start: 0,
    column_start: 0,
    row_step: 1,
    column_step: 1,
    values,
  });
  const a = table(3, [1, 2, 3, 4, 5, 6]);
  return {
    a,
    b: table(2, [1, 2, 3, 4, 5, 5.5]),
    difference: table(3, [0, 0, 0, 0, 0, 0.5]),
    heat: { ...a, cells: [], marks: [], low: null, high: null },
    distances: { ...DISTANCES, ...distances },
    boundary: 0,
  };
}

function Pane(): JSX.Element {
  return (
    <ComparePane
      at={{ run: "r", rank: 0, op: "net/log", io: "output", slot: 0, step: 3 }}
      against={{ ...SAME, step: 2 }}
      plane={parseIndex("", [2, 3])}
      format={{ notation: "short", digits: 4 }}
      statistics={null}
    />
  );
}

function serve(distances: Partial<DistanceNumbers> = {}): void {
  answer({ "GET /runs/r/tensor/compare": () => compared(distances) });
}

const cells = (): readonly (string | null)[] =>
  screen.getAllByRole("cell").map((cell) => cell.textContent);

test("two steps of a tensor are compared by their difference first, then as they are", async () => {
  serve();
  show(RUN);
  render(<Pane />);
  expect((await screen.findByRole("status")).textContent).toContain("step 3 − step 2");
  expect(screen.getByRole("status").textContent).toContain("1 of 6 differ");
  expect(cells()).toEqual(["0", "0", "0", "0", "0", "0.5"]);
  await userEvent.click(screen.getByRole("tab", { name: "step 2" }));
  await waitFor(() => expect(cells()).toEqual(["1", "2", "3", "4", "5", "5.5"]));
});

test("NaN at the same places in both is the same", async () => {
  serve({ max_abs_error: 0, equal_count: 4 });
  show(RUN);
  render(<Pane />);
  expect((await screen.findByRole("status")).textContent).toContain("the same, 2 NaN in both");
});

test("values that are finite in one tensor only are counted", async () => {
  serve({ non_finite_disagreed: 3, max_abs_error: 0 });
  show(RUN);
  render(<Pane />);
  expect((await screen.findByRole("status")).textContent).toContain("3 finite in one only");
});

test("the tolerance is given in per cent and stays between 0 and 100", async () => {
  serve();
  show(RUN);
  render(<Pane />);
  const field = await screen.findByRole("textbox", { name: "Tolerance" });
  await userEvent.clear(field);
  await userEvent.type(field, "250{Enter}");
  await userEvent.tab();
  expect(place.value.tolerance).toBe(1);
  await waitFor(() => expect(sent.at(-1)?.query.get("tolerance")).toBe("1"));
});

test("tensors that cannot be compared say why, and the reader can stop comparing", async () => {
  show(RUN);
  go({ against: { ...SAME, step: 2 } });
  render(<Pane />);
  await screen.findByText("no answer to /runs/r/tensor/compare");
  expect(screen.getByRole("button", { name: "keep values" })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Stop comparing" }));
  expect(place.value.against).toBeNull();
});
