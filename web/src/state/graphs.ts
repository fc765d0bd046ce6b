import type { GraphInfo, RankView } from "../wire";

/** Whether a step is known to have run the graph. */
export function hasStep({ steps }: GraphInfo, step: number): boolean {
  return steps.some(([first, last]) => first <= step && step <= last);
}

/** The whole graph that is shown in place of a growing one: it also shows what comes next. */
function knownGraph(
  growing: GraphInfo | undefined,
  graphs: readonly GraphInfo[],
): GraphInfo | undefined {
  if (growing === undefined || growing.whole || growing.like === null) return undefined;
  return graphs.find((each) => each.id === growing.like);
}

/**
 * The graph to show: the chosen one, else that of the chosen step, else the one that runs or ran
 * last. In a step with a new structure that is the incomplete graph, unless a known one has nearly
 * all of its ops. While a training runs, the graph on the screen (`shown`)
 * is replaced only by newer ones: the graphs of a GAN, which alternate, would flicker.
 */
export function graphOf(
  one: Pick<RankView, "graphs" | "graph" | "op" | "state"> & Partial<Pick<RankView, "reason">>,
  chosen: number | null,
  shown: number | null = null,
  step: number | null = null,
): GraphInfo | null {
  const { graphs, op } = one;
  if (chosen === null && step !== null) {
    const ran = graphs.find((each) => hasStep(each, step));
    if (ran !== undefined) return ran;
  }
  const isCalm =
    one.state === "running" &&
    one.graph !== null &&
    shown !== null &&
    shown > one.graph &&
    graphs.some((each) => each.id === shown);
  const current = isCalm ? shown : one.graph;
  const named = graphs.find((each) => each.id === (chosen ?? current));
  const growing =
    chosen === null && current === null && op !== null
      ? graphs.findLast((each) => !each.whole)
      : undefined;
  const alike = knownGraph(chosen === null ? (named ?? growing) : undefined, graphs);
  // The op of a hit must be on the screen.
  const known = one.reason === "hit" && alike?.here === null ? undefined : alike;
  return (
    known ?? named ?? growing ?? graphs.findLast((each) => each.whole) ?? graphs.at(-1) ?? null
  );
}
