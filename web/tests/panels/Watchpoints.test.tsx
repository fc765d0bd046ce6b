// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { dialog } from "../../src/panels/dialogs";
import { draftOf, Watchpoints } from "../../src/panels/Watchpoints";
import { place } from "../../src/state/store";
import { toasts } from "../../src/state/toasts";
import { answer, RANK, RUN, sent, show, useEmptyPage, WATCHPOINT } from "./page";

useEmptyPage();

const changes = (): readonly string[] =>
  sent.filter(({ method }) => method !== "GET").map(({ method, path }) => `${method} ${path}`);

test("a row says what is asked, of which ops, in which ranks and when it stops", () => {
  const spec = {
    ...WATCHPOINT,
    conditions: [
      { id: "tensor_too_large", parameters: { max_gt: 3.5 }, expression: "" },
      { id: "expression", parameters: {}, expression: "std > 0.1" },
    ],
    join: "all" as const,
    ops: ["Default/net/", "!Default/net/loss/"],
    ranks: [1],
    break_after: 10,
  };
  show({ ...RUN, watchpoints: [spec] });
  render(<Watchpoints />);
  expect(screen.getByRole("listitem").querySelector(".under")?.textContent).toBe(
    "tensor too large: the maximum above 3.5 and std > 0.1 · Default/net/ except " +
      "Default/net/loss/ · ranks 1 · pauses at every 10th hit",
  );
});

test("the tick box disables a watchpoint and sends everything else unchanged", async () => {
  answer({ "PUT /runs/r/watchpoints/1": () => ({ ...WATCHPOINT, warning: "" }) });
  show({ ...RUN, watchpoints: [WATCHPOINT] });
  render(<Watchpoints />);
  await userEvent.click(screen.getByLabelText("Enable Tensor overflow"));
  const change = sent.find(({ method }) => method === "PUT");
  expect(change?.body).toEqual({ ...draftOf(WATCHPOINT), enabled: false });
});

test("a deleted watchpoint comes back with undo", async () => {
  answer({
    "DELETE /runs/r/watchpoints/1": () => null,
    "POST /runs/r/watchpoints": () => ({ ...WATCHPOINT, warning: "" }),
  });
  show({ ...RUN, watchpoints: [WATCHPOINT] });
  render(<Watchpoints />);
  await userEvent.click(screen.getByLabelText("Delete Tensor overflow"));
  await waitFor(() => expect(toasts.value).toHaveLength(1));
  expect(toasts.value[0]?.text).toBe("Tensor overflow deleted");
  toasts.value[0]?.action?.act();
  await waitFor(() =>
    expect(changes()).toEqual(["DELETE /runs/r/watchpoints/1", "POST /runs/r/watchpoints"]),
  );
  expect(sent.at(-1)?.body).toEqual(draftOf(WATCHPOINT));
});

test("the number of hits of each watchpoint stands in its row and leads to them", async () => {
  answer({ "GET /runs/r/hits": () => ({ total: 7, hits: [], dropped: 0 }) });
  show({ ...RUN, watchpoints: [WATCHPOINT], ranks: [{ ...RANK, hits: 7 }] });
  render(<Watchpoints />);
  expect((await screen.findByText("7")).className).toBe("hit-count");
  await userEvent.click(screen.getByLabelText("Hits of Tensor overflow"));
  expect([place.value.side, place.value.hitWatchpoint]).toEqual(["hits", 1]);
});

test("watchpoints of a training are checked only while it is paused, of a dump always", async () => {
  const running = { ...RANK, state: "running" as const };
  show({ ...RUN, watchpoints: [WATCHPOINT], ranks: [running] });
  render(<Watchpoints />);
  expect(screen.queryByRole("button", { name: "check now" })).toBeNull();
  show({ ...RUN, watchpoints: [WATCHPOINT] });
  expect(await screen.findByRole("button", { name: "check now" })).toBeTruthy();
  show({ ...RUN, kind: "dump", watchpoints: [WATCHPOINT], ranks: [running] });
  expect(await screen.findByRole("button", { name: "check all steps" })).toBeTruthy();
});

test("edit opens the form with the watchpoint", async () => {
  show({ ...RUN, watchpoints: [WATCHPOINT] });
  render(<Watchpoints />);
  await userEvent.click(screen.getByRole("button", { name: "Tensor overflow" }));
  expect(dialog.value).toMatchObject({ kind: "watchpoint", id: 1, isForAll: true });
});
