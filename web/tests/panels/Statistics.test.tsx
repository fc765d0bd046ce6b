// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { StatisticLine, StatisticTable } from "../../src/panels/Statistics";
import type { StatisticNumbers } from "../../src/wire";
import { useEmptyPage } from "./page";

useEmptyPage();

const SIX: StatisticNumbers = {
  count: 6,
  nan_count: 0,
  positive_inf_count: 0,
  negative_inf_count: 0,
  zero_count: 1,
  negative_count: 2,
  positive_count: 3,
  max: 4,
  min: -2,
  finite_max: 4,
  finite_min: -2,
  avg: 1,
  l2norm: 5,
  std: 2,
  abs_mean: 1.5,
};
const BAD = { ...SIX, nan_count: 2, positive_inf_count: 1, max: "inf", min: "nan", avg: "nan" };

function cell(name: RegExp): string | null | undefined {
  const row = screen.getByRole("rowheader", { name }).closest("tr");
  return row?.querySelector("td")?.textContent;
}

test("one line has the range, also of the finite elements beside NaN and Inf", () => {
  const { container } = render(<StatisticLine of={BAD} />);
  expect(container.textContent).toBe("min −2max 4mean nan2 nan1 inf");
});

test("a tensor without elements, and one without statistics, say so", () => {
  expect(render(<StatisticLine of={{ ...SIX, count: 0 }} />).container.textContent).toBe("empty");
  expect(render(<StatisticLine of={null} />).container.textContent).toBe("no statistics");
});

test("without finite elements there is no finite range", () => {
  render(<StatisticTable of={{ ...BAD, nan_count: 5 }} />);
  expect([cell(/^finite min/), cell(/^finite max/)]).toEqual(["–", "–"]);
});

test("counts come with their share, and those of NaN and Inf can be searched for", async () => {
  const found: number[] = [];
  render(<StatisticTable of={BAD} onFind={(mark) => found.push(mark)} />);
  expect(cell(/^nan/)).toBe("2 33.3 %");
  expect(cell(/^−inf/)).toBe("0");
  for (const button of screen.getAllByRole("button", { name: "find" }))
    await userEvent.click(button);
  expect(found).toEqual([1, 2]);
});

test("zeros and positive elements of a boolean tensor are false and true", () => {
  render(<StatisticTable of={SIX} isBool />);
  expect([cell(/^false/), cell(/^true/)]).toEqual(["1 16.7 %", "3 50 %"]);
});
