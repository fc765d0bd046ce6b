import { batch, computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import { api, type GraphAt, type ShownGraphAt } from "../load/api";
import { asScope, drawnScopes } from "../text/names";
import type { ControlRequest, GraphInfo, OpTensors, RankView, RunView } from "../wire";
import { graphOf } from "./graphs";
import {
  formatPlace,
  isNewPage,
  parsePlace,
  START,
  type Against,
  type GraphDetail,
  type Io,
  type Place,
  type Tab,
} from "./place";
import { controlledRank, nodeTicks } from "./preferences";
import { patternsOf, toggled } from "./ticks";
import { attempt } from "./toasts";

/*
 * The state that every part of the page reads. Other modules see it as read-only signals and change
 * it by calling the functions below.
 */

export type Connection = "connecting" | "open" | "lost";
export type Topic = "status" | "graph" | "hits" | "watchpoints" | "loss" | "notices";

/** Where trainings connect to the server. */
export interface RankListener {
  readonly port: number | null;
  readonly fingerprint: string;
}

const writable = {
  runs: signal<readonly RunView[]>([]),
  areRunsLoaded: signal(false),
  rankListener: signal<RankListener>({ port: null, fingerprint: "" }),
  connection: signal<Connection>("connecting"),
  place: signal<Place>(parsePlace(location.search)),
  opScope: signal(""),
  opTensors: signal<OpTensors | null>(null),
  topicVersions: signal<Readonly<Record<string, number>>>({}),
  tensorRefreshes: signal(0),
};

export const runs: ReadonlySignal<readonly RunView[]> = writable.runs;
export const areRunsLoaded: ReadonlySignal<boolean> = writable.areRunsLoaded;
export const rankListener: ReadonlySignal<RankListener> = writable.rankListener;
export const connection: ReadonlySignal<Connection> = writable.connection;
export const place: ReadonlySignal<Place> = writable.place;
/** The scope of the selected op, ending with "/"; empty until the op's details are loaded. */
export const opScope: ReadonlySignal<string> = writable.opScope;
/** The tensors of the selected op, as its details loaded them. */
export const opTensors: ReadonlySignal<OpTensors | null> = writable.opTensors;
/** How often the user asked to load tensors again. */
export const tensorRefreshes: ReadonlySignal<number> = writable.tensorRefreshes;

export const run = computed<RunView | null>(() => {
  const wanted = place.value.run;
  if (wanted === "") return newest(runs.value) ?? null;
  return runs.value.find((each) => each.id === wanted) ?? null;
});
export const rank = computed<RankView | null>(() => {
  const ranks = run.value?.ranks ?? [];
  return ranks.find((each) => each.rank === place.value.rank) ?? ranks[0] ?? null;
});
/** Whether the process that had the values has ended. */
export const isOver = computed(
  () => run.value?.kind === "live" && rank.value !== null && hasEnded(rank.value),
);
// The graph shown last and its rank: while a training runs, `graphOf` prefers to stay with it.
let shown: { readonly of: string; readonly id: number } | null = null;
export const graph = computed<GraphInfo | null>(() => {
  if (rank.value === null) return null;
  const of = `${run.value?.id ?? ""} ${rank.value.rank}`;
  const found = graphOf(
    rank.value,
    place.value.graph,
    shown?.of === of ? shown.id : null,
    place.value.step,
  );
  shown = found === null ? null : { of, id: found.id };
  return found;
});
/** The graph on the screen, as requests name it. */
export const graphAt = computed<GraphAt | null>(() => {
  if (run.value === null || rank.value === null || graph.value === null) return null;
  return { run: run.value.id, rank: rank.value.rank, graph: graph.value.id };
});
/** The same, with as many nodes as the view shows. */
export const shownGraphAt = computed<ShownGraphAt | null>(() =>
  graphAt.value === null ? null : { ...graphAt.value, view: place.value.view },
);
/** The place of the current op in the graph on the screen, in the middle of a step. */
export const currentOrder = computed<number | null>(() =>
  rank.value === null || hasEnded(rank.value) || rank.value.op === null
    ? null
    : (graph.value?.here ?? null),
);
/** The rank the controls act on, if the run has it; null: all ranks. */
export const rankToControl = computed<number | null>(() => {
  const wanted = controlledRank.value;
  return run.value?.ranks.some((each) => each.rank === wanted) === true ? wanted : null;
});
/** The ticked nodes as patterns of a watchpoint. */
export const tickedPatterns = computed<readonly string[]>(() => patternsOf(nodeTicks.value));

/**
 * The first screen of a run: the health of one that has several steps when the page first sees it,
 * else the graph, and it stays that.
 */
const firstTabs = new Map<string, Tab>();

function firstTab(of: RunView): Tab {
  const known = firstTabs.get(of.id);
  if (known !== undefined || of.ranks.length === 0) return known ?? "graph";
  const found = of.opens_with_health ? "health" : "graph";
  firstTabs.set(of.id, found);
  return found;
}

/** The tab on the screen. */
export const tab = computed<Tab>(() => {
  if (place.value.tab !== "") return place.value.tab;
  return run.value === null ? "graph" : firstTab(run.value);
});

export function hasEnded({ state }: Pick<RankView, "state">): boolean {
  return state === "ended" || state === "lost";
}

/**
 * The run that most likely matters: one that has not ended before one that has, then the latest.
 */
export function newest(all: readonly RunView[]): RunView | undefined {
  const isAlive = (each: RunView): boolean =>
    each.kind === "live" && each.ranks.some((one) => !hasEnded(one));
  return all.findLast(isAlive) ?? all.at(-1);
}

// ---- Data of the server

export function setConnection(state: Connection): void {
  writable.connection.value = state;
}

export function setRuns(list: readonly RunView[], listener?: RankListener): void {
  batch(() => {
    writable.runs.value = list;
    writable.areRunsLoaded.value = true;
    if (listener !== undefined) writable.rankListener.value = listener;
  });
}

/** Takes over the newer of two views of a run. */
export function replaceRun(changed: RunView): void {
  const known = runs.value.find((each) => each.id === changed.id);
  if (known !== undefined && known.revision > changed.revision) return;
  writable.runs.value =
    known === undefined
      ? [...runs.value, changed]
      : runs.value.map((each) => (each === known ? changed : each));
}

export function removeRun(id: string): void {
  writable.runs.value = runs.value.filter((each) => each.id !== id);
}

export function setOpTensors(tensors: OpTensors | null): void {
  writable.opTensors.value = tensors;
}

/**
 * Records that data of these topics has changed on the server; panels that show it load it again.
 */
export function markChanged(
  changes: readonly { readonly run: string; readonly topics: readonly Topic[] }[],
): void {
  const next = { ...writable.topicVersions.value };
  for (const change of changes) {
    for (const topic of change.topics) {
      const key = `${change.run} ${topic}`;
      next[key] = (next[key] ?? 0) + 1;
    }
  }
  writable.topicVersions.value = next;
}

/** Grows with every announced change of the topic in the run on the screen. */
export function topicVersion(topic: Topic): number {
  return writable.topicVersions.value[`${run.value?.id ?? ""} ${topic}`] ?? 0;
}

const THROTTLE_MILLISECONDS = 2000;
const throttledVersions = signal(writable.topicVersions.peek());
setInterval(() => {
  if (!document.hidden) throttledVersions.value = writable.topicVersions.peek();
}, THROTTLE_MILLISECONDS);

/** As `topicVersion`, but while a training runs it changes every two seconds at most. */
export function throttledVersion(topic: Topic): number {
  const throttled = throttledVersions.value[`${run.value?.id ?? ""} ${topic}`] ?? 0;
  return rank.value?.state === "running" ? throttled : topicVersion(topic);
}

// ---- Actions of the user

/**
 * The place with the run and, of several, the rank that it shows: the address names both, so that
 * the link shows the same to a colleague, and another run never takes their place.
 */
function pinned(at: Place): Place {
  if (at.run !== "" && !runs.value.some((each) => each.id === at.run)) return at;
  const shownRun = at.run === "" ? newest(runs.value) : runs.value.find(({ id }) => id === at.run);
  if (shownRun === undefined) return at;
  const ranks = shownRun.ranks;
  const number = at.rank ?? (ranks.length > 1 ? (ranks[0]?.rank ?? null) : null);
  return { ...at, run: shownRun.id, rank: number };
}

/** Keeps showing this run and rank from now on. */
export function pinPlace(): void {
  const after = pinned(place.value);
  if (formatPlace(after) === formatPlace(place.value)) return;
  history.replaceState(null, "", formatPlace(after));
  writable.place.value = after;
}

/** Pins the run as soon as the user does anything, and shows it in the address before that. */
export function pinOnTouch(): void {
  for (const event of ["pointerdown", "keydown"]) {
    window.addEventListener(event, pinPlace, { capture: true });
  }
  effect(() => {
    const text = formatPlace(pinned(place.value));
    if (runs.value.length > 0 && text !== location.search) history.replaceState(null, "", text);
  });
}

/** Goes to another place; only the named parts change. */
export function go(change: Partial<Place>): void {
  const before = place.value;
  const after = pinned({ ...before, ...change });
  const text = formatPlace(after);
  if (text === formatPlace(before)) return;
  const target = text === "" ? location.pathname : text;
  if (isNewPage(before, after)) history.pushState(null, "", target);
  else history.replaceState(null, "", target);
  writable.place.value = after;
}

window.addEventListener("popstate", () => {
  writable.place.value = parsePlace(location.search);
});

export function refreshTensors(): void {
  writable.tensorRefreshes.value += 1;
}

export function chooseRun(id: string): void {
  // Names of one program's ops mean nothing in another program.
  clearTicks();
  go({ ...START, run: id, tab: place.value.tab === "tensor" ? "" : place.value.tab });
}

/** Shows another rank of the run. The op stays selected, because all ranks run the same program. */
export function chooseRank(number: number): void {
  go({ rank: number, graph: null, hitGraph: null });
}

/** The parts of the place that describe one op's tensors, as they are for a newly selected op. */
const NEW_OP = {
  io: "output",
  slot: 0,
  index: "",
  against: null,
  compared: "",
  comparedRow: 0,
  frame: -1,
} as const;

/** Selects an op in the list, the graph and the details; its scopes open in the graph. */
export function selectOp(name: string, more: Partial<Place> = {}): void {
  const now = place.value;
  if (name !== now.op) writable.opScope.value = "";
  const open = new Set([...now.open, ...drawnScopes(name, now.view)]);
  const step = run.value?.kind === "dump" ? now.step : null;
  const reset = name === now.op ? {} : { ...NEW_OP, step };
  go({ ...reset, op: name, open: [...open], ...more });
}

/** Shows a step of a dump. The step decides which graph is shown. */
export function chooseStep(step: number): void {
  go({ step, graph: null });
}

/** Draws more or less of the graph. */
export function chooseView(view: GraphDetail): void {
  go({ view, open: [], tree: [], isClosed: false });
}

/** Nothing is selected any more. */
export function deselect(): void {
  if (place.value.op !== "") go({ ...NEW_OP, op: "" });
}

/**
 * Opens the scopes of the selected op; the name of a parameter does not contain them, nor that of
 * an op outside of all modules.
 */
export function revealScope(scope: string): void {
  const path = asScope(scope);
  writable.opScope.value = path;
  const now = place.value;
  const around = path === "" ? [] : [...drawnScopes(path, now.view), path];
  const missing = around.filter((each) => !now.open.includes(each));
  if (missing.length > 0) go({ open: [...now.open, ...missing] });
}

export interface TensorChoice {
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly step: number | null;
  readonly against?: Against;
}

export function openTensor({ op, io, slot, step, against }: TensorChoice): void {
  const isSame = op === place.value.op && io === place.value.io && slot === place.value.slot;
  const index = isSame ? place.value.index : "";
  selectOp(op, { tab: "tensor", io, slot, step, against: against ?? null, index });
}

export function toggleTick(path: string, scope: string): void {
  nodeTicks.set(toggled(nodeTicks.value, path, scope));
}

export function clearTicks(): void {
  nodeTicks.set([]);
}

export function command(request: Partial<ControlRequest> & Pick<ControlRequest, "command">): void {
  const current = run.value;
  if (current === null) return;
  const whole: ControlRequest = {
    steps: 1,
    op: "",
    rank: rankToControl.value,
    wait_seconds: 0,
    ...request,
  };
  void attempt(async () => replaceRun(await api.control(current.id, whole)));
}
