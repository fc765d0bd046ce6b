import { scopesOf } from "../text/names";

/**
 * A tick of the list of nodes: an op, or a scope with all that is in it; not `isOn`: one that is left out of
 * the scope round it. Of those that cover an op the last decides: what is inside stands behind what is round it.
 */
export interface Tick {
  readonly path: string;
  /** The scope it is in, which the name of a parameter does not tell; ends with "/". */
  readonly scope: string;
  readonly isOn: boolean;
}

export function isTick(value: unknown): value is Tick {
  if (typeof value !== "object" || value === null) return false;
  return (
    "path" in value &&
    typeof value.path === "string" &&
    "scope" in value &&
    typeof value.scope === "string" &&
    "isOn" in value &&
    typeof value.isOn === "boolean"
  );
}

const isInside = (outer: string, path: string, scope: string): boolean =>
  outer.endsWith("/") && (path.startsWith(outer) || scope.startsWith(outer));

function isOn(ticks: readonly Tick[], path: string, scope: string): boolean {
  return (
    ticks.findLast((each) => each.path === path || isInside(each.path, path, scope))?.isOn ?? false
  );
}

/** Whether a node is ticked; "some": parts of it only. */
export function coverage(
  ticks: readonly Tick[],
  path: string,
  scope: string,
): "all" | "some" | "none" {
  const own = isOn(ticks, path, scope);
  const isMixed = ticks.some(
    (each) => each.path !== path && each.isOn !== own && isInside(path, each.path, each.scope),
  );
  return isMixed ? "some" : own ? "all" : "none";
}

/** The ticks after a click on the box of a node: what is ticked in part is ticked whole. */
export function toggled(ticks: readonly Tick[], path: string, scope: string): readonly Tick[] {
  const wants = coverage(ticks, path, scope) !== "all";
  const rest = ticks.filter((each) => each.path !== path && !isInside(path, each.path, each.scope));
  return isOn(rest, path, scope) === wants ? rest : [...rest, { path, scope, isOn: wants }];
}

/** What a watchpoint says for them. */
export function patternsOf(ticks: readonly Tick[]): readonly string[] {
  return ticks.map((each) => (each.isOn ? each.path : `!${each.path}`));
}

/** The scope a path is in, as far as it tells. */
export function scopeOf(path: string): string {
  return scopesOf(path).findLast((each) => each !== path) ?? "";
}
