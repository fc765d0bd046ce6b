import { expect, test } from "vitest";
import { coverage, patternsOf, scopeOf, toggled, type Tick } from "../src/state/ticks";

const NET = "Default/net/";

function after(...clicks: readonly (readonly [string, string])[]): readonly Tick[] {
  return clicks.reduce<readonly Tick[]>((ticks, [path, scope]) => toggled(ticks, path, scope), []);
}

test("a ticked scope covers what is in it, parameters too, and those round it in part", () => {
  const ticks = after([NET, "Default/"], ["x.weight", "Other/"]);
  expect(coverage(ticks, "Default/net/relu-op0", NET)).toBe("all");
  expect(coverage(ticks, "a.bias", "Default/net/b/")).toBe("all");
  expect(coverage(ticks, "Default/", "")).toBe("some");
  expect(coverage(ticks, "Other/", "")).toBe("some");
  expect(coverage(ticks, "Gradients/", "")).toBe("none");
  expect(patternsOf(ticks)).toEqual([NET, "x.weight"]);
});

test("one inside a ticked scope is left out alone, and what is inside it can be taken again", () => {
  const ticks = after([NET, "Default/"], ["Default/net/b/", NET], ["b.weight", "Default/net/b/"]);
  expect(patternsOf(ticks)).toEqual([NET, "!Default/net/b/", "b.weight"]);
  expect(coverage(ticks, NET, "Default/")).toBe("some");
  expect(coverage(ticks, "Default/net/b/", NET)).toBe("some");
  expect(coverage(ticks, "Default/net/b/relu-op0", "Default/net/b/")).toBe("none");
  expect(coverage(ticks, "b.weight", "Default/net/b/")).toBe("all");
  expect(coverage(ticks, "Default/net/a/", NET)).toBe("all");
});

test("a click on what is ticked in part ticks it whole, the next one nothing of it", () => {
  const parts = after([NET, "Default/"], ["b.weight", "Default/net/b/"]);
  expect(patternsOf(parts)).toEqual([NET, "!b.weight"]);
  const whole = toggled(parts, NET, "Default/");
  expect(patternsOf(whole)).toEqual([NET]);
  expect(toggled(whole, NET, "Default/")).toEqual([]);
  expect(patternsOf(toggled(parts, "b.weight", "Default/net/b/"))).toEqual([NET]);
  expect(patternsOf(toggled(parts, "Default/", ""))).toEqual(["Default/"]);
});

test("nothing is left out of what is not ticked", () => {
  const inner = toggled(after([NET, "Default/"], ["b.weight", "Default/net/b/"]), NET, "Default/");
  expect(toggled(inner, NET, "Default/")).toEqual([]);
});

test("a path tells its scope", () => {
  expect(scopeOf("Default/net/b/")).toBe(NET);
  expect(scopeOf("Default/net/relu-op0")).toBe(NET);
  expect(scopeOf("b.weight")).toBe("");
});
