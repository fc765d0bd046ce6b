// @vitest-environment happy-dom
import { render } from "@testing-library/preact";
import { expect, test } from "vitest";
import { LayerLabels } from "../../src/health/MapLabels";
import type { LayerCells } from "../../src/wire";

const DATA: LayerCells = {
  rank: 0,
  statistic: "grad_norm",
  total_layers: 1,
  first_step: 0,
  last_step: 9,
  top: 0,
  layers_per_row: 1,
  rows: 1,
  first: 0,
  steps_per_column: 1,
  columns: 10,
  layers: ["net/blocks/0-Block/up-Linear"],
  cells: "",
  least: null,
  greatest: null,
  other_cells: "",
};

test("a name that is cut at its beginning keeps the order of its parts", () => {
  const view = { first: 0, last: 10, top: 0, bottom: 1 };
  const { container } = render(<LayerLabels data={DATA} view={view} height={40} />);
  // The text around it runs from right to left, so that the end of the name is what is seen.
  expect(container.querySelector("bdi")?.textContent).toBe("…/0-Block/up-Linear");
});
