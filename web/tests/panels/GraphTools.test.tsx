// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { Camera } from "../../src/graph/camera";
import { GraphTools, NoGraph, PictureTools } from "../../src/graph/GraphTools";
import { Legend } from "../../src/graph/Legend";
import { level, node } from "../levels";
import { SceneMaker } from "../../src/graph/scene";
import { follow } from "../../src/state/preferences";
import { go, place } from "../../src/state/store";
import { answer, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const LOG = "Default/net/log-op0";

function renderTools(): Camera {
  const camera = new Camera(null);
  camera.resize(800, 600);
  render(
    <>
      <GraphTools camera={camera} loading={false} />
      <PictureTools camera={camera} />
    </>,
  );
  return camera;
}

test("the current op is selected by its button; without one there is no button", async () => {
  show({ ...RUN, ranks: [{ ...RANK, op: LOG }] });
  renderTools();
  await userEvent.click(screen.getByRole("button", { name: "log-op0" }));
  expect(place.value.op).toBe(LOG);
});

test("without a current op there is no button for it", () => {
  show(RUN);
  renderTools();
  expect(screen.queryByTitle("Go to the current op (c)")).toBeNull();
});

test("only a training can be followed", () => {
  show({ ...RUN, kind: "dump" });
  renderTools();
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("to follow the training is a preference", async () => {
  show(RUN);
  renderTools();
  const before = follow.value;
  await userEvent.click(screen.getByRole("checkbox"));
  expect(follow.value).toBe(!before);
  follow.set(before);
});

test("collapse closes every scope, and is off when none is open", async () => {
  show(RUN);
  go({ open: ["Default/net"] });
  renderTools();
  await userEvent.click(screen.getByRole("button", { name: "collapse" }));
  expect(place.value).toMatchObject({ open: [], isClosed: true });
  expect(screen.getByRole("button", { name: "collapse" })).toHaveProperty("disabled", true);
});

test("zooming in and out again gives the same view", async () => {
  show(RUN);
  const camera = renderTools();
  await userEvent.click(screen.getByRole("button", { name: "Zoom in" }));
  expect(camera.view.value.scale).toBeCloseTo(1.3);
  await userEvent.click(screen.getByRole("button", { name: "Zoom out" }));
  expect(camera.view.value.scale).toBeCloseTo(1);
});

test("without a graph a paused training can run its first step", async () => {
  answer({ "POST /runs/r/control": () => RUN });
  show(RUN);
  render(<NoGraph />);
  await userEvent.click(screen.getByRole("button", { name: "Run one step" }));
  expect(sent.at(-1)?.body).toMatchObject({ command: "step" });
});

test("a running training has no button to run a step", () => {
  show({ ...RUN, ranks: [{ ...RANK, state: "running" }] });
  render(<NoGraph />);
  expect(screen.queryByRole("button")).toBeNull();
});

test("the legend explains only what is on the screen", () => {
  show(RUN);
  const backward = { ...node("b", 2), phase: "backward" as const };
  const content = level("", [node("a", 1, "op", 3), backward], [["a", "b"]]);
  const scene = new SceneMaker().make([{ path: "", key: "1", level: content }], "");
  const text = render(<Legend scene={scene} hidden={1234} />).container.textContent;
  expect(text).toContain("forward");
  expect(text).toContain("backward");
  expect(text).toContain("hit");
  expect(text).not.toContain("optimizer");
  expect(text).not.toContain("origin");
  expect(text).not.toContain("diverged");
  expect(text).toContain("1,234 boxes not drawn");
});

test("the switch says how much of the graph is drawn, and another choice opens it anew", async () => {
  show(RUN);
  go({ open: ["Default/net"] });
  renderTools();
  expect(screen.getByRole("button", { name: "model", pressed: true })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "everything" }));
  expect(place.value).toMatchObject({ view: "everything", open: [], isClosed: false });
});

test("boxes can be coloured by a statistic; the distance needs another dump", async () => {
  show(RUN);
  renderTools();
  const choice = screen.getByLabelText("Colour by");
  expect(choice.textContent).not.toContain("distance");
  await userEvent.selectOptions(choice, "l2norm");
  expect(place.value.colourBy).toBe("l2norm");
});
