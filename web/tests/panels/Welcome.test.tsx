// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { Welcome } from "../../src/panels/Welcome";
import { go, place, setRuns } from "../../src/state/store";
import { RUN, show, useEmptyPage } from "./page";

useEmptyPage();

test("while the list of runs is loading, only that is said", () => {
  render(<Welcome isLoaded={false} />);
  expect(screen.getByRole("heading").textContent).toBe("Connecting…");
});

test("without a run it shows how to start one, with the port and the certificate", () => {
  setRuns([], { port: 50051, fingerprint: "ab12" });
  render(<Welcome isLoaded />);
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("Waiting for a training");
  expect(screen.getAllByRole("button", { name: /^Copy / })).toHaveLength(3);
  expect(document.body.textContent).toContain("SONDE_DEBUGGER_PORT=50051");
  expect(document.body.textContent).toContain("SONDE_DEBUGGER_FINGERPRINT=ab12 sonde run");
});

test("a server that takes no trainings does not name a port", () => {
  setRuns([], { port: null, fingerprint: "" });
  render(<Welcome isLoaded />);
  expect(document.body.textContent).not.toContain("SONDE_DEBUGGER_PORT");
});

test("a run that the server does not have leads back to the others", async () => {
  show(RUN);
  go({ run: "gone" });
  render(<Welcome isLoaded />);
  expect(screen.getByText(/The server has no run “gone”/)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Show all runs" }));
  expect(place.value.run).toBe("r");
});
