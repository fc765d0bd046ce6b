import { scopesOf } from "../text/names";

/**
 * A tick in the list of nodes: an op, or a scope with everything in it. Without `isOn` it is
 * excluded from the scope that contains it. If several ticks cover an op, the last one decides:
 * ticks of inner nodes come after those of the scopes around them.
 */
export interface Tick {
  readonly path: string;
  /** The scope of the node, which the name of a parameter does not contain; ends with "/". */
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

/** Whether a node is ticked; "some": only some nodes inside it. */
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

/** The ticks after a click on a node's tick box; a partly ticked scope becomes ticked. */
export function toggled(ticks: readonly Tick[], path: string, scope: string): readonly Tick[] {
  const wants = coverage(ticks, path, scope) !== "all";
  const rest = ticks.filter((each) => each.path !== path && !isInside(path, each.path, each.scope));
  return isOn(rest, path, scope) === wants ? rest : [...rest, { path, scope, isOn: wants }];
}

/** The patterns of a watchpoint for the ticked nodes. */
export function patternsOf(ticks: readonly Tick[]): readonly string[] {
  return ticks.map((each) => (each.isOn ? each.path : `!${each.path}`));
}

/** The scope in the name of a node; empty if the name does not contain it. */
export function scopeOf(path: string): string {
  return scopesOf(path).findLast((each) => each !== path) ?? "";
}
