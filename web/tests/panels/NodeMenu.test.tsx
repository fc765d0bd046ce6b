// @vitest-environment happy-dom
import { fireEvent, render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test } from "vitest";
import { dialog } from "../../src/panels/dialogs";
import { NodeMenu } from "../../src/panels/NodeMenu";
import { closeNodeMenu, nodeMenu, openMenuAtPointer, openNodeMenu } from "../../src/state/nodeMenu";
import { place } from "../../src/state/store";
import { answer, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();
afterEach(() => closeNodeMenu());

const LOG = "Default/net/log-op0";

function openAt(path: string, isOp = true): void {
  render(<NodeMenu />);
  openNodeMenu({ path, isOp, x: 10, y: 20 });
}

const item = (name: string): Promise<HTMLElement> => screen.findByRole("menuitem", { name });

test("“Continue to” runs the training to the node", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show(RUN);
  openAt(LOG);
  await userEvent.click(await item("Continue to"));
  expect(sent.map(({ body }) => body)).toMatchObject([{ command: "to", op: LOG }]);
  expect(screen.queryByRole("menu")).toBeNull();
});

test("a scope can be run to and watched; it has no tensor", async () => {
  show(RUN);
  openAt("Default/net/", false);
  expect(await item("Continue to")).toHaveProperty("disabled", false);
  expect(screen.queryByRole("menuitem", { name: "View the tensor" })).toBeNull();
  await userEvent.click(await item("Watch…"));
  expect(dialog.value).toMatchObject({ kind: "watchpoint", draft: { ops: ["Default/net/"] } });
});

test("a parameter cannot be run to, and nothing can be run to while the training runs", async () => {
  show(RUN);
  openAt("fc.weight", false);
  expect(await item("Continue to")).toHaveProperty("disabled", true);
  show({ ...RUN, controls: ["pause", "terminate"] });
  openNodeMenu({ path: LOG, isOp: true, x: 0, y: 0 });
  await waitFor(() =>
    expect(screen.getByRole("menuitem", { name: "Continue to" })).toHaveProperty("disabled", true),
  );
});

test("the previous step is compared as soon as its number is known", async () => {
  const output = { io: "output", slot: 0, steps: [3], kept: true, why: "", statistics: null };
  answer({ "GET /runs/r/op/tensors": () => ({ op: "fc.weight", step: 3, tensors: [output] }) });
  show(RUN);
  openAt("fc.weight", false);
  await userEvent.click(await item("Compare with previous step"));
  await waitFor(() => expect(place.value.tab).toBe("tensor"));
  expect([place.value.op, place.value.against?.step]).toEqual(["fc.weight", 2]);
});

test("the keyboard moves through the menu, and Escape gives the focus back", async () => {
  show(RUN);
  render(<button type="button">before</button>);
  screen.getByText("before").focus();
  openAt(LOG);
  await waitFor(() => expect(document.activeElement?.textContent).toContain("Continue to"));
  await userEvent.keyboard("{ArrowDown}");
  expect(document.activeElement?.textContent).toContain("View the tensor");
  await userEvent.keyboard("{ArrowUp}{ArrowUp}");
  expect(document.activeElement?.textContent).toContain("Copy name");
  await userEvent.keyboard("{Home}{Escape}");
  expect(nodeMenu.value).toBeNull();
  expect(document.activeElement?.textContent).toBe("before");
});

test("a press elsewhere closes the menu", async () => {
  show(RUN);
  openAt(LOG);
  await item("Continue to");
  fireEvent.pointerDown(document.body);
  expect(nodeMenu.value).toBeNull();
});

test("a training that has ended can be looked at, not controlled", async () => {
  show({ ...RUN, controls: [], ranks: [{ ...RANK, state: "ended" }] });
  openAt(LOG);
  const off = async (name: string): Promise<boolean> =>
    ((await item(name)) as HTMLButtonElement).disabled;
  expect(await off("Continue to")).toBe(true);
  expect(await off("Watch…")).toBe(true);
  expect(await off("Copy name")).toBe(false);
});

test("a right click opens the menu at the pointer instead of that of the browser", () => {
  const event = new MouseEvent("contextmenu", {
    button: 2,
    clientX: 7,
    clientY: 8,
    cancelable: true,
  });
  expect(openMenuAtPointer(event, LOG, true)).toBe(true);
  expect(event.defaultPrevented).toBe(true);
  expect(nodeMenu.value).toEqual({ path: LOG, isOp: true, x: 7, y: 8 });
});
