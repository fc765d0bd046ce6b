// @vitest-environment happy-dom
import { fireEvent, render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { NodeTree, visibleRows } from "../../src/panels/NodeTree";
import { nodeTicks } from "../../src/state/preferences";
import { go, place } from "../../src/state/store";
import type { TreeEntry } from "../../src/wire";
import { answer, RUN, sent, show, useEmptyPage, type Sent } from "./page";

useEmptyPage();

function entry(path: string, more: Partial<TreeEntry> = {}): TreeEntry {
  const isScope = path.endsWith("/");
  const label = path.replace(/\/$/, "").split("/").at(-1) ?? "";
  return { path, label, is_scope: isScope, type: "", kind: "op", ops: 2, hits: 0, ...more };
}

const LEVELS: Readonly<Record<string, readonly TreeEntry[]>> = {
  "": [entry("data"), entry("net/"), entry("loss")],
  "net/": [entry("net/log"), entry("net/inner/", { hits: 3 })],
  "net/inner/": [entry("net/inner/add")],
};

function serveTree(): void {
  answer({
    "GET /runs/r/graph/tree": ({ query }: Sent) => {
      const entries = LEVELS[query.get("scope") ?? ""] ?? [];
      return { total: entries.length, entries };
    },
  });
}

const labels = (): readonly (string | null | undefined)[] =>
  screen.getAllByRole("treeitem").map((row) => row.querySelector(".name")?.textContent);

test("what is open stands below its scope, what is not loaded yet is one row", () => {
  const branches = new Map([
    ["", { total: 3, entries: LEVELS[""] ?? [] }],
    ["net/", { total: 9, entries: LEVELS["net/"] ?? [] }],
  ]);
  const rows = visibleRows(branches, new Set(["net/", "net/inner/"]));
  expect(rows.map((row) => row.entry?.path ?? `${row.missing} more`)).toEqual([
    "data",
    "net/",
    "net/log",
    "net/inner/",
    "7 more",
    "loss",
  ]);
  expect(rows.map((row) => row.depth)).toEqual([0, 0, 1, 1, 1, 0]);
});

test("a click selects and opens a scope; its triangle closes it with all scopes inside", async () => {
  serveTree();
  show(RUN);
  render(<NodeTree />);
  await userEvent.click(await screen.findByText("net"));
  await userEvent.click(await screen.findByText("inner"));
  await screen.findByText("add");
  expect(labels()).toEqual(["data", "net", "log", "inner", "add", "loss"]);
  expect(place.value.op).toBe("net/inner/");
  await userEvent.click(screen.getByText("net"));
  expect(labels()).toContain("add");
  const triangle = screen.getByText("net").closest("[role=treeitem]")?.querySelector(".twist");
  if (triangle != null) await userEvent.click(triangle);
  await waitFor(() => expect(labels()).toEqual(["data", "net", "loss"]));
  expect(place.value.tree).toEqual([]);
  expect(sent.map(({ query }) => query.get("scope") ?? "")).toEqual(["", "net/", "net/inner/"]);
});

test("an op that is selected elsewhere opens its scopes in the tree", async () => {
  serveTree();
  show(RUN);
  render(<NodeTree />);
  await screen.findByText("loss");
  go({ op: "net/inner/add" });
  const row = (await screen.findByText("add")).closest("[role=treeitem]");
  expect(row?.getAttribute("aria-selected")).toBe("true");
});

test("arrow keys move, open and close, Enter selects, v ticks", async () => {
  serveTree();
  show(RUN);
  render(<NodeTree />);
  await screen.findByText("loss");
  const tree = screen.getByRole("tree");
  const press = (key: string): void => {
    fireEvent.keyDown(tree, { key });
  };
  const cursor = (): string | undefined => tree.querySelector<HTMLElement>(".cursor")?.dataset.path;
  press("ArrowDown");
  await waitFor(() => expect(cursor()).toBe("data"));
  press("ArrowDown");
  await waitFor(() => expect(cursor()).toBe("net/"));
  press("ArrowRight");
  await screen.findByText("log");
  press("ArrowRight");
  await waitFor(() => expect(cursor()).toBe("net/log"));
  press("v");
  expect(nodeTicks.value).toEqual([{ path: "net/log", scope: "net/", isOn: true }]);
  press("Enter");
  expect(place.value.op).toBe("net/log");
  press("ArrowLeft");
  await waitFor(() => expect(cursor()).toBe("net/"));
  press("ArrowLeft");
  await waitFor(() => expect(labels()).toEqual(["data", "net", "loss"]));
});
