// @vitest-environment happy-dom
import { fireEvent, render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { notation } from "../../src/state/preferences";
import { go, place, tensorRefreshes } from "../../src/state/store";
import { parseIndex } from "../../src/tensor/slices";
import { TensorTools } from "../../src/tensor/TensorTools";
import type { OpTensor } from "../../src/wire";
import { RANK, RUN, show, useEmptyPage } from "./page";

useEmptyPage();

const SHAPE = [4, 2, 3];
const TYPE = { dtype: "float32", shape: SHAPE };
const LOG = "Default/net/log-op0";
const AT = { run: "r", rank: 0, op: LOG, io: "output", slot: 0, step: null } as const;

function tensor(io: "input" | "output", slot: number): OpTensor {
  return {
    io,
    slot,
    type: TYPE,
    statistics: null,
    kept: true,
    steps: [1, 2],
    why: "",
    statistics_step: null,
  };
}

function renderTools(problem: string | null = null, op = LOG): void {
  render(
    <TensorTools
      at={{ ...AT, op }}
      shown={2}
      type={TYPE}
      tensors={[tensor("input", 0), tensor("output", 0)]}
      steps={[1, 2]}
      plane={parseIndex(place.value.index, SHAPE)}
      indexProblem={problem}
    />,
  );
}

const optionsOf = (label: string): readonly (string | null)[] =>
  [...screen.getByLabelText(label).querySelectorAll("option")].map((each) => each.textContent);

test("inputs and outputs have their shapes; a parameter has a value", () => {
  show(RUN);
  renderTools();
  expect(optionsOf("Input or output")).toEqual(["input 0 [4,2,3]", "output 0 [4,2,3]"]);
});

test("the value of a parameter is not called an output", () => {
  show(RUN);
  renderTools(null, "fc.weight");
  expect(optionsOf("Input or output")).toContain("value [4,2,3]");
});

test("choosing an input opens it", async () => {
  show(RUN);
  renderTools();
  await userEvent.selectOptions(screen.getByLabelText("Input or output"), "input 0");
  expect(place.value).toMatchObject({ op: LOG, io: "input", slot: 0 });
});

test("the latest step is named by its number, and another one can be chosen", async () => {
  show(RUN);
  renderTools();
  expect(optionsOf("Step")).toEqual(["latest: step 2", "step 1", "step 2"]);
  await userEvent.selectOptions(screen.getByLabelText("Step"), "1");
  expect(place.value.step).toBe(1);
});

test("a step of the address that is no longer kept stays in the list", () => {
  show(RUN);
  go({ step: 0 });
  renderTools();
  expect(optionsOf("Step")).toEqual(["latest step", "step 0", "step 1", "step 2"]);
});

test("values of a running training are fetched again by hand", async () => {
  show({ ...RUN, ranks: [{ ...RANK, state: "running" }] });
  renderTools();
  const before = tensorRefreshes.value;
  await userEvent.click(screen.getByRole("button", { name: "refresh" }));
  expect(tensorRefreshes.value).toBe(before + 1);
});

test("a paused training has nothing to refresh", () => {
  show(RUN);
  renderTools();
  expect(screen.queryByRole("button", { name: "refresh" })).toBeNull();
});

test("buttons move along a dimension with a single index, up to its ends", async () => {
  show(RUN);
  go({ index: "[0, :, :]" });
  renderTools();
  expect(screen.getByLabelText("Previous slice in dimension 0")).toHaveProperty("disabled", true);
  await userEvent.click(screen.getByLabelText("Next slice in dimension 0"));
  expect(place.value.index).toBe("[1, :, :]");
});

test("a wrong index is marked with its reason, and can be reset", async () => {
  show(RUN);
  go({ index: "[0, :, :]" });
  renderTools("index 9 is out of range");
  expect(screen.getByText("index 9 is out of range")).toBeTruthy();
  expect(screen.getByLabelText("Index").classList.contains("wrong")).toBe(true);
  await userEvent.click(screen.getByRole("button", { name: "reset" }));
  expect(place.value.index).toBe("");
});

test("over the steps there is neither an index nor a comparison", () => {
  show(RUN);
  go({ mode: "curve" });
  renderTools();
  expect(screen.queryByLabelText("Index")).toBeNull();
  expect(screen.queryByLabelText("Compare with")).toBeNull();
});

test("the number format is a preference", () => {
  show(RUN);
  const before = notation.value;
  renderTools();
  fireEvent.change(screen.getByLabelText("Number format"), { target: { value: "scientific" } });
  expect(notation.value).toBe("scientific");
  notation.set(before);
});

test("the file is downloaded under the name of the op", () => {
  show(RUN);
  renderTools();
  const link = screen.getByTitle("Download as .npy");
  expect(link.getAttribute("download")).toBe("log-op0.output.0.npy");
  expect(link.getAttribute("href")).toContain("/runs/r/tensor/file?");
});
