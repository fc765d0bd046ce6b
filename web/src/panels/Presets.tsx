import type { JSX } from "preact";
import type { PresetInfo, RankView, RunView } from "../wire";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { command, isOver, rank, replaceRun, run } from "../state/store";
import { attempt } from "../state/toasts";
import { Empty } from "../parts/Empty";
import { openDialog } from "./dialogs";

/** What `sonde debug` watches for at the start. */
const FIRST_PRESETS: readonly string[] = ["nan", "dead"];

/** The presets, all of whose watchpoints the run has. */
function watchedPresets(current: RunView, presets: readonly PresetInfo[]): readonly PresetInfo[] {
  const names = new Set(
    current.watchpoints.filter((each) => each.enabled).map((each) => each.name),
  );
  return presets.filter((each) => each.names.every((name) => names.has(name)));
}

/** Adds the watchpoints of several presets. */
export async function watchFor(id: string, presets: readonly string[]): Promise<boolean> {
  return attempt(async () => {
    for (const preset of presets) await api.recommend(id, preset);
  });
}

/** Whether the training would run without being watched. */
export function isUnwatched(current: RunView): boolean {
  return !current.watchpoints.some((each) => each.enabled);
}

/** A button for each preset. */
export function PresetButtons({ run: id }: { readonly run: string }): JSX.Element {
  const presets = useConditions().data?.presets ?? [];
  return (
    <>
      {presets.map((each) => (
        <button
          key={each.id}
          type="button"
          class="small"
          title={`Watch for ${each.finds}; a step takes about ${each.cost} times as long`}
          onClick={() => void watchFor(id, [each.id])}
        >
          {each.id === "recommended" ? "recommended" : each.title}
        </button>
      ))}
    </>
  );
}

/** How much longer steps take, as measured, or as it usually is. */
function costText({ seconds, bare_seconds: bare }: RankView, usual: string): string {
  if (seconds === null || bare === null || bare <= 0) return `usually ${usual} × a step`;
  return `measured: ${(seconds / bare).toFixed(2)} × a step`;
}

/** Says what is watched before the first hit, and what that costs; offers presets. */
export function StartCard({ current }: { readonly current: RunView }): JSX.Element | null {
  const presets = useConditions().data?.presets ?? [];
  const watched = watchedPresets(current, presets).filter((each) => each.id !== "recommended");
  const one = rank.value;
  if (isUnwatched(current)) {
    return (
      <Empty title="Nothing is watched">
        <p>
          {isOver.value
            ? "The training has ended."
            : "The training would run to its end, whatever its values are. A watchpoint pauses it when a tensor meets a condition."}
        </p>
        {!isOver.value && (
          <p class="actions">
            <button
              type="button"
              class="primary"
              onClick={() => void watchFor(current.id, FIRST_PRESETS)}
            >
              Watch for NaN, Inf and dead layers
            </button>
          </p>
        )}
        <p>To watch only some ops, tick them in the list, then click “new”.</p>
      </Empty>
    );
  }
  if (watched.length === 0 || one === null || current.kind !== "live" || isOver.value) return null;
  const usual = watched.some((each) => each.id === "nan" || each.id === "explosion")
    ? (presets.find((each) => each.id === (watched.length > 1 ? "explosion" : "nan"))?.cost ?? "")
    : (watched[0]?.cost ?? "");
  return (
    <p class="start-card" role="status">
      Watching for {watched.map((each) => each.finds).join(", ")} ({costText(one, usual)}).{" "}
      <button
        type="button"
        class="small"
        onClick={() => void stopWatching(current, watched)}
        title="Delete these watchpoints"
      >
        stop watching
      </button>
    </p>
  );
}

async function stopWatching(current: RunView, presets: readonly PresetInfo[]): Promise<void> {
  const names = new Set(presets.flatMap((each) => each.names));
  await attempt(async () => {
    for (const each of current.watchpoints)
      if (names.has(each.name)) await api.removeWatchpoint(current.id, each.id);
  });
}

/** Whether the user has been asked about a run that would continue without being watched. */
const asked = new Set<string>();

/** Whether to ask before the training continues: nothing is watched. Asked once for each run. */
function needsQuestion(): boolean {
  const current = run.value;
  if (current?.kind !== "live" || !isUnwatched(current)) return false;
  return !asked.has(current.id);
}

/**
 * Lets the training continue; asks before if nothing is watched. The server is asked first: it may
 * know of a watchpoint that was added a moment ago and that the page does not show yet.
 */
export function continueTraining(): void {
  if (needsQuestion()) void askIfUnwatched(run.value?.id ?? "");
  else command({ command: "continue" });
}

async function askIfUnwatched(id: string): Promise<void> {
  const isKnown = await attempt(async () => replaceRun(await api.run(id)));
  if (!isKnown || run.value?.id !== id) return;
  if (needsQuestion()) openDialog({ kind: "unwatched" });
  else command({ command: "continue" });
}

export function noteAsked(id: string): void {
  asked.add(id);
}

export { FIRST_PRESETS };
