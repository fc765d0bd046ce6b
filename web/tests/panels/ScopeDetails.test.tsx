// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { dialog } from "../../src/panels/dialogs";
import { OpDetails } from "../../src/panels/OpDetails";
import { go, place } from "../../src/state/store";
import type { ScopeView } from "../../src/wire";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const PATH = "Default/net/fc-Linear/";
const ROWS = { dtype: "float32", shape: [8, 16] } as const;
const VIEW: ScopeView = {
  path: PATH,
  graph: 0,
  label: "fc-Linear",
  cls: "Linear",
  phase: "forward",
  part: "network",
  is_function: false,
  ops: 2,
  first_order: 3,
  op_names: [],
  parameters: [{ name: "fc.weight", type: ROWS, elements: 128, is_weight: true }],
  elements: 128,
  inputs: [{ producer: "Default/net/relu-op0", slot: 0, type: ROWS }],
  outputs: [{ producer: `${PATH}addmm-op0`, slot: 0, type: ROWS }],
  hits: 3,
  defined: null,
  called: null,
};

function serve(view: Partial<ScopeView> = {}): void {
  const norms: Readonly<Record<string, number>> = { "fc.weight": 2.5, "fc.weight.grad": 0.125 };
  answer({
    "GET /runs/r/graph/scope": () => ({ ...VIEW, ...view }),
    "GET /runs/r/op/tensors": ({ query }) => ({
      op: query.get("name"),
      step: 3,
      sources: [],
      tensors: [
        {
          io: "output",
          slot: 0,
          type: ROWS,
          kept: true,
          steps: [],
          why: "",
          statistics: { l2norm: norms[query.get("name") ?? ""] },
        },
      ],
    }),
    "POST /runs/r/keep": () => null,
  });
  show(RUN);
  go({ op: PATH });
  render(<OpDetails />);
}

test("a scope has its class, parameters with norms, shapes in and out, and hits", async () => {
  serve();
  await screen.findByRole("heading", { name: "fc-Linear" });
  expect(screen.getByText("Linear")).toBeTruthy();
  expect(screen.getByText("Forward › net › fc-Linear")).toBeTruthy();
  expect(screen.getByText("1 parameter, 128 numbers")).toBeTruthy();
  expect(screen.getByText("8×16")).toBeTruthy();
  await screen.findByText("2.5");
  await screen.findByText("0.125");
  expect(screen.getAllByText("float32[8,16]")).toHaveLength(2);
  await userEvent.click(screen.getByRole("button", { name: "3 hits" }));
  expect(place.value).toMatchObject({ onlyHits: true, query: PATH });
});

test("everything inside a scope can be watched and kept", async () => {
  serve();
  await userEvent.click(await screen.findByRole("button", { name: /watch all inside/ }));
  expect(dialog.value).toMatchObject({ kind: "watchpoint", draft: { ops: [PATH] } });
  await userEvent.click(screen.getByRole("button", { name: "keep values" }));
  await waitFor(() => expect(sent.at(-1)?.body).toMatchObject({ ops: [PATH] }));
});

test("of a function of the step its ops are watched, because no name contains it", async () => {
  const ops = ["Default/mul-op0", "Default/sum-op0"];
  serve({ is_function: true, op_names: ops });
  await userEvent.click(await screen.findByRole("button", { name: /watch all inside/ }));
  expect(dialog.value).toMatchObject({ kind: "watchpoint", draft: { ops } });
});
