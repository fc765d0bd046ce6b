import { expect, test } from "vitest";
import { conditionWords, parameterTitle, patternWords } from "../src/text/conditions";

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
