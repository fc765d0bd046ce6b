import type { GraphInfo } from "../wire";
import { counted } from "./numbers";

/** Names of ops and scopes: parts joined by "/", a scope ends with "/". */

/** A scope as paths write it, with "/" at its end; the root is empty. */
export function asScope(scope: string): string {
  return scope === "" || scope.endsWith("/") ? scope : `${scope}/`;
}

/** All scopes that contain `path`, outermost first, including `path` itself if it is a scope. */
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

/** The last two parts of a name. */
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

/** When a training started, to distinguish runs with the same title. */
function beginning(run: TitledRun): string {
  const started = run.ranks?.[0]?.metadata?.started ?? 0;
  return started > 0 ? new Date(started * 1000).toLocaleTimeString() : run.id;
}

/**
 * The name of a run in lists: the program with its arguments, and its start if another run has the
 * same name; or the folder of a dump, with as many parent folders as distinguish it from others.
 */
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

/** The scope that contains a group (a group is `scope/*word`); null if `path` is not a group. */
export function groupScope(path: string): string | null {
  const star = path.lastIndexOf("*");
  return star === -1 ? null : path.slice(0, star);
}

/** Whether one of `members`, ops and scopes, is `op` or contains it. */
export function isAmong(members: readonly string[], op: string): boolean {
  return members.some((member) => member === op || (member.endsWith("/") && op.startsWith(member)));
}

/** A graph in words, with the optimizer whose step it is if there are several optimizers. */
export function graphText(graph: GraphInfo, graphs: readonly GraphInfo[]): string {
  const optimizers = new Set(graphs.map((each) => each.optimizer).filter((name) => name !== ""));
  const whose = optimizers.size > 1 && graph.optimizer !== "" ? ` · ${graph.optimizer}` : "";
  return `graph ${graph.id}${whose} · ${counted(graph.nodes, "node")}${stateOf(graph)}`;
}

/** How far a graph is known. */
function stateOf({ basis, whole }: GraphInfo): string {
  if (basis === "modules") return ", modules and parameters: its ops have not run yet";
  if (basis === "trace") return ", as traced: its ops have not run yet";
  return whole ? "" : ", still growing";
}
