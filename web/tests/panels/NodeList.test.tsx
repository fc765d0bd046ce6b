// @vitest-environment happy-dom
import { fireEvent, render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { NodeList } from "../../src/panels/NodeList";
import { dialog } from "../../src/panels/dialogs";
import { nodeTicks } from "../../src/state/preferences";
import { go, place } from "../../src/state/store";
import type { ListedNode } from "../../src/wire";
import { answer, GRAPH, RANK, RUN, sent, show, type Sent, useEmptyPage } from "./page";

useEmptyPage();

function listed(name: string): ListedNode {
  return {
    name,
    type: "log",
    scope: name.slice(0, name.lastIndexOf("/")),
    phase: "forward",
    kind: "op",
    order: 0,
    categories: ["tensor"],
    hits: 0,
    source: null,
  };
}

/** Answers searches with those of `names` that contain the query. */
function serveNodes(...names: readonly string[]): void {
  answer({
    "GET /runs/r/graph/tree": () => ({ scope: "", total: 0, offset: 0, entries: [] }),
    "GET /runs/r/nodes": ({ query }: Sent) => {
      const nodes = names.filter((name) => name.includes(query.get("query") ?? "")).map(listed);
      return { total: nodes.length, offset: 0, nodes };
    },
  });
}

const options = (): readonly (string | null)[] =>
  screen.queryAllByRole("option").flatMap((each) => each.getAttribute("data-path") ?? []);

test("before the first step there are no ops", () => {
  show({ ...RUN, ranks: [{ ...RANK, graphs: [], graph: null }] });
  render(<NodeList />);
  expect(screen.getByText("No ops yet")).toBeTruthy();
});

test("typed text searches after a moment, and Enter moves to the results at once", async () => {
  serveNodes("Default/net/log", "Default/net/add");
  show(RUN);
  render(<NodeList />);
  await userEvent.type(screen.getByRole("searchbox"), "log{Enter}");
  expect(place.value.query).toBe("log");
  await waitFor(() => expect(options()).toEqual(["Default/net/log"]));
  await waitFor(() => expect(document.activeElement?.getAttribute("role")).toBe("listbox"));
});

test("keys move through the results, select and tick", async () => {
  serveNodes("Default/net/a", "Default/net/b");
  show(RUN);
  go({ query: "net" });
  render(<NodeList />);
  await waitFor(() => expect(options()).toHaveLength(2));
  const list = screen.getByRole("listbox");
  fireEvent.keyDown(list, { key: "End" });
  await waitFor(() => expect(list.getAttribute("aria-activedescendant")).toBe("node-1"));
  fireEvent.keyDown(list, { key: "v" });
  expect(nodeTicks.value.map((each) => each.path)).toEqual(["Default/net/b"]);
  fireEvent.keyDown(list, { key: "Enter" });
  expect(place.value.op).toBe("Default/net/b");
});

test("filters are sent, and cleared together when nothing matches", async () => {
  serveNodes();
  show({ ...RUN, ranks: [{ ...RANK, graphs: [0, 1].map((id) => ({ ...GRAPH, id })) }] });
  render(<NodeList />);
  await userEvent.selectOptions(screen.getByLabelText("Kind"), "weight");
  await userEvent.click(screen.getByRole("button", { name: "hits" }));
  await waitFor(() => {
    const query = sent.findLast(({ path }) => path.endsWith("/nodes"))?.query;
    expect([query?.get("category"), query?.get("hits")]).toEqual(["weight", "true"]);
  });
  await screen.findByText("No op of “graph 0” matches");
  expect(screen.getByRole("button", { name: "search in graph 1" })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "clear search and filters" }));
  expect([place.value.category, place.value.onlyHits]).toEqual(["", false]);
});

test("ticked nodes are counted and become the ops of a new watchpoint", async () => {
  serveNodes("Default/net/a");
  show(RUN);
  go({ query: "net" });
  render(<NodeList />);
  await userEvent.click(await screen.findByTitle("Watch Default/net/a (v)"));
  expect(await screen.findByText("1 ticked")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "watch these" }));
  expect(dialog.value).toMatchObject({ kind: "watchpoint", draft: { ops: ["Default/net/a"] } });
});

test("results say where they differ first, and mark what matched", async () => {
  serveNodes("Default/net/0-Block/gelu-op0", "Default/net/20-Block/gelu-op0");
  show(RUN);
  go({ query: "gelu" });
  render(<NodeList />);
  await waitFor(() => expect(options()).toHaveLength(2));
  const places = screen
    .queryAllByRole("option")
    .flatMap((each) => each.querySelector(".under")?.textContent ?? []);
  expect(places).toEqual(["0-Block", "20-Block"]);
  expect(screen.getAllByText("gelu").map((each) => each.tagName)).toEqual(["MARK", "MARK"]);
});
