// @vitest-environment happy-dom
import { fireEvent, render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { Headline } from "../../src/panels/Headline";
import { place } from "../../src/state/store";
import type { RunHeadline } from "../../src/wire";
import { answer, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const TOLD: RunHeadline = {
  kind: "hit",
  severity: "error",
  title: "sqrt made 54 NaN of 64 values",
  text: "sqrt made 54 NaN of 64 values in step 2, at net.py:12 `torch.sqrt(x)`: 54 of its 64 inputs are negative.",
  advice: "Clamp its input.",
  rank: 0,
  step: 2,
  op: "Default/net/sqrt-op0",
  io: "output",
  slot: 0,
  source: { file: "/a/net.py", line: 12, function: "forward", code: "torch.sqrt(x)", library: "" },
  others: 0,
  command: "",
};

test("without a headline there is no band", () => {
  show(RUN);
  const { container } = render(<Headline />);
  expect(container.textContent).toBe("");
});

test("the whole sentence is shown, its title in bold and its code as code", () => {
  show({ ...RUN, headline: TOLD });
  render(<Headline />);
  const band = screen.getByRole("alert");
  expect(band.querySelector("p")?.textContent).toBe(TOLD.text.replaceAll("`", ""));
  expect(band.querySelector("b")?.textContent).toBe(TOLD.title);
  expect(band.querySelector("code")?.textContent).toBe("torch.sqrt(x)");
});

test("its buttons show the values, the inputs, the op, the line's ops and the advice", async () => {
  show({ ...RUN, headline: TOLD });
  render(<Headline />);
  await userEvent.click(screen.getByRole("button", { name: "Values" }));
  expect(place.value).toMatchObject({ tab: "tensor", op: TOLD.op, io: "output" });
  await userEvent.click(screen.getByRole("button", { name: "Inputs" }));
  expect(place.value).toMatchObject({ tab: "tensor", op: TOLD.op, io: "input" });
  await userEvent.click(screen.getByRole("button", { name: "Op" }));
  expect(place.value.tab).toBe("graph");
  await userEvent.click(screen.getByRole("button", { name: "Ops of this line" }));
  expect([place.value.file, place.value.line]).toEqual(["/a/net.py", 12]);
  expect(screen.queryByText("Clamp its input.")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Advice" }));
  screen.getByText("Clamp its input.");
});

test("a headline of another rank leads there", async () => {
  const ranks = [RANK, { ...RANK, rank: 1 }];
  show({ ...RUN, ranks, headline: { ...TOLD, rank: 1 } });
  render(<Headline />);
  await userEvent.click(screen.getByRole("button", { name: "Go to rank 1" }));
  expect([place.value.rank, place.value.op]).toEqual([1, TOLD.op]);
});

test("a broken loss that nothing watched offers to watch for NaN", async () => {
  answer({ "POST /runs/r/watchpoints/recommended": () => null });
  show({ ...RUN, headline: { ...TOLD, kind: "loss", op: "", source: null } });
  render(<Headline />);
  await userEvent.click(screen.getByRole("button", { name: "Watch for NaN and Inf" }));
  expect(sent.at(-1)?.path).toBe("/runs/r/watchpoints/recommended");
  await userEvent.click(screen.getByRole("button", { name: "Loss" }));
  expect(place.value.tab).toBe("loss");
});

test("a crash leads to its traceback, a divergence to the comparison", async () => {
  show({ ...RUN, headline: { ...TOLD, kind: "crash", op: "" } });
  const { unmount } = render(<Headline />);
  await userEvent.click(screen.getByRole("button", { name: "Traceback" }));
  expect(place.value.tab).toBe("run");
  unmount();
  show({ ...RUN, headline: { ...TOLD, kind: "divergence" } });
  render(<Headline />);
  await userEvent.click(screen.getByRole("button", { name: "Comparison" }));
  expect(place.value.tab).toBe("compare");
});

test("where the op is not known, the command that finds it can be copied", () => {
  const command = "sonde debug --no-pause --watch-for nan train.py --lr 0.1";
  const copied: string[] = [];
  vi.stubGlobal("navigator", {
    clipboard: { writeText: (text: string) => Promise.resolve(void copied.push(text)) },
  });
  show({ ...RUN, headline: { ...TOLD, op: "fc.weight.grad", command } });
  render(<Headline />);
  expect(screen.queryByRole("button", { name: "Inputs" })).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Copy command to find the op" }));
  expect(copied).toEqual([command]);
  vi.unstubAllGlobals();
});

test("a path wraps after its slashes, and in no name", () => {
  const text = `${TOLD.title} (network-Net/1-Head/sqrt-op0): 54 inputs.`;
  show({ ...RUN, headline: { ...TOLD, text } });
  const { container } = render(<Headline />);
  const parts = [...container.querySelectorAll(".unbroken")].map((part) => part.textContent);
  expect(parts).toEqual(["(network-Net/", "1-Head/", "sqrt-op0):"]);
  expect(container.querySelector("p")?.textContent).toBe(text);
});
