import type { LevelNode } from "../wire";

/** What surrounds the network in a training step; the view of the model has it in a column. */
const SIDE_PARTS: ReadonlySet<LevelNode["part"]> = new Set([
  "data",
  "loss",
  "gradients",
  "backward",
  "recomputed",
  "optimizer",
]);

export function isSide(node: LevelNode): boolean {
  return node.what !== "outside" && SIDE_PARTS.has(node.part);
}
