import { effect } from "@preact/signals";
import { follow } from "./preferences";
import { place, rank, run, selectOp } from "./store";

/**
 * Selects the op at which training pauses, when the reader wants that. Only what happens while the
 * page looks counts: a reload, or a change of run or rank, leaves the selection alone.
 */
export function followPauses(): void {
  let subject = "";
  let before = "";
  effect(() => {
    const [currentRun, currentRank] = [run.value, rank.value];
    if (currentRun === null || currentRank === null) return;
    const now = `${currentRank.state} ${currentRank.step} ${currentRank.op ?? ""}`;
    const who = `${currentRun.id} ${currentRank.rank}`;
    const isNew = subject === who && before !== now;
    subject = who;
    before = now;
    if (!isNew || currentRank.state !== "paused" || currentRank.op === null || !follow.peek()) return;
    if (currentRank.reason === "op" || currentRank.reason === "hit" || currentRank.reason === "breakpoint") {
      if (place.peek().op !== currentRank.op) selectOp(currentRank.op);
    }
  });
}
