// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { Banner, Toasts } from "../../src/panels/Messages";
import { setConnection } from "../../src/state/store";
import { toast } from "../../src/state/toasts";
import { RANK, RUN, show, useEmptyPage } from "./page";

useEmptyPage();

const ended = { ...RANK, state: "ended", exit_code: 0 } as const;

test("an exit code of 0 is a quiet banner, a failure is an alert with the error", async () => {
  show({ ...RUN, ranks: [ended] });
  render(
    <>
      <Banner />
      <Toasts />
    </>,
  );
  expect(screen.getByText("The training ended with exit code 0").className).toBe("banner");
  show({ ...RUN, ranks: [{ ...ended, exit_code: 1, error: "ValueError: ended early" }] });
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toBe("The training ended: ValueError: ended early");
});

test("a training that the reader terminated has not failed", () => {
  show({ ...RUN, ranks: [{ ...ended, exit_code: 1, error: "x", is_terminated: true }] });
  render(
    <>
      <Banner />
      <Toasts />
    </>,
  );
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText(/was terminated by you/)).toBeTruthy();
});

test("a lost connection hides what else there is to say", () => {
  show({ ...RUN, ranks: [ended] });
  setConnection("lost");
  render(
    <>
      <Banner />
      <Toasts />
    </>,
  );
  expect(screen.getByRole("alert").textContent).toContain("connection to the server is lost");
  expect(screen.queryByText(/exit code/)).toBeNull();
});

test("a dump that ended has no banner", () => {
  show({ ...RUN, kind: "dump", ranks: [ended] });
  render(
    <>
      <Banner />
      <Toasts />
    </>,
  );
  expect(screen.queryByText(/exit code/)).toBeNull();
});

test("the action of a message runs once and the message goes", async () => {
  let count = 0;
  render(
    <>
      <Banner />
      <Toasts />
    </>,
  );
  toast("deleted", "note", "", { text: "undo", act: () => (count += 1) });
  await userEvent.click(await screen.findByRole("button", { name: "undo" }));
  expect(count).toBe(1);
  expect(screen.queryByText("deleted")).toBeNull();
});
