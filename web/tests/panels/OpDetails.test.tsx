// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { OpDetails } from "../../src/panels/OpDetails";
import { go, place } from "../../src/state/store";
import type { Node, OpTensor, OpView } from "../../src/wire";
import { answer, hit, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const FLOATS = { dtype: "float32", shape: [2, 3] } as const;
const LOG = "Default/net/log-op0";

const NODE: Node = {
  name: LOG,
  type: "log",
  scope: "Default/net",
  phase: "forward",
  kind: "op",
  order: 4,
  inputs: [{ producer: "Default/net/mul-op0", slot: 1, type: FLOATS }],
  outputs: [FLOATS],
  attributes: [],
  sources: [],
  categories: ["tensor"],
};

function missing(io: "input" | "output", why: string): OpTensor {
  return { io, slot: 0, type: FLOATS, statistics: null, kept: false, steps: [], why };
}

/** Selects the op; the server answers with `view` and `tensors`. */
function serveOp(view: Partial<OpView>, tensors: readonly OpTensor[]): void {
  const whole: OpView = { node: NODE, graph: 0, consumers: [], hits: [], ...view };
  answer({
    "GET /runs/r/op": () => whole,
    "GET /runs/r/op/tensors": () => ({ op: LOG, step: 3, tensors, sources: [] }),
    "POST /runs/r/keep": () => null,
    "POST /runs/r/control": () => RUN,
  });
  go({ op: LOG });
}

test("without a selected op the panel says how to select one", () => {
  show(RUN);
  render(<OpDetails />);
  expect(screen.getByText("No op selected")).toBeTruthy();
});

test("a reason that all tensors share is shown once", async () => {
  serveOp({}, [missing("input", "not kept"), missing("output", "not kept")]);
  show(RUN);
  render(<OpDetails />);
  await waitFor(() => expect(screen.getAllByText("not kept")).toHaveLength(1));
});

test("different reasons are shown with their tensors", async () => {
  serveOp({}, [missing("input", "not kept"), missing("output", "too large")]);
  show(RUN);
  render(<OpDetails />);
  expect((await screen.findByText("not kept")).closest(".tensor-row")).not.toBeNull();
  expect((await screen.findByText("too large")).closest(".tensor-row")).not.toBeNull();
});

test("the readers of an output are listed once each, many of them behind a button", async () => {
  const readers = ["a", "b", "c", "d", "e", "f"].map((name) => [0, `Default/${name}`] as const);
  serveOp({ consumers: [...readers, [0, "Default/a"], [1, "Default/other"]] }, []);
  show(RUN);
  render(<OpDetails />);
  const more = await screen.findByRole("button", { name: "and 2 more" });
  expect(screen.queryByRole("button", { name: "f" })).toBeNull();
  await userEvent.click(more);
  await userEvent.click(screen.getByRole("button", { name: "f" }));
  expect(place.value.op).toBe("Default/f");
});

test("hits are counted without undecided results, and a click lists them", async () => {
  serveOp({ hits: [hit(1), hit(2), hit(3, { verdict: "undecided" })] }, []);
  show(RUN);
  render(<OpDetails />);
  await userEvent.click(await screen.findByRole("button", { name: "2 hits" }));
  expect([place.value.side, place.value.hitOp]).toEqual(["hits", true]);
});

test("a live op can be run to and kept, one of a training that has ended cannot", async () => {
  serveOp({}, []);
  show(RUN);
  const { unmount } = render(<OpDetails />);
  await userEvent.click(await screen.findByRole("button", { name: "run to here" }));
  await userEvent.click(screen.getByRole("button", { name: "keep values" }));
  const posts = sent.filter(({ method }) => method === "POST");
  expect(posts.map(({ path }) => path)).toEqual(["/runs/r/control", "/runs/r/keep"]);
  expect(posts[0]?.body).toMatchObject({ command: "to", op: LOG });
  expect(posts[1]?.body).toMatchObject({ ops: [LOG] });
  unmount();
  show({ ...RUN, controls: [], ranks: [{ ...RANK, state: "ended", exit_code: 0 }] });
  render(<OpDetails />);
  await screen.findByText("log-op0");
  expect(screen.queryByRole("button", { name: "keep values" })).toBeNull();
  expect(screen.queryByRole("button", { name: "run to here" })).toBeNull();
});
