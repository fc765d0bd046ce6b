// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { Comparison } from "../../src/compare/Comparison";
import { go, place, setRuns } from "../../src/state/store";
import type { ComparisonView, PairView } from "../../src/wire";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const DUMP = { ...RUN, kind: "dump", title: "/dumps/r", peer: "s" } as const;

const VIEW: ComparisonView = {
  a: "r",
  b: "s",
  side: "a",
  running: false,
  what: "",
  done: 0,
  total: 0,
  problem: "",
  verdict: "aligned",
  by: "values",
  first: null,
  reasons: [],
  notes: [],
  losses: [],
  counts: { equal: 1, diverged: 1 },
  pairs: 2,
  unpaired_a: 0,
  unpaired_b: 3,
};

function pair(number: number, more: Partial<PairView> = {}): PairView {
  return {
    number,
    step: 0,
    rank: 0,
    order: number,
    a: `Default/net/op${number}`,
    b: `Default/net/op${number}`,
    type_a: "log",
    type_b: "log",
    kind: "op",
    phase: "forward",
    how: "name",
    status: "equal",
    error: 0,
    input_error: 0,
    allowed: 0,
    members_a: [],
    members_b: [],
    source_a: null,
    source_b: null,
    tensors: [],
    notes: [],
    ...more,
  };
}

function serve(view: ComparisonView): void {
  const pairs = [pair(0), pair(1, { status: "diverged", error: "inf" })];
  answer({
    "GET /runs/r/comparison": () => view,
    "GET /runs/r/comparison/pairs": () => ({ total: 2, offset: 0, pairs }),
    "GET /runs/r/comparison/unpaired": () => ({ total: 0, offset: 0, unpaired: [] }),
  });
  setRuns([DUMP, { ...DUMP, id: "s", title: "/dumps/s", peer: "r" }]);
  go({ run: "r" });
}

test("a run that is alone says how to compare", () => {
  show({ ...DUMP, peer: null });
  render(<Comparison />);
  expect(screen.getByText("Open two dumps: sonde view DIR DIR2")).toBeTruthy();
});

test("a comparison that failed shows why", async () => {
  serve({ ...VIEW, verdict: null, problem: "a file is damaged" });
  render(<Comparison />);
  expect(await screen.findByText("The dumps could not be compared")).toBeTruthy();
  expect(screen.getByText("a file is damaged")).toBeTruthy();
});

test("pairs are listed with their status, and can be filtered and sorted", async () => {
  serve(VIEW);
  render(<Comparison />);
  await waitFor(() => expect(document.querySelectorAll(".pair-row.line")).toHaveLength(2));
  expect(document.querySelectorAll(".pair-row.line")[1]?.textContent).toContain("diverged");
  await userEvent.click(screen.getByRole("tab", { name: "largest distance" }));
  expect(place.value.pairSort).toBe("error");
  await waitFor(() => expect(sent.at(-1)?.query.get("sort")).toBe("error"));
});
