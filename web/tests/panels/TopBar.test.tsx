// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { dialog } from "../../src/panels/dialogs";
import { TopBar } from "../../src/panels/TopBar";
import { UnwatchedDialog } from "../../src/panels/UnwatchedDialog";
import { go, place, setRuns } from "../../src/state/store";
import { answer, RANK, RUN, sent, show, useEmptyPage, WATCHPOINT } from "./page";

useEmptyPage();

function isEnabled(name: string): boolean {
  return !screen.getByRole<HTMLButtonElement>("button", { name }).disabled;
}

const controls = (): readonly unknown[] =>
  sent.filter((each) => each.path === "/runs/r/control").map((each) => each.body);

test("the pill says why the training is paused", async () => {
  show({ ...RUN, ranks: [{ ...RANK, reason: "hit" }] });
  render(<TopBar />);
  const pill = screen.getByRole("status", { name: "State of the training" });
  expect(pill.textContent).toContain("paused at a hit");
  show({ ...RUN, ranks: [{ ...RANK, state: "running", reason: null }] });
  await waitFor(() => expect(pill.textContent).toContain("running"));
});

test("the pill says that a process does not answer", () => {
  show({ ...RUN, ranks: [{ ...RANK, state: "running", reason: null, is_answering: false }] });
  render(<TopBar />);
  expect(screen.getByRole("status").textContent).toContain("not answering");
});

test("only the controls that the server offers are enabled; run to op needs an op", async () => {
  show({ ...RUN, controls: ["continue", "to"] });
  render(<TopBar />);
  expect(isEnabled("Continue")).toBe(true);
  expect(isEnabled("Next op")).toBe(false);
  expect(isEnabled("Run to op")).toBe(false);
  go({ op: "Default/a" });
  await waitFor(() => expect(isEnabled("Run to op")).toBe(true));
});

test("a running training is paused by the button that continues a paused one", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show({ ...RUN, controls: ["pause"], ranks: [{ ...RANK, state: "running", reason: null }] });
  render(<TopBar />);
  await userEvent.click(screen.getByRole("button", { name: "Pause" }));
  expect(controls()).toMatchObject([{ command: "pause", rank: null }]);
});

test("Enter in the step field runs that many steps", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show(RUN);
  render(<TopBar />);
  const field = screen.getByLabelText("Steps to run");
  await userEvent.clear(field);
  await userEvent.type(field, "12{Enter}");
  expect(controls()).toMatchObject([{ command: "step", steps: 12 }]);
});

test("the controls act on one rank if the reader chose that", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show({ ...RUN, ranks: [RANK, { ...RANK, rank: 1 }], watchpoints: [WATCHPOINT] });
  go({ rank: 1 });
  render(<TopBar />);
  await userEvent.selectOptions(screen.getByLabelText("Ranks to control"), "one");
  await userEvent.click(screen.getByRole("button", { name: "Continue" }));
  expect(controls()).toMatchObject([{ command: "continue", rank: 1 }]);
});

test("Continue with nothing watched asks first, once for each run", async () => {
  answer({
    "GET /runs/r": () => RUN,
    "POST /runs/r/control": () => RUN,
    "POST /runs/r/watchpoints/recommended": () => ({ watchpoints: [], warnings: [] }),
  });
  show(RUN);
  render(
    <>
      <TopBar />
      <UnwatchedDialog />
    </>,
  );
  await userEvent.click(screen.getByRole("button", { name: "Continue" }));
  await waitFor(() => expect(dialog.value).toEqual({ kind: "unwatched" }));
  expect(controls()).toEqual([]);
  await userEvent.click(screen.getByRole("button", { name: "Watch for NaN, Inf and dead layers" }));
  await waitFor(() => expect(controls()).toMatchObject([{ command: "continue" }]));
  const presets = sent.filter(({ path }) => path.endsWith("/recommended"));
  expect(presets.map(({ query }) => query.get("preset"))).toEqual(["nan", "dead"]);
  await userEvent.click(screen.getByRole("button", { name: "Continue" }));
  expect(controls()).toHaveLength(2);
});

test("Escape and Enter leave the step field", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show(RUN);
  render(<TopBar />);
  const field = screen.getByLabelText("Steps to run");
  await userEvent.type(field, "{Escape}");
  expect(document.activeElement).not.toBe(field);
  await userEvent.type(field, "{Enter}");
  expect(document.activeElement).not.toBe(field);
});

test("terminate asks first", async () => {
  show(RUN);
  render(<TopBar />);
  await userEvent.click(screen.getByRole("button", { name: "Terminate" }));
  expect(controls()).toEqual([]);
  expect(dialog.value).toEqual({ kind: "terminate" });
});

test("a dump has its steps instead of controls", async () => {
  show({ ...RUN, kind: "dump", controls: [], ranks: [{ ...RANK, steps: [0, 5, 9] }] });
  render(<TopBar />);
  expect(screen.queryByRole("toolbar", { name: "Training control" })).toBeNull();
  expect(isEnabled("Next step")).toBe(false);
  await userEvent.click(screen.getByRole("button", { name: "Previous step" }));
  expect(place.value.step).toBe(5);
});

test("runs that have ended are marked, and choosing one leaves the selected op behind", async () => {
  const other = { ...RUN, id: "o", title: "old.py", ranks: [{ ...RANK, state: "ended" as const }] };
  setRuns([other, RUN]);
  go({ op: "Default/a", run: "r" });
  render(<TopBar />);
  expect(screen.getByRole("option", { name: "old.py (ended)" })).toBeTruthy();
  await userEvent.selectOptions(screen.getByLabelText("Run"), "o");
  expect([place.value.run, place.value.op]).toEqual(["o", ""]);
});
