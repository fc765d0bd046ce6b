import type { GraphInfo } from "../wire";
import { counted } from "./numbers";

/** Names of ops and scopes: parts joined by "/", a scope ends with "/". */

/** A scope as paths write it, with "/" at its end; the root is empty. */
export function asScope(scope: string): string {
  return scope === "" || scope.endsWith("/") ? scope : `${scope}/`;
}

/** Every scope round `path`, outermost first, itself included when it is one. */
export function scopesOf(path: string): string[] {
  const scopes: string[] = [];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) {
    scopes.push(path.slice(0, at + 1));
  }
  return scopes;
}

/** The last part of a name. */
export function lastPart(path: string): string {
  const inside = path.endsWith("/") ? path.slice(0, -1) : path;
  return inside.slice(inside.lastIndexOf("/") + 1);
}

/** The last two parts, for places with room for a hint of where. */
export function shortName(path: string): string {
  const parts = path.replace(/\/$/, "").split("/");
  return parts.slice(-2).join("/");
}

export interface TitledRun {
  readonly id: string;
  readonly kind: string;
  readonly title: string;
  readonly ranks?: readonly { readonly metadata: { readonly started: number } | null }[];
}

/** When a training began, for those that are called alike. */
function beginning(run: TitledRun): string {
  const started = run.ranks?.[0]?.metadata?.started ?? 0;
  return started > 0 ? new Date(started * 1000).toLocaleTimeString() : run.id;
}

/** A run as lists name it: the program with its arguments, and when it began if others are called so,
 * or the folder of a dump, with as many of the folders round it as tell it from other dumps. */
export function runTitle(runs: readonly TitledRun[], id: string): string {
  const found = runs.find((each) => each.id === id);
  if (found === undefined) return id;
  if (found.kind !== "dump") {
    const isAlone = !runs.some((each) => each !== found && each.title === found.title);
    return isAlone ? found.title : `${found.title} · ${beginning(found)}`;
  }
  const parts = found.title.replace(/\/$/, "").split("/");
  for (let count = 1; count < parts.length; count++) {
    const name = parts.slice(-count).join("/");
    if (
      !runs.some(
        (each) => each !== found && `/${each.title.replace(/\/$/, "")}`.endsWith(`/${name}`),
      )
    )
      return name;
  }
  return found.title;
}

/** The last part of a file's path. */
export function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The scope a group is in (a group is `scope/*word`), or null for what is no group. */
export function groupScope(path: string): string | null {
  const star = path.lastIndexOf("*");
  return star === -1 ? null : path.slice(0, star);
}

/** Whether one of `members`, ops and scopes, is or holds `op`. */
export function isAmong(members: readonly string[], op: string): boolean {
  return members.some((member) => member === op || (member.endsWith("/") && op.startsWith(member)));
}

/** A graph in words, with the optimizer whose step it is where there are several. */
export function graphText(graph: GraphInfo, graphs: readonly GraphInfo[]): string {
  const optimizers = new Set(graphs.map((each) => each.optimizer).filter((name) => name !== ""));
  const whose = optimizers.size > 1 && graph.optimizer !== "" ? ` · ${graph.optimizer}` : "";
  return `graph ${graph.id}${whose} · ${counted(graph.nodes, "node")}${graph.whole ? "" : ", still growing"}`;
}
