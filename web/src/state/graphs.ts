import type { GraphInfo, RankView } from "../wire";

/**
 * The graph that is chosen, or runs, or ran last. In the middle of a step whose structure is new the
 * one that grows is the one that runs.
 */
export function graphOf({ graphs, graph: current, op }: Pick<RankView, "graphs" | "graph" | "op">, chosen: number | null): GraphInfo | null {
  const named = graphs.find((each) => each.id === (chosen ?? current));
  const growing = chosen === null && current === null && op !== null ? graphs.findLast((each) => !each.whole) : undefined;
  return named ?? growing ?? graphs.findLast((each) => each.whole) ?? graphs.at(-1) ?? null;
}
