// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { Causes } from "../../src/panels/Causes";
import type { CauseView } from "../../src/wire";
import { answer, hit, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const ORIGIN = "Default/net/sqrt-op0";
const CAUSE: CauseView = {
  rank: 0,
  origin: ORIGIN,
  watchpoint: 1,
  condition: "tensor_overflow",
  first: hit(0, {
    op: ORIGIN,
    origin: ORIGIN,
    part: "producer",
    headline: {
      title: "sqrt made 54 NaN of 64 values",
      text: "sqrt made 54 NaN of 64 values.",
      source: null,
    },
  }),
  hits: 120,
  others: 61,
  phases: [
    { phase: "forward", tensors: 12, hits: 12 },
    { phase: "backward", tensors: 50, hits: 108 },
  ],
};

test("one cause is one entry, with the number of tensors of each phase", async () => {
  answer({
    "GET /runs/r/causes": () => ({ total: 1, causes: [CAUSE], undecided: 3, harmless: 2 }),
  });
  show(RUN);
  render(<Causes />);
  await screen.findByText("sqrt made 54 NaN of 64 values");
  screen.getByRole("button", { name: /12 tensors in forward/ });
  screen.getByRole("button", { name: /50 tensors in gradients/ });
  screen.getByText("108 hits");
  screen.getByText("62 tensors: its own and 61 that got the values from there");
  screen.getByRole("button", { name: /3 results not checkable/ });
  screen.getByRole("button", { name: /2 tensors with NaN or Inf that are no fault/ });
  expect(screen.getAllByRole("listitem", { hidden: false }).length).toBeGreaterThan(1);
});

test("a phase unfolds into its tensors, which are asked for by origin and phase", async () => {
  answer({
    "GET /runs/r/causes": () => ({ total: 1, causes: [CAUSE], undecided: 0, harmless: 0 }),
    "GET /runs/r/hits": () => ({ total: 60, hits: [hit(7, { part: "carrier" })], dropped: 0 }),
  });
  show(RUN);
  render(<Causes />);
  await userEvent.click(await screen.findByRole("button", { name: /50 tensors in gradients/ }));
  await screen.findByText("step 7");
  const asked = sent.find(({ path }) => path.endsWith("/hits"))?.query;
  expect([asked?.get("origin"), asked?.get("phase"), asked?.get("verdict")]).toEqual([
    ORIGIN,
    "backward",
    "hit",
  ]);
  screen.getByRole("button", { name: /and 59 more/ });
});

test("causes of all ranks are listed, and each names its rank", async () => {
  answer({
    "GET /runs/r/causes": () => ({ total: 1, causes: [{ ...CAUSE, rank: 1 }], undecided: 0 }),
  });
  show({ ...RUN, ranks: [RANK, { ...RANK, rank: 1 }] });
  render(<Causes />);
  await screen.findByText("rank 1, step 0");
  expect(sent.at(-1)?.query.get("rank")).toBeNull();
});
