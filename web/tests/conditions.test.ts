import { expect, test } from "vitest";
import { conditionWords, parameterTitle, patternWords } from "../src/text/conditions";
import type { Catalogue } from "../src/wire";

const PARAMETER = { lowest: 0, highest: "inf", description: "" } as const;
const CATALOGUE: Catalogue = {
  conditions: [
    {
      id: "moved",
      title: "Weight moved",
      abbreviation: "",
      target: "weight",
      formula: "",
      description: "",
      advice: "",
      parameters: [
        { ...PARAMETER, name: "abs_mean_update_ratio_gt", check: true, default: 0.1 },
        { ...PARAMETER, name: "max_gt", check: true, default: null },
        { ...PARAMETER, name: "epsilon", check: false, default: 1e-9 },
      ],
    },
  ],
  expression_names: [],
  presets: [],
};

test("a condition is told in words", () => {
  const range = {
    id: "activation_range",
    parameters: {
      range_start_inclusive: -1,
      range_end_inclusive: 1,
      range_percentage_lt: 0.1,
    },
    expression: "",
  };
  expect(conditionWords(range, null)).toBe(
    "activation range: the share of values in [−1, 1] below 0.1 %",
  );
  expect(conditionWords({ id: "expression", parameters: {}, expression: "max > 3" }, null)).toBe(
    "max > 3",
  );
  const moved = { id: "moved", parameters: { steps_in_a_row: 5, from_start: 1 }, expression: "" };
  expect(conditionWords(moved, CATALOGUE)).toBe(
    "Weight moved: the update ratio above 0.1, for 5 steps in a row, from the first step on",
  );
  const chosen = { ...moved, parameters: { max_gt: 3 } };
  expect(conditionWords(chosen, CATALOGUE)).toBe("Weight moved: the maximum above 3");
  expect(parameterTitle("max_min_gt")).toBe("max − min above");
  expect(parameterTitle("range_percentage_lt")).toBe("the share of values below (%)");
});

test("the patterns of recommended watchpoints are told in words", () => {
  const tanh = "name-regex((?i)(.*/)?(tanh)_?(-op\\d+)?|.*-(tanh)/[^/]+)";
  expect(patternWords(tanh)).toBe("tanh ops");
  expect(patternWords("name-regex((?!(.*[./_])?(bias|beta)[^./]*(\\.grad)?$).*)")).toBe(
    "all but biases",
  );
  expect(patternWords("Default/net/")).toBe("Default/net/");
});
