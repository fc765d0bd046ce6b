import type { ComparisonView, PairedTensors, PairView } from "../wire";
import { openTensor, selectOp } from "../state/store";

/** Goes to a pair: both tensors side by side, or the op in the graph of the run on the screen. */
export function openPair(
  view: ComparisonView,
  pair: PairView,
  tensors: PairedTensors | undefined = pair.tensors[0],
  where: "tensor" | "graph" = "tensor",
): void {
  const isA = view.side === "a";
  if (where === "graph" || tensors === undefined) {
    selectOp(isA ? pair.a : pair.b, {
      tab: "graph",
      step: pair.step,
      rank: pair.rank,
      graph: null,
    });
    return;
  }
  const [own, other] = isA ? [tensors.a, tensors.b] : [tensors.b, tensors.a];
  const { step, rank } = pair;
  const { op, io, slot } = other;
  const against = { run: isA ? view.b : view.a, op, io, slot, step, rank };
  openTensor({ op: own.op, io: own.io, slot: own.slot, step, against });
}
