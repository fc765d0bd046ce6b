// @vitest-environment happy-dom
import { fireEvent, render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { CompareChoice, isComparing, SAME } from "../../src/tensor/CompareChoice";
import { place, setRuns } from "../../src/state/store";
import { RANK, RUN, show, useEmptyPage } from "./page";

useEmptyPage();

const AT = { run: "r", rank: 0, op: "Default/net/log", io: "output", slot: 0, step: null } as const;

const choices = (): readonly (string | null)[] =>
  screen.getAllByRole("option").map((each) => each.textContent);

test("offers the previous step first, then the kept steps, other ranks, and other runs", () => {
  const dump = { ...RUN, id: "d", title: "/tmp/d1", kind: "dump" } as const;
  setRuns([{ ...RUN, ranks: [RANK, { ...RANK, rank: 1 }] }, dump]);
  // Without a run in the address the live run is shown.
  render(<CompareChoice at={AT} steps={[1, 2, 4]} shown={4} />);
  expect(choices()).toEqual([
    "compare with…",
    "previous step (2)",
    "step 1",
    "rank 1",
    "run d1",
    "another tensor…",
  ]);
});

test("a choice replaces the former one, and can be undone", async () => {
  show({ ...RUN, ranks: [RANK, { ...RANK, rank: 1 }] });
  render(<CompareChoice at={AT} steps={[1, 2]} shown={2} />);
  const select = screen.getByLabelText("Compare with");
  await userEvent.selectOptions(select, "step:1");
  expect(place.value.against).toEqual({ ...SAME, step: 1 });
  await userEvent.selectOptions(select, "rank:1");
  expect(place.value.against).toEqual({ ...SAME, rank: 1 });
  await userEvent.click(screen.getByRole("button", { name: "Stop comparing" }));
  expect(place.value.against).toBeNull();
});

test("nothing is compared before the other tensor has a name", async () => {
  show(RUN);
  render(<CompareChoice at={AT} steps={[]} shown={0} />);
  await userEvent.selectOptions(screen.getByLabelText("Compare with"), "op:");
  expect(isComparing(place.value.against)).toBe(false);
  const field = screen.getByLabelText("Name of the other op");
  fireEvent.change(field, { target: { value: "Default/add" } });
  expect(place.value.against).toMatchObject({ op: "Default/add", io: "output", slot: 0 });
  expect(isComparing(place.value.against)).toBe(true);
});
