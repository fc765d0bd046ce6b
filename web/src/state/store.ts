import { batch, computed, signal } from "@preact/signals";
import type { ControlRequest, GraphInfo, OpTensors, RankView, RunView } from "../wire";
import { api } from "./api";
import { graphOf } from "./graphs";
import { asScope, scopesOf } from "./names";
import { formatPlace, isNewPage, parsePlace, START, type Against, type Io, type Place } from "./place";
import { controlled, nodeTicks } from "./preferences";
import { patternsOf, toggled } from "./ticks";
import { attempt } from "./toasts";

/** The state every part of the page reads; changed by the functions below and by `events.ts`. */
export const runs = signal<readonly RunView[]>([]);
export const loaded = signal(false);
/** How a training finds the server. */
export const door = signal<{ readonly port: number | null; readonly hasToken: boolean }>({ port: null, hasToken: false });
export const connection = signal<"connecting" | "open" | "lost">("connecting");
export const place = signal<Place>(parsePlace(location.search));
/** The scope of the selected op, known once its details are here; ends with "/". */
export const opScope = signal("");
/** What is at hand of the selected op's tensors; the details fetch it, others read it here. */
export const opTensors = signal<OpTensors | null>(null);

export type Topic = "status" | "graph" | "hits" | "watchpoints" | "loss" | "notices";
/** Grows when the server announces a change of that topic: `run topic` to a count. */
export const ticks = signal<Readonly<Record<string, number>>>({});

export const run = computed<RunView | null>(() => {
  const wanted = place.value.run;
  return runs.value.find((each) => each.id === wanted) ?? (wanted === "" ? (newest(runs.value) ?? null) : null);
});
export const rank = computed<RankView | null>(() => {
  const ranks = run.value?.ranks ?? [];
  return ranks.find((each) => each.rank === place.value.rank) ?? ranks[0] ?? null;
});
/** Whether the process that had the values is gone. */
export const isOver = computed(() => run.value?.kind === "live" && (rank.value?.state === "ended" || rank.value?.state === "lost"));
// What the graph below was last, and of which rank.
let shown: { readonly of: string; readonly id: number } | null = null;
export const graph = computed<GraphInfo | null>(() => {
  if (rank.value === null) return null;
  const of = `${run.value?.id ?? ""} ${rank.value.rank}`;
  const found = graphOf(rank.value, place.value.graph, shown?.of === of ? shown.id : null);
  shown = found === null ? null : { of, id: found.id };
  return found;
});
/** The rank the controls act on, if the run has it; null: all of them. */
export const scopeOfControl = computed<number | null>(() => {
  const wanted = controlled.value;
  return run.value?.ranks.some((each) => each.rank === wanted) === true ? wanted : null;
});
/** What is ticked, as a watchpoint says it. */
export const tickedPatterns = computed<readonly string[]>(() => patternsOf(nodeTicks.value));

/** The run that most likely matters: one that lives before one that ended, then the latest. */
function newest(all: readonly RunView[]): RunView | undefined {
  const lives = (each: RunView): boolean =>
    each.ranks.some((one) => one.state === "running" || one.state === "paused" || one.state === "waiting");
  return all.findLast(lives) ?? all.at(-1);
}

export function tick(topic: Topic): number {
  return ticks.value[`${run.value?.id ?? ""} ${topic}`] ?? 0;
}

const CALM_MILLISECONDS = 2000;
const calmTicks = signal(ticks.peek());
setInterval(() => {
  if (!document.hidden) calmTicks.value = ticks.peek();
}, CALM_MILLISECONDS);

/** As `tick`, but while a training runs it looks only now and then: nobody could read more. */
export function calmTick(topic: Topic): number {
  const calm = calmTicks.value[`${run.value?.id ?? ""} ${topic}`] ?? 0;
  return rank.value?.state === "running" ? calm : tick(topic);
}

/** Asks for tensors again, at the reader's wish. */
export const refreshes = signal(0);

/** Goes to another place; only what is named changes. */
export function go(change: Partial<Place>): void {
  const before = place.value;
  const after = { ...before, ...change };
  const text = formatPlace(after);
  if (text === formatPlace(before)) return;
  const target = text === "" ? location.pathname : text;
  if (isNewPage(before, after)) history.pushState(null, "", target);
  else history.replaceState(null, "", target);
  place.value = after;
}

window.addEventListener("popstate", () => {
  place.value = parsePlace(location.search);
});

export function chooseRun(id: string): void {
  // Names of one program's ops mean nothing in another.
  nodeTicks.value = [];
  go({ ...START, run: id, tab: place.value.tab === "tensor" ? "graph" : place.value.tab });
}

/** Another rank of the run; the op stays selected, ranks run the same program. */
export function chooseRank(number: number): void {
  go({ rank: number, graph: null, hitGraph: null });
}

/** What is said of one op's tensors means nothing for another's. */
const FRESH = { io: "output", slot: 0, index: "", against: null, compared: "", comparedRow: 0, frame: 0 } as const;

/** Selects an op everywhere: list, graph, details. Its scopes open in the graph. */
export function selectOp(name: string, more: Partial<Place> = {}): void {
  const now = place.value;
  if (name !== now.op) opScope.value = "";
  const open = new Set([...now.open, ...scopesOf(name)]);
  const step = run.value?.kind === "dump" ? now.step : null;
  const fresh = name === now.op ? {} : { ...FRESH, step };
  go({ ...fresh, op: name, open: [...open], ...more });
}

/** Opens the scopes round the selected op; a parameter's name does not tell them, its details do. */
export function revealScope(scope: string): void {
  const path = asScope(scope);
  opScope.value = path;
  const now = place.value;
  const missing = scopesOf(path).filter((each) => !now.open.includes(each));
  if (missing.length > 0) go({ open: [...now.open, ...missing] });
}

export function openTensor(op: string, io: Io, slot: number, step: number | null, against: Against | null = null): void {
  const same = op === place.value.op && io === place.value.io && slot === place.value.slot;
  selectOp(op, { tab: "tensor", io, slot, step, against, index: same ? place.value.index : "" });
}

export function toggleTick(path: string, scope: string): void {
  nodeTicks.value = toggled(nodeTicks.value, path, scope);
}

export function replaceRun(changed: RunView): void {
  const known = runs.value.find((each) => each.id === changed.id);
  if (known !== undefined && known.revision > changed.revision) return;
  runs.value = known === undefined ? [...runs.value, changed] : runs.value.map((each) => (each === known ? changed : each));
}

export function command(request: Partial<ControlRequest> & Pick<ControlRequest, "command">): void {
  const current = run.value;
  if (current === null) return;
  const whole: ControlRequest = { steps: 1, op: "", rank: scopeOfControl.value, wait_seconds: 0, ...request };
  void attempt(async () => replaceRun(await api.control(current.id, whole)));
}

/** Announced changes, many at once when a training runs fast. */
export function announce(changes: readonly { readonly run: string; readonly topics: readonly Topic[] }[]): void {
  batch(() => {
    const next = { ...ticks.value };
    for (const change of changes) {
      for (const topic of change.topics) {
        const key = `${change.run} ${topic}`;
        next[key] = (next[key] ?? 0) + 1;
      }
    }
    ticks.value = next;
  });
}
