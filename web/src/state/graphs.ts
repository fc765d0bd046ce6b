import type { GraphInfo, RankView } from "../wire";

/**
 * The graph that is chosen, or runs, or ran last. In the middle of a step whose structure is new the
 * one that grows is the one that runs. While a training runs the graph on the screen (``shown``) gives
 * way to newer ones only: two that take turns, as those of a GAN, would flicker.
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
