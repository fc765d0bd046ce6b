// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { OpDetails } from "../../src/panels/OpDetails";
import { go, place } from "../../src/state/store";
import type { Node, OpTensor, OpView, StatisticNumbers } from "../../src/wire";
import { answer, GRAPH, RANK, refusal, RUN, sent, show, useEmptyPage } from "./page";

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

const SHOWN = { shown_in: "Default/net/", is_folded: false };

function missing(io: "input" | "output", why: string): OpTensor {
  return {
    io,
    slot: 0,
    type: FLOATS,
    statistics: null,
    kept: false,
    steps: [],
    why,
    statistics_step: null,
  };
}

/** Selects the op; the server answers with `view` and `tensors`. */
function serveOp(view: Partial<OpView>, tensors: readonly OpTensor[]): void {
  const whole: OpView = { node: NODE, graph: 0, consumers: [], hits: 0, ...SHOWN, ...view };
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
  expect(screen.getByText("Nothing selected")).toBeTruthy();
});

test("an op that the graph on the screen does not have is found in another graph", async () => {
  go({ op: LOG });
  answer({
    "GET /runs/r/op": ({ query }) =>
      query.get("graph") === "1"
        ? { node: NODE, graph: 1, consumers: [], hits: 0, ...SHOWN }
        : refusal("no op 'x' in graph 0", "no-such-op"),
  });
  const other = { ...GRAPH, id: 1, difference: "first step of AdamW" };
  show({ ...RUN, ranks: [{ ...RANK, graphs: [GRAPH, other] }] });
  render(<OpDetails />);
  await screen.findByText(/in “first step of AdamW”/);
  await userEvent.click(screen.getByRole("button", { name: "Show that graph" }));
  expect(place.value.graph).toBe(1);
});

test("an op that no known graph of a rank has is no error", async () => {
  answer({ "GET /runs/r/op": () => refusal("no op 'x' in graph 0", "no-such-op") });
  go({ op: LOG });
  show({ ...RUN, ranks: [RANK, { ...RANK, rank: 1 }] });
  render(<OpDetails />);
  expect(await screen.findByText("The known graphs of rank 0 do not have this op.")).toBeTruthy();
});

test("an op without values offers to run to it and to keep them", async () => {
  serveOp({}, [missing("input", "not kept"), missing("output", "not kept")]);
  show(RUN);
  render(<OpDetails />);
  await userEvent.click(await screen.findByRole("button", { name: "Run to this op" }));
  await userEvent.click(screen.getByRole("button", { name: "Keep from the next step" }));
  expect(screen.queryByText("not kept")).toBeNull();
  expect(sent.filter(({ method }) => method === "POST").map(({ body }) => body)).toMatchObject([
    { command: "to", op: LOG },
    { ops: [LOG] },
  ]);
});

test("a reason that all tensors share is shown once when the training has ended", async () => {
  serveOp({}, [missing("input", "not kept"), missing("output", "not kept")]);
  show({ ...RUN, controls: [], ranks: [{ ...RANK, state: "ended" }] });
  render(<OpDetails />);
  await waitFor(() => expect(screen.getAllByText("not kept")).toHaveLength(1));
});

test("statistics without values are shown with their step, and lead to the curve", async () => {
  const statistics: StatisticNumbers = {
    ...{ count: 6, nan_count: 0, positive_inf_count: 0, negative_inf_count: 0, zero_count: 0 },
    ...{ negative_count: 0, positive_count: 6, max: 4, min: 1, finite_max: 4, finite_min: 1 },
    ...{ avg: 2, l2norm: 6, std: 1, abs_mean: 2 },
  };
  const known = { ...missing("output", "not kept"), statistics, statistics_step: 16 };
  serveOp({}, [missing("input", "not kept"), known]);
  show(RUN);
  render(<OpDetails />);
  expect(await screen.findByText(/step 16/)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "over steps" }));
  expect(place.value).toMatchObject({ tab: "tensor", mode: "curve", op: LOG });
});

test("values that are kept say how many and how much, and one click stops that", async () => {
  serveOp({}, []);
  const kept = [{ pattern: LOG, steps: 2, nbytes: 3_100_000 }];
  show({ ...RUN, ranks: [{ ...RANK, kept }] });
  render(<OpDetails />);
  await userEvent.click(await screen.findByRole("button", { name: "kept: last 2 steps, 3.1 MB" }));
  expect(sent.find(({ path }) => path === "/runs/r/keep")?.body).toEqual({ ops: [LOG], steps: 0 });
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

test("hits are counted, and a click lists them", async () => {
  serveOp({ hits: 2 }, []);
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
