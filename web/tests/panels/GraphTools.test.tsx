// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Camera } from "../../src/graph/camera";
import { GraphTools, Legend, NoGraph } from "../../src/graph/GraphTools";
import { go, place } from "../../src/state/store";
import { answer, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const LOG = "Default/net/log-op0";

/** A camera that notes what it is told. */
function camera(): { readonly camera: Camera; readonly told: unknown[][] } {
  const told: unknown[][] = [];
  const note =
    (name: string) =>
    (...words: unknown[]): void => {
      told.push([name, ...words]);
    };
  const made = { reveal: note("reveal"), restart: note("restart") };
  return { camera: made as unknown as Camera, told };
}

test("the current op is selected and brought into view", async () => {
  const { camera: made, told } = camera();
  show({ ...RUN, ranks: [{ ...RANK, op: LOG }] });
  render(<GraphTools camera={made} loading={false} />);
  await userEvent.click(screen.getByRole("button", { name: /log-op0/ }));
  expect(place.value.op).toBe(LOG);
  expect(told).toEqual([["reveal", LOG, true]]);
});

test("all scopes are closed at once, if any is open", async () => {
  const { camera: made, told } = camera();
  show(RUN);
  render(<GraphTools camera={made} loading={false} />);
  expect(screen.getByRole("button", { name: "collapse" })).toHaveProperty("disabled", true);
  go({ open: ["Default/"] });
  await userEvent.click(await screen.findByRole("button", { name: "collapse" }));
  expect(place.value).toMatchObject({ open: [], isClosed: true });
  expect(told).toEqual([["restart"]]);
});

test("only a live training can be followed", () => {
  show({ ...RUN, kind: "dump" });
  render(<GraphTools camera={camera().camera} loading={true} />);
  expect(screen.queryByRole("checkbox")).toBeNull();
  expect(screen.getByText("loading…")).toBeDefined();
});

test("without a graph a paused training offers one step", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show(RUN);
  render(<NoGraph />);
  await userEvent.click(screen.getByRole("button", { name: "Run one step" }));
  expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual(["POST /runs/r/control"]);
  show({ ...RUN, ranks: [{ ...RANK, state: "running" }] });
  expect(await screen.findByText("The ops appear with the first step.")).toBeDefined();
  expect(screen.queryByRole("button", { name: "Run one step" })).toBeNull();
});

test("the legend explains compared graphs only where two dumps are compared", () => {
  show(RUN);
  const { unmount, container } = render(<Legend hidden={0} />);
  expect(container.textContent).not.toContain("diverged");
  expect(container.textContent).not.toContain("not drawn");
  unmount();
  show({ ...RUN, kind: "dump", peer: "other" });
  const compared = render(<Legend hidden={1234} />);
  expect(compared.container.textContent).toContain("diverged");
  expect(compared.container.textContent).toContain("1,234 boxes not drawn");
});
