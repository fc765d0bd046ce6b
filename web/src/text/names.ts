import type { GraphInfo, Node, Phase } from "../wire";
import type { GraphDetail } from "../state/place";
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

/** Scopes that contain all others of a phase; only the view "everything" draws them. */
const UNWRAPPED: ReadonlySet<string> = new Set(["Default/", "Gradients/Default/"]);

/** The scopes around `path` that a view draws, outermost first; not `path` itself. */
export function drawnScopes(path: string, view: GraphDetail): string[] {
  return scopesOf(path).filter(
    (scope) => scope !== path && (view === "everything" || !UNWRAPPED.has(scope)),
  );
}

const READ: Readonly<Record<string, string>> = { Default: "Forward", Gradients: "Backward" };

/** A part of a name as people read it: `Forward` for `Default`, `Recomputed` for `recompute_…`. */
export function partText(part: string): string {
  if (part.startsWith("recompute_")) {
    const inner = part.slice("recompute_".length);
    return inner in READ ? "Recomputed" : `Recomputed ${inner}`;
  }
  return READ[part] ?? part;
}

/**
 * The parts of a path as people read them, outermost first. `Backward` is enough for
 * `Gradients/Default`.
 */
export function readParts(path: string): string[] {
  const parts = path.replace(/\/$/, "").split("/");
  const isBackward = parts[0] === "Gradients" && parts[1] === "Default";
  return (isBackward ? [parts[0] ?? "", ...parts.slice(2)] : parts)
    .filter((part) => part !== "")
    .map(partText);
}

/** The name of a module without its class: `attn` for `attn-Attn`. A number keeps its class. */
export function moduleName(part: string): string {
  const [name = "", cls = ""] = part.split(/-(.*)/s);
  return cls === "" || /^\d+$/.test(name) ? part : name;
}

/** The last part of a name; "(grad)" tells a gradient from the op of the same name. */
export function opName(path: string): string {
  const last = leafText(lastPart(path));
  return path.startsWith("Gradients/") ? `${last} (grad)` : last;
}

/** A tensor without a name, `data-3`, as `constant 3`. */
export function leafText(name: string): string {
  return name.replace(/^(?:.*_)?data-(\d+)$/, "constant $1");
}

/**
 * The phase that a node belongs to: what an optimizer keeps between steps is a parameter, which
 * graphs list as "forward".
 */
export function phaseText(node: Pick<Node, "phase" | "scope" | "kind">): Phase {
  const isState = node.kind === "parameter" && /(?:^|\/)optimizer-[^/]*\/?$/.test(node.scope);
  return isState ? "optimizer" : node.phase;
}

/** A dotted name of a parameter, without the parts that all of `names` begin with. */
export function innerName(name: string, names: readonly string[]): string {
  const parts = name.split(".");
  const isShared = (count: number): boolean => {
    const start = `${parts.slice(0, count).join(".")}.`;
    return names.every((each) => each.startsWith(start));
  };
  let shared = 0;
  while (shared < parts.length - 2 && isShared(shared + 1)) shared += 1;
  return parts.slice(shared).join(".");
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

/** Names of folders that say nothing of what was dumped. */
const USUAL_FOLDERS: ReadonlySet<string> = new Set([
  "dump",
  "dumps",
  "dump_data",
  "sonde_dump",
  "output",
  "outputs",
]);

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
  const isUsual = USUAL_FOLDERS.has(parts.at(-1) ?? "") && parts.length > 2;
  for (let count = isUsual ? 2 : 1; count < parts.length; count++) {
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
  const count = graph.nodes === 0 ? "" : ` · ${counted(graph.nodes, "node")}`;
  // The only graph needs no name.
  if (graphs.length === 1 && graph.nodes > 0)
    return `${counted(graph.nodes, "node")}${stateOf(graph)}`;
  return `${graphName(graph, graphs)}${whose}${count}${stateOf(graph)}`;
}

/** A graph by what distinguishes it from the usual one, or by its number. */
export function graphName(graph: GraphInfo, graphs: readonly GraphInfo[]): string {
  if (graph.difference !== "") return graph.difference;
  const isUsual = graph.whole && graphs.some((each) => each !== graph && each.difference !== "");
  return isUsual ? "usual step" : `graph ${graph.id}`;
}

/** How far a graph is known. */
function stateOf({ basis, whole }: GraphInfo): string {
  if (basis === "modules") return ", modules and parameters: its ops have not run yet";
  if (basis === "trace") return ", as traced: its ops have not run yet";
  return whole ? "" : ", still growing";
}
