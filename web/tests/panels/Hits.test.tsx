// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import { Hits } from "../../src/panels/Hits";
import { go, place } from "../../src/state/store";
import type { Hit } from "../../src/wire";
import { answer, hit, RANK, RUN, sent, show, useEmptyPage, WATCHPOINT, type Sent } from "./page";

useEmptyPage();
beforeEach(() => go({ hitView: "list" }));

/** Answers with pages of `all`. */
function listOf(all: readonly Hit[], dropped = 0): void {
  answer({
    "GET /runs/r/hits": ({ query }: Sent) => {
      const offset = Number(query.get("offset"));
      const hits = all.slice(offset, offset + Number(query.get("limit")));
      return { total: all.length, hits, dropped };
    },
  });
}

const pages = (): readonly (string | null)[] =>
  sent.filter(({ path }) => path.endsWith("/hits")).map(({ query }) => query.get("offset"));

test("of a long list only the first page is loaded and only a few rows exist", async () => {
  listOf(Array.from({ length: 1000 }, (_, number) => hit(number)));
  show({ ...RUN, ranks: [{ ...RANK, hits: 1000 }] });
  render(<Hits />);
  await screen.findByText("step 0");
  expect(screen.getAllByRole("listitem").length).toBeLessThan(40);
  expect(pages()).toEqual(["0"]);
  expect(screen.getByRole("status").textContent).toBe("1,000 results");
});

test("producers, carriers and undecided results are distinguished", async () => {
  listOf([
    hit(0, { part: "producer", origin: "Default/net/log-op0" }),
    hit(1, { part: "carrier", op: "Default/net/mean-op0", origin: "Default/net/log-op0" }),
    hit(2, { verdict: "undecided", why: "it has no elements" }),
  ]);
  show(RUN);
  render(<Hits />);
  await screen.findByText("step 0");
  const rows = screen.getAllByRole("listitem").map((row) => row.textContent);
  expect(rows[0]).toContain("origin");
  expect(rows[0]).not.toContain("origin:");
  expect(rows[1]).toContain("carrier");
  expect(rows[1]).toContain("origin: log-op0");
  expect(rows[2]).toContain("not checkable");
  expect(rows[2]).toContain("it has no elements");
});

test("each hit says how certain it is", async () => {
  listOf([
    hit(0, { status: "established" }),
    hit(1, { status: "supported" }),
    hit(2, { status: "hypothesis", verdict: "undecided" }),
  ]);
  show(RUN);
  render(<Hits />);
  await screen.findByText("step 0");
  const rows = screen.getAllByRole("listitem").map((row) => row.textContent);
  expect(rows[0]).toContain("established");
  expect(rows[1]).toContain("supported");
  expect(rows[2]).toContain("hypothesis");
});

test("the chain of a hit unfolds, stays in the address, and its ops can be selected", async () => {
  const chain = ["Default/a", "Default/b"];
  listOf([hit(4, { origin: "Default/a", chain })]);
  show(RUN);
  render(<Hits />);
  await userEvent.click(await screen.findByRole("button", { name: "chain of 2 ops" }));
  expect(place.value.chains).toEqual(["0.4"]);
  expect(screen.getByRole("list", { name: "From the origin to here" })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "b" }));
  expect([place.value.op, place.value.step]).toEqual(["Default/b", 4]);
});

test("a click on the op of a hit selects the tensor that was hit", async () => {
  listOf([hit(4, { io: "input", slot: 1 })]);
  show({ ...RUN, kind: "dump" });
  render(<Hits />);
  await userEvent.click(await screen.findByRole("button", { name: "log-op0" }));
  expect(place.value).toMatchObject({ op: "Default/net/log-op0", io: "input", slot: 1, step: 4 });
});

test("filters are part of the request, and one that nothing matches can be cleared", async () => {
  listOf([]);
  show({ ...RUN, watchpoints: [WATCHPOINT] });
  go({ hitStep: 7 });
  render(<Hits />);
  await screen.findByText("No hit matches");
  await userEvent.selectOptions(screen.getByLabelText("Result"), "undecided");
  await waitFor(() =>
    expect([sent.at(-1)?.query.get("step"), sent.at(-1)?.query.get("verdict")]).toEqual([
      "7",
      "undecided",
    ]),
  );
  await userEvent.selectOptions(screen.getByLabelText("Phase of hits"), "optimizer");
  await waitFor(() => expect(sent.at(-1)?.query.get("phase")).toBe("optimizer"));
  await userEvent.click(await screen.findByRole("button", { name: "show all" }));
  expect(place.value.hitPhase).toBe("");
  expect([place.value.hitStep, place.value.hitVerdict]).toEqual([null, ""]);
});

test("without hits the list says whether anything is watched", async () => {
  listOf([]);
  show(RUN);
  render(<Hits />);
  await screen.findByText("No watchpoints yet");
  show({ ...RUN, watchpoints: [WATCHPOINT, { ...WATCHPOINT, id: 2 }] });
  await screen.findByText("None of the 2 watchpoints was hit yet.");
});

test("hits that the server dropped are counted", async () => {
  listOf([hit(0)], 1234);
  show(RUN);
  render(<Hits />);
  await screen.findByText(/1,234 more hits were dropped/);
});
