// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { go, place } from "../../src/state/store";
import { TensorTools } from "../../src/tensor/TensorTools";
import { parseIndex, type Plane } from "../../src/tensor/slices";
import { RANK, RUN, show, useEmptyPage } from "./page";

useEmptyPage();

const LOG = "Default/net/log-op0";
const AT = { run: "r", rank: 0, op: LOG, io: "output", slot: 0, step: null } as const;
const TYPE = { dtype: "float32", shape: [3, 4, 5] } as const;

interface Shown {
  readonly plane?: Plane | null;
  readonly problem?: string | null;
  readonly steps?: readonly number[];
}

function tools({ plane = null, problem = null, steps = [1, 2] }: Shown = {}): Element {
  const tensors = (["input", "output"] as const).map((io) => ({
    io,
    slot: 0,
    type: TYPE,
    statistics: null,
    kept: false,
    steps: [],
    why: "",
  }));
  return render(
    <TensorTools
      at={AT}
      shown={7}
      type={TYPE}
      tensors={tensors}
      steps={steps}
      plane={plane}
      indexProblem={problem}
    />,
  ).container;
}

test("another slot and another step can be chosen", async () => {
  show(RUN);
  tools();
  await userEvent.selectOptions(screen.getByLabelText("Input or output"), "input 0");
  expect(place.value).toMatchObject({ op: LOG, io: "input", slot: 0 });
  await userEvent.selectOptions(screen.getByLabelText("Step"), "2");
  expect(place.value.step).toBe(2);
});

test("the latest step is named, and a chosen step that is not listed is added", async () => {
  show(RUN);
  tools();
  expect(screen.getByRole("option", { name: "latest: step 7" })).toBeDefined();
  go({ step: 0 });
  await screen.findByRole("option", { name: "step 0" });
  const texts = [...screen.getByLabelText("Step").querySelectorAll("option")].map(
    (each) => each.textContent,
  );
  expect(texts).toEqual(["latest step", "step 0", "step 1", "step 2"]);
});

test("a running training offers to fetch its current values", () => {
  show({ ...RUN, ranks: [{ ...RANK, state: "running" }] });
  tools();
  expect(screen.getByRole("button", { name: "refresh" })).toBeDefined();
});

test("the slices of a dimension are walked through up to its ends", async () => {
  show(RUN);
  tools({ plane: parseIndex("[0, :, :]", TYPE.shape) });
  expect(screen.getByLabelText("Previous slice in dimension 0")).toHaveProperty("disabled", true);
  await userEvent.click(screen.getByLabelText("Next slice in dimension 0"));
  expect(place.value.index).toMatch(/^\[1,/);
});

test("an index that is wrong says so, and the default comes back with reset", async () => {
  show(RUN);
  go({ index: "[9, :, :]" });
  tools({ problem: "9 is not in 0–2" });
  expect(screen.getByText("9 is not in 0–2")).toBeDefined();
  await userEvent.click(screen.getByRole("button", { name: "reset" }));
  expect(place.value.index).toBe("");
});

test("the curve over the steps needs neither an index nor a comparison", async () => {
  show(RUN);
  tools();
  expect(screen.getByLabelText("Index")).toBeDefined();
  await userEvent.click(screen.getByRole("tab", { name: "over steps" }));
  expect(screen.queryByLabelText("Index")).toBeNull();
});

test("the values are downloaded under the name of the op", () => {
  show(RUN);
  const link = tools().querySelector("a");
  expect(link?.getAttribute("download")).toBe("log-op0.output.0.npy");
  expect(link?.getAttribute("href")).toContain("/tensor/file?");
});
