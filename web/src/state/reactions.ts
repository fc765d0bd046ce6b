import { effect } from "@preact/signals";
import type { RankView } from "../wire";
import { runTitle } from "../text/names";
import { follow } from "./preferences";
import { toast } from "./toasts";
import {
  areRunsLoaded,
  chooseRank,
  chooseRun,
  go,
  place,
  rank,
  run,
  runs,
  selectOp,
} from "./store";

/**
 * When a rank pauses at a hit or a breakpoint while another rank is on the screen: goes there, if
 * the page follows the training and the rank on the screen has no such pause; else shows a toast.
 */
export function notifyAboutOtherRanks(): void {
  let subject = "";
  let before = new Map<number, string>();
  effect(() => {
    const [current, shown] = [run.value, rank.value?.rank];
    if (current === null) return;
    const now = new Map(current.ranks.map((each) => [each.rank, stopOf(each)]));
    const isSame = subject === current.id;
    for (const each of current.ranks) {
      const stop = now.get(each.rank) ?? "";
      if (!isSame || each.rank === shown || stop === "" || before.get(each.rank) === stop) continue;
      if (follow.peek() && stopOf(rank.value ?? each) === "") {
        queueMicrotask(() => showStop(each));
        continue;
      }
      toast(
        `rank ${each.rank}: ${each.message === "" ? "paused at a hit" : each.message}`,
        "note",
        "",
        { text: "show", act: () => showStop(each) },
      );
    }
    subject = current.id;
    before = now;
  });
}

function showStop({ rank: number, op, hit }: RankView): void {
  chooseRank(number);
  go({ side: "hits" });
  const wanted = op ?? hit?.op ?? null;
  if (wanted !== null) selectOp(wanted);
}

/** Says that another training connected, while the page keeps showing the run that it shows. */
export function announceRuns(): void {
  let known: ReadonlySet<string> | null = null;
  effect(() => {
    const ids = new Set(runs.value.map((each) => each.id));
    if (!areRunsLoaded.value) return;
    for (const each of runs.value) {
      if (known === null || known.has(each.id) || each.id === run.value?.id) continue;
      toast(`${runTitle(runs.value, each.id)} connected`, "note", "", {
        text: "show",
        act: () => chooseRun(each.id),
      });
    }
    known = ids;
  });
}

/** Opens a dump at the op that its headline names, unless the user has selected something. */
export function openAtHeadline(): void {
  let opened = "";
  effect(() => {
    const current = run.value;
    const found = current?.headline ?? null;
    if (current === null || found === null || current.kind !== "dump") return;
    if (found.op === "" || opened === current.id || found.kind === "divergence") return;
    opened = current.id;
    if (place.peek().op !== "") return;
    queueMicrotask(() => selectOp(found.op, { step: found.step, side: "hits" }));
  });
}

/** Where a rank paused at a hit or a breakpoint; else empty. */
function stopOf(each: RankView): string {
  const isOwn = each.state === "paused" && (each.reason === "hit" || each.reason === "breakpoint");
  return isOwn ? `${each.step} ${each.op ?? ""} ${each.message}` : "";
}

/** Shows the state of the training in the title of the browser tab. */
export function updatePageTitle(): void {
  effect(() => {
    const [currentRun, currentRank] = [run.value, rank.value];
    if (currentRun === null || currentRank === null) {
      document.title = "Sonde";
      return;
    }
    const name = runTitle([currentRun], currentRun.id);
    const state =
      currentRun.kind === "dump" ? "" : `${currentRank.state}, step ${currentRank.step} · `;
    const told = currentRun.headline === null ? state : `${currentRun.headline.title} · `;
    document.title = `${told}${name} · Sonde`;
  });
}

/** Shows new notices of the server and the training as toasts. */
export function showNotices(): void {
  let subject = "";
  let shown = 0;
  effect(() => {
    const current = run.value;
    if (current === null) return;
    const { notices } = current;
    if (subject === current.id) for (const notice of notices.slice(shown)) toast(notice);
    subject = current.id;
    shown = notices.length;
  });
}

/**
 * Selects the op at which the training pauses, if the user has enabled that. A reload, or a change
 * of run or rank, does not change the selection.
 */
export function followPauses(): void {
  let subject = "";
  let before = "";
  effect(() => {
    const [currentRun, currentRank] = [run.value, rank.value];
    if (currentRun === null || currentRank === null) return;
    const now = `${currentRank.state} ${currentRank.step} ${currentRank.op ?? ""}`;
    const who = `${currentRun.id} ${currentRank.rank}`;
    const isNew = subject === who ? before !== now : place.peek().op === "";
    subject = who;
    before = now;
    if (!isNew || currentRank.state !== "paused") return;
    if (currentRank.reason === "hit" && place.peek().side !== "hits")
      queueMicrotask(() => go({ side: "hits" }));
    if (!follow.peek()) return;
    // Show the latest step instead of the step that was selected before.
    if (place.peek().step !== null) go({ step: null });
    if (currentRank.op === null) {
      // Weights and gradients are checked between ops; the hit names the one that was hit.
      const { hit } = currentRank;
      if (hit !== null && hit.op !== place.peek().op)
        selectOp(hit.op, { io: hit.io, slot: hit.slot });
      return;
    }
    if (
      currentRank.reason === "op" ||
      currentRank.reason === "hit" ||
      currentRank.reason === "breakpoint"
    ) {
      if (place.peek().op !== currentRank.op) selectOp(currentRank.op);
    }
  });
}
