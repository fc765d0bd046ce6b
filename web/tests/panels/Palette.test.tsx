// @vitest-environment happy-dom
import { fireEvent, render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { listenToKeys } from "../../src/keyboard";
import { closeDialog, dialog } from "../../src/panels/dialogs";
import { Palette } from "../../src/panels/Palette";
import { place } from "../../src/state/store";
import { answer, GRAPH, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

function serve(): void {
  answer({
    "GET /runs/r/graph/scopes": () => ({
      total: 1,
      scopes: [{ path: "Default/net/20-Block/", label: "20-Block", ops: 53 }],
    }),
    "GET /runs/r/nodes": () => ({
      total: 1,
      offset: 0,
      nodes: [
        {
          name: "Default/net/20-Block/gelu-op0",
          type: "gelu",
          scope: "Default/net/20-Block",
          phase: "forward",
          kind: "op",
          order: 7,
          categories: [],
          hits: 0,
          source: null,
        },
      ],
    }),
    "GET /runs/r/sources": () => ({
      total: 1,
      lines: [{ file: "/x/train.py", line: 30, code: "x = gelu(x)", ops: 2 }],
    }),
    "POST /runs/r/control": () => RUN,
  });
  show({ ...RUN, ranks: [{ ...RANK, graphs: [{ ...GRAPH, steps: [[0, 9]] }] }] });
  render(<Palette />);
}

const field = (): HTMLElement => screen.getByRole("searchbox");

test("Ctrl-K opens the palette", () => {
  listenToKeys();
  fireEvent.keyDown(window, { key: "k", ctrlKey: true });
  expect(dialog.value).toEqual({ kind: "palette" });
  closeDialog();
});

test("words find modules, ops and lines; Enter goes to the chosen one", async () => {
  serve();
  await userEvent.type(field(), "20 gelu");
  await waitFor(() => expect(screen.getAllByRole("option")).toHaveLength(3));
  expect(screen.getAllByRole("option").map((each) => each.textContent)).toEqual([
    "module20-BlockForward › net · 53 ops",
    "opgelu-op0net › 20-Block",
    "linetrain.py:30x = gelu(x)",
  ]);
  await userEvent.keyboard("{ArrowDown}{Enter}");
  expect(place.value.op).toBe("Default/net/20-Block/gelu-op0");
});

test("a number is a step to show, or so many steps to run", async () => {
  serve();
  await userEvent.type(field(), "step 7");
  expect(screen.getByText("show")).toBeTruthy();
  await userEvent.keyboard("{Enter}");
  expect(place.value.step).toBe(7);
});

test("what can be done now is found by its name", async () => {
  serve();
  await userEvent.type(field(), "continue");
  await userEvent.keyboard("{Enter}");
  await waitFor(() => expect(sent.at(-1)?.body).toMatchObject({ command: "continue" }));
});
