import type { GraphInfo, RankView } from "../wire";

/**
 * The graph to show: the chosen one, else the one that runs or ran last. In a step with a new
 * structure that is the incomplete graph. While a training runs, the graph on the screen (`shown`)
 * is replaced only by newer ones: the graphs of a GAN, which alternate, would flicker.
 */
export function graphOf(
  one: Pick<RankView, "graphs" | "graph" | "op" | "state">,
  chosen: number | null,
  shown: number | null = null,
): GraphInfo | null {
  const { graphs, op } = one;
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
  return named ?? growing ?? graphs.findLast((each) => each.whole) ?? graphs.at(-1) ?? null;
}
