// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import type { JSX } from "preact";
import { expect, test } from "vitest";
import { dialog, newWatchpoint, openWatchpoint } from "../../src/panels/dialogs";
import { WatchpointDialog } from "../../src/panels/WatchpointDialog";
import { draftOf } from "../../src/panels/Watchpoints";
import { place, tickedPatterns, toggleTick } from "../../src/state/store";
import { toasts } from "../../src/state/toasts";
import type { ConditionInfo } from "../../src/wire";
import { answer, RUN, sent, show, useEmptyPage, WATCHPOINT, type Sent } from "./page";

useEmptyPage();

function condition(id: string, title: string, parameters: readonly string[]): ConditionInfo {
  return {
    id,
    title,
    abbreviation: "",
    target: "tensor",
    formula: "",
    description: "",
    advice: "",
    parameters: parameters.map((name) => ({
      name,
      check: true,
      default: null,
      lowest: "-inf",
      highest: "inf",
      description: "",
    })),
  };
}

const CATALOGUE = {
  conditions: [
    condition("tensor_overflow", "Tensor overflow", []),
    condition("tensor_all_zero", "All zero", []),
    condition("tensor_too_large", "Tensor too large", ["max_gt"]),
  ],
  expression_names: ["max", "nan_count", "prev.max"],
  presets: [],
};

/** The dialog as the page shows it: with what the store says. */
function Shown(): JSX.Element | null {
  const open = dialog.value;
  if (open?.kind !== "watchpoint") return null;
  return <WatchpointDialog id={open.id} draft={open.draft} isForAll={open.isForAll} />;
}

function serve(save: (sent: Sent) => unknown = () => ({ ...WATCHPOINT, warning: "" })): void {
  answer({
    "GET /conditions": () => CATALOGUE,
    "POST /runs/r/watchpoints": save,
    "PUT /runs/r/watchpoints/1": save,
  });
}

const saved = (): unknown =>
  sent.find(({ method, path }) => method !== "GET" && !path.endsWith("/preview"))?.body;

async function shown(): Promise<void> {
  render(<Shown />);
  await waitFor(() => expect(screen.getAllByLabelText("Condition")).toHaveLength(1));
}

test("a watchpoint without a name gets one from its conditions, and is active at once", async () => {
  serve();
  show(RUN);
  newWatchpoint([]);
  await shown();
  await userEvent.click(screen.getByRole("button", { name: "add a condition" }));
  await userEvent.click(screen.getByRole("radio", { name: "and" }));
  await userEvent.click(screen.getByRole("button", { name: "Add watchpoint" }));
  await waitFor(() => expect(dialog.value).toBeNull());
  expect(saved()).toMatchObject({ name: "Tensor overflow and All zero", join: "all", ops: [] });
  expect(toasts.value.map(({ text }) => text)).toEqual(["Watchpoint added"]);
  expect(place.value.side).toBe("watchpoints");
});

test("a parameter that is no number is refused beside the field and not sent", async () => {
  serve();
  show(RUN);
  newWatchpoint([]);
  await shown();
  await userEvent.selectOptions(screen.getByLabelText("Condition"), "tensor_too_large");
  const field = await screen.findByLabelText("the maximum above");
  await userEvent.type(field, "0,5");
  await userEvent.tab();
  expect((await screen.findByRole("alert")).textContent).toContain("“0,5” is not a number");
  await userEvent.clear(field);
  await userEvent.type(field, "1e-3");
  await userEvent.tab();
  await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
  screen.getByText(/^Tensor too large: the maximum above 0.001/);
  await userEvent.click(screen.getByRole("button", { name: "Add watchpoint" }));
  await waitFor(() => expect(dialog.value).toBeNull());
  expect(saved()).toMatchObject({
    conditions: [{ id: "tensor_too_large", parameters: { max_gt: 0.001 } }],
  });
});

test("the form says what the watchpoint would have hit", async () => {
  serve();
  answer({
    "GET /conditions": () => CATALOGUE,
    "POST /runs/r/watchpoints/preview": () => ({
      step: 16,
      judged: 178,
      hits: 3,
      undecided: 2,
      examples: ["Default/net/fc1.weight"],
    }),
  });
  show(RUN);
  newWatchpoint([]);
  await shown();
  expect((await screen.findByText(/Would have hit/)).textContent).toBe(
    "Would have hit 3 of 178 tensors in step 16: fc1.weight, …; 2 more need the values.",
  );
});

test("what the server finds wrong is said in the dialog, which stays open", async () => {
  answer({ "GET /conditions": () => CATALOGUE });
  show(RUN);
  newWatchpoint([]);
  await shown();
  await userEvent.click(screen.getByRole("button", { name: "Add watchpoint" }));
  expect((await screen.findByRole("alert")).textContent).toBe("no answer to /runs/r/watchpoints");
  expect(dialog.value).not.toBeNull();
});

test("ticked ops become the ops of the watchpoint and are no longer ticked", async () => {
  serve();
  show(RUN);
  toggleTick("net/", "");
  newWatchpoint(tickedPatterns.value);
  await shown();
  expect(screen.getByRole<HTMLTextAreaElement>("textbox", { name: /Ops to watch/ }).value).toBe(
    "net/",
  );
  await userEvent.click(screen.getByRole("button", { name: "Add watchpoint" }));
  await waitFor(() => expect(dialog.value).toBeNull());
  expect(saved()).toMatchObject({ ops: ["net/"] });
  expect(tickedPatterns.value).toEqual([]);
});

test("a watchpoint for all tensors forgets the ops it named", async () => {
  serve();
  show(RUN);
  openWatchpoint(1, { ...draftOf(WATCHPOINT), ops: ["net/log"] });
  await shown();
  await userEvent.click(screen.getByRole("radio", { name: /all tensors/ }));
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(dialog.value).toBeNull());
  expect(saved()).toMatchObject({ ops: [] });
});
