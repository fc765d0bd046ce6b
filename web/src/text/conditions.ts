import type { Catalogue, ConditionInfo, ConditionSpec } from "../wire";
import { brief } from "./numbers";

/** Watch conditions in words. */

const NUMBERS: Readonly<Record<string, string>> = {
  abs_mean: "mean |x|",
  max: "the maximum",
  min: "the minimum",
  mean: "the mean",
  sd: "the standard deviation",
  max_min: "max − min",
  zero_percentage: "the share of zeros",
  abs_mean_update_ratio: "the update ratio",
  range_percentage: "the share of values",
};
const RELATIONS: readonly (readonly [string, string])[] = [
  ["_gt", "above"],
  ["_ge", "at least"],
  ["_lt", "below"],
  ["_le", "at most"],
];
const PERCENTAGES = ["zero_percentage", "range_percentage"];

/** A parameter in words: what is compared, and how; null for one that is no comparison. */
export function parameterWords(name: string): {
  readonly what: string;
  readonly relation: string;
  readonly unit: string;
} | null {
  for (const [ending, relation] of RELATIONS) {
    if (!name.endsWith(ending)) continue;
    const base = name.slice(0, -ending.length);
    return {
      what: NUMBERS[base] ?? base.replaceAll("_", " "),
      relation,
      unit: PERCENTAGES.includes(base) ? " %" : "",
    };
  }
  return null;
}

/** The title of a parameter in a form. */
export function parameterTitle(name: string): string {
  if (name === "range_start_inclusive") return "range from";
  if (name === "range_end_inclusive") return "range to";
  const words = parameterWords(name);
  if (words === null) return name.replaceAll("_", " ");
  return `${words.what} ${words.relation}${words.unit === "" ? "" : " (%)"}`;
}

/** The parameters of every condition that say when a tensor is reported, not what is compared. */
export const REPORTING = ["steps_in_a_row", "from_start", "floats_only"];

/** The given parameters; where none of them is compared with, the defaults of those that are. */
function comparedWith(
  given: Readonly<Record<string, number>>,
  info: ConditionInfo | undefined,
): Readonly<Record<string, number>> {
  const checks = info?.parameters.filter((each) => each.check) ?? [];
  if (checks.some(({ name }) => given[name] !== undefined)) return given;
  const found: Record<string, number> = { ...given };
  for (const each of checks) if (each.default !== null) found[each.name] = each.default;
  return found;
}

/** When a tensor is reported, if not at once. */
function reportedWords(given: Readonly<Record<string, number>>): string {
  const rows = given.steps_in_a_row ?? 1;
  const parts = [
    rows > 1 ? `for ${rows} steps in a row` : "",
    (given.from_start ?? 0) > 0 ? "from the first step on" : "",
  ];
  return parts
    .filter((part) => part !== "")
    .map((part) => `, ${part}`)
    .join("");
}

/** A condition with its parameters as a sentence, such as "tensor: the maximum above 10". */
export function conditionWords(condition: ConditionSpec, catalogue: Catalogue | null): string {
  if (condition.expression !== "") return condition.expression;
  const info = catalogue?.conditions.find((each) => each.id === condition.id);
  const title = info?.title ?? condition.id.replaceAll("_", " ");
  const given = comparedWith(condition.parameters, info);
  const [from, to] = [given.range_start_inclusive, given.range_end_inclusive];
  const range = from !== undefined && to !== undefined ? ` in [${brief(from)}, ${brief(to)}]` : "";
  const checks = Object.entries(given).flatMap(([name, value]) => {
    const words = parameterWords(name);
    if (words === null) return [];
    const inside = name.startsWith("range_percentage") ? range : "";
    return [`${words.what}${inside} ${words.relation} ${brief(value)}${words.unit}`];
  });
  const compared = checks.length === 0 ? "" : `: ${checks.join(" or ")}`;
  return `${title}${compared}${reportedWords(given)}`;
}

const TARGETS: Readonly<Record<string, string>> = {
  tensor: "all tensors",
  weight: "all weights",
  gradient: "all gradients",
  activation: "all activations",
};

/** What a condition without patterns applies to: "all weights". */
export function targetWords(
  conditions: readonly ConditionSpec[],
  catalogue: Catalogue | null,
): string {
  const [first] = conditions;
  const info = catalogue?.conditions.find((each) => each.id === first?.id);
  return TARGETS[info?.target ?? "tensor"] ?? "all tensors";
}

/** A pattern in words: the functions that the recommended watchpoints name, or the pattern. */
export function patternWords(pattern: string): string {
  const functions = /^name-regex\(\(\?i\)\(\.\*\/\)\?\(([\w|]+)\)/.exec(pattern);
  if (functions?.[1] !== undefined) return `${functions[1].split("|").join(" and ")} ops`;
  if (pattern.includes("(bias|beta)")) return "all but biases";
  if (pattern.startsWith("name-regex(") && pattern.length > 60) return "ops that compute values";
  return /^[\w-]+\(/.test(pattern) ? `ops that match ${pattern}` : pattern;
}
