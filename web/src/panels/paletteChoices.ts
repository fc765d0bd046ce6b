import { api, type GraphAt, type ShownGraphAt } from "../load/api";
import { stepsToRun, theme } from "../state/preferences";
import {
  chooseRun,
  chooseStep,
  chooseView,
  command,
  go,
  graph,
  place,
  rank,
  run,
  runs,
  selectOp,
  tab,
} from "../state/store";
import { commonParts, differingPart } from "../text/differing";
import { fileName, lastPart, leafText, opName, readParts, runTitle } from "../text/names";
import { counted } from "../text/numbers";
import type { Command } from "../wire";
import { newWatchpoint, openDialog } from "./dialogs";

/** One line of the palette. */
export interface Choice {
  readonly id: string;
  readonly kind: string;
  readonly text: string;
  readonly more?: string;
  readonly title?: string;
  readonly act: () => void;
}

const MOST_OF_A_KIND = 12;
const NO_FILTER = {
  query: "",
  category: "",
  phase: "",
  file: "",
  line: null,
  hits: false,
  offset: 0,
  limit: MOST_OF_A_KIND,
};

/** What the page finds by itself: actions, steps, runs, watchpoints. */
export function foundHere(query: string): readonly Choice[] {
  const words = query.toLowerCase().split(/\s+/);
  const matches = ({ kind, text }: Choice): boolean =>
    words.every((word) => `${kind} ${text}`.toLowerCase().includes(word));
  return [
    ...stepChoices(query),
    ...[...actions(), ...runChoices(), ...watchpointChoices()]
      .filter(matches)
      .slice(0, MOST_OF_A_KIND),
  ];
}

/** What the server finds in the graph: modules, ops, parameters, lines. */
export async function foundInGraph(
  query: string,
  at: GraphAt,
  shown: ShownGraphAt,
  signal: AbortSignal,
): Promise<readonly Choice[]> {
  const [scopes, ops, lines] = await Promise.all([
    api.scopes({ ...shown, query, limit: MOST_OF_A_KIND }, signal),
    api.nodes({ ...at, ...NO_FILTER, query, limit: 2 * MOST_OF_A_KIND }, signal),
    api.sources({ ...at, query }, signal),
  ]);
  const common = commonParts(ops.nodes.map((node) => node.scope));
  return [
    ...scopes.scopes.map(({ path, label, ops: count }): Choice => ({
      id: `scope ${path}`,
      kind: "module",
      text: label,
      more: `${readParts(path).slice(0, -1).join(" › ")} · ${counted(count, "op")}`,
      title: path,
      act: () => show(path),
    })),
    ...ops.nodes.map(({ name, kind, scope }): Choice => ({
      id: `op ${name}`,
      kind: kind === "op" ? "op" : kind,
      text: kind === "op" ? opName(name) : leafText(lastPart(name)),
      more: differingPart(scope, common),
      title: name,
      act: () => show(name),
    })),
    ...lines.lines.slice(0, MOST_OF_A_KIND).map(({ file, line, code, ops: count }): Choice => ({
      id: `line ${file}:${line}`,
      kind: "line",
      text: `${fileName(file)}:${line}`,
      more: code.trim(),
      title: `${counted(count, "op")} of ${file}:${line}`,
      act: () =>
        go({ file, line, query: "", category: "", phase: "", onlyHits: false, listing: "ops" }),
    })),
  ];
}

function show(path: string): void {
  selectOp(path, { tab: tab.value === "tensor" ? "tensor" : "graph" });
}

/** "step 12", or a number alone: a step of a dump, or so many steps of a training. */
function stepChoices(query: string): readonly Choice[] {
  const found = /^(?:step\s*)?(\d+)$/i.exec(query);
  if (found === null) return [];
  const step = Number(found[1]);
  const choices: Choice[] = [];
  const isKnown =
    rank.value?.steps.includes(step) === true ||
    rank.value?.graphs.some((each) =>
      each.steps.some(([first, last]) => first <= step && step <= last),
    ) === true;
  if (isKnown)
    choices.push({
      id: `step ${step}`,
      kind: "step",
      text: `show step ${step}`,
      act: () => chooseStep(step),
    });
  if (step > 0 && run.value?.controls.includes("step") === true)
    choices.push({
      id: `run ${step}`,
      kind: "action",
      text: `run ${counted(step, "step")}`,
      act: () => command({ command: "step", steps: step }),
    });
  return choices;
}

function runChoices(): readonly Choice[] {
  return runs.value.map(({ id }) => ({
    id: `run ${id}`,
    kind: "run",
    text: runTitle(runs.value, id),
    act: () => chooseRun(id),
  }));
}

function watchpointChoices(): readonly Choice[] {
  return (run.value?.watchpoints ?? []).map(({ id, name }) => ({
    id: `watchpoint ${id}`,
    kind: "watchpoint",
    text: `hits of ${name}`,
    act: () => go({ side: "hits", hitWatchpoint: id }),
  }));
}

/** Everything that can be done now. */
function actions(): readonly Choice[] {
  const action = (text: string, act: () => void): Choice => ({
    id: `action ${text}`,
    kind: "action",
    text,
    act,
  });
  const control = (name: Command, text: string, act: () => void): readonly Choice[] =>
    run.value?.controls.includes(name) === true ? [action(text, act)] : [];
  const { op } = place.value;
  const current = rank.value?.op ?? null;
  return [
    ...control("continue", "continue", () => command({ command: "continue" })),
    ...control("pause", "pause", () => command({ command: "pause" })),
    ...control("step", `run ${counted(stepsToRun.value, "step")}`, () =>
      command({ command: "step", steps: stepsToRun.value }),
    ),
    ...control("next", "run the next op", () => command({ command: "next" })),
    ...(op === ""
      ? []
      : control("to", `run to ${opName(op)}`, () => command({ command: "to", op }))),
    ...control("terminate", "terminate the training", () => openDialog({ kind: "terminate" })),
    ...(current === null ? [] : [action("go to the current op", () => show(current))]),
    action("new watchpoint", () => newWatchpoint(op === "" ? [] : [op])),
    ...(graph.value === null
      ? []
      : [
          action("draw the model", () => chooseView("model")),
          action("draw the training step", () => chooseView("step")),
          action("draw everything", () => chooseView("everything")),
        ]),
    action("show the health", () => go({ tab: "health" })),
    action("show the graph", () => go({ tab: "graph" })),
    action("show the tensor", () => go({ tab: "tensor" })),
    action("show the loss", () => go({ tab: "loss" })),
    action("show the run", () => go({ tab: "run" })),
    action("show hits", () => go({ side: "hits" })),
    action("show watchpoints", () => go({ side: "watchpoints" })),
    action("light theme", () => theme.set("light")),
    action("dark theme", () => theme.set("dark")),
    action("list of keys", () => openDialog({ kind: "help" })),
  ];
}
