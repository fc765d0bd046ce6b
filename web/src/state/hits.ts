import type { Hit, HitRef } from "../wire";

/** Whether `hit` is the one that `stop` refers to. */
export function isSameHit(hit: Hit, stop: HitRef): boolean {
  return (
    hit.verdict === "hit" &&
    hit.watchpoint === stop.watchpoint &&
    hit.condition === stop.condition &&
    hit.step === stop.step &&
    hit.op === stop.op &&
    hit.io === stop.io &&
    hit.slot === stop.slot
  );
}
