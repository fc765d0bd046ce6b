// @vitest-environment happy-dom
import { render, screen, within } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { dialog } from "../../src/panels/dialogs";
import { Findings } from "../../src/panels/Findings";
import { FindingSteps, findingMarks } from "../../src/panels/FindingSteps";
import { Headline } from "../../src/panels/Headline";
import { RuleDialog } from "../../src/panels/RuleDialog";
import { place } from "../../src/state/store";
import { answer, DIAGNOSIS, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const AT = "GET /runs/r/graph/findings";
const PLACES = { places: [{ kind: "missing-zero-grad", paths: ["fc.weight"] }] };

test("a training that is not diagnosed says how diagnoses are switched off", () => {
  show(RUN);
  const { container } = render(<Findings />);
  expect(container.textContent).toContain("It is off with sonde debug --no-diagnose");
});

test("a dump without findings says how to make one with them", () => {
  show({ ...RUN, kind: "dump" });
  const { container } = render(<Findings />);
  expect(container.textContent).toContain("sonde run --diagnose --dump-to DIR train.py");
});

test("without a finding the number of judged steps is told", () => {
  show({ ...RUN, diagnosis: { steps: 20, is_over: false, findings: [] } });
  const { rerender } = render(<Findings />);
  screen.getByText("The diagnosis has found nothing wrong in the first 20 steps.");
  show({ ...RUN, diagnosis: { steps: 1, is_over: true, findings: [] } });
  rerender(<Findings />);
  screen.getByText("The diagnosis found nothing wrong in 1 step.");
});

test("a finding has its status in words and as a shape, its evidence and its advice", async () => {
  answer({ [AT]: () => PLACES });
  show({ ...RUN, diagnosis: DIAGNOSIS });
  render(<Findings />);
  const [first, second] = screen
    .getAllByRole("listitem")
    .filter((each) => each.matches(".finding"));
  if (first === undefined || second === undefined) throw new Error("two findings");
  within(first).getByText("established");
  expect(first.querySelector("svg.status-shape.established path.full")).not.toBeNull();
  expect(second.querySelector("svg.status-shape.supported circle")).not.toBeNull();
  within(first).getByText("1. gradients are not cleared between steps");
  within(first).getByText("from step 1 on");
  expect(first.querySelector(".finding-advice")?.textContent).toBe(
    "Do: call optimizer.zero_grad() before the backward pass at train.py:34",
  );
  const table = within(first).getByRole("table", { name: "Evidence of missing-zero-grad" });
  expect([...table.querySelectorAll("tr")].map((row) => row.textContent)).toEqual([
    "steps45",
    "steps with old gradients44",
  ]);
  within(first).getByText("Explains 1 symptom");
  within(first).getByText("the loss is nan in step 12");
  expect(within(second).queryByRole("table")).toBeNull();
  await userEvent.click(within(first).getByRole("button", { name: "train.py:35" }));
  expect([place.value.file, place.value.line]).toEqual(["/a/train.py", 35]);
});

test("what the graph has of a finding is selected there", async () => {
  answer({ [AT]: () => PLACES });
  show({ ...RUN, diagnosis: DIAGNOSIS });
  render(<Findings />);
  await userEvent.click(await screen.findByRole("button", { name: "In the graph" }));
  expect([place.value.op, place.value.tab]).toEqual(["fc.weight", "graph"]);
});

test("the kind opens the page of its rule, whose links lead to other rules", async () => {
  const text =
    "# missing-zero-grad\n\nGradients `add up`.\n\n**Why.** See [lr-too-high](lr-too-high.md) and " +
    "[all](../diagnosis.md).\n\n```python\nloss.backward()\n```\n";
  answer({ [AT]: () => PLACES, "GET /rule": () => ({ kind: "missing-zero-grad", text }) });
  show({ ...RUN, diagnosis: DIAGNOSIS });
  render(<Findings />);
  await userEvent.click(screen.getByRole("button", { name: "missing-zero-grad" }));
  expect(dialog.value).toEqual({ kind: "rule", rule: "missing-zero-grad" });
  render(<RuleDialog rule="missing-zero-grad" />);
  await screen.findByText("add up");
  expect(sent.at(-1)?.path).toBe("/rule");
  expect(document.querySelector(".rule-page pre")?.textContent).toBe("loss.backward()");
  const links = document.querySelectorAll<HTMLElement>(".rule-page button.link");
  expect([...links].map((each) => each.textContent)).toEqual(["lr-too-high"]);
  for (const link of links) await userEvent.click(link);
  expect(dialog.value).toEqual({ kind: "rule", rule: "lr-too-high" });
});

test("each finding has a numbered mark at its step of the loss curve", async () => {
  show({ ...RUN, diagnosis: DIAGNOSIS });
  expect(findingMarks()).toEqual([
    { step: 1, text: "1", isStrong: true },
    { step: 6, text: "2", isStrong: false },
  ]);
  render(<FindingSteps />);
  const list = screen.getByRole("list", { name: "Findings by step" });
  expect([...list.children].map((each) => each.textContent)).toEqual([
    " 1 from step 1 on: missing-zero-grad (established)",
    " 2 from step 6 on: lr-too-high (supported)",
  ]);
  await userEvent.click(within(list).getByRole("button", { name: "lr-too-high" }));
  expect(place.value.side).toBe("findings");
});

test("a headline about a finding leads to the list", async () => {
  show({
    ...RUN,
    diagnosis: DIAGNOSIS,
    headline: {
      kind: "finding",
      severity: "error",
      title: "gradients are not cleared between steps",
      text: "gradients are not cleared between steps, from step 1 on.",
      advice: "",
      rank: 0,
      step: 1,
      op: "",
      io: "output",
      slot: 0,
      source: null,
      others: 0,
      command: "",
    },
  });
  render(<Headline />);
  expect(screen.getByRole("alert").querySelector("p")?.textContent).toBe(
    "gradients are not cleared between steps, from step 1 on.",
  );
  await userEvent.click(screen.getByRole("button", { name: "Findings" }));
  expect(place.value.side).toBe("findings");
});
