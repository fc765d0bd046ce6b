import type { JSX } from "preact";
import type { Catalogue, RunView, WatchpointSpec } from "../wire";
import { api, type RankAt } from "../load/api";
import { counted, grouped, ordinal } from "../text/numbers";
import { useConditions } from "../load/conditions";
import { useResource } from "../load/resource";
import { conditionWords, patternWords, targetWords } from "../text/conditions";
import { throttledVersion, go, rank, replaceRun, run, tickedPatterns } from "../state/store";
import { attempt, toast } from "../state/toasts";
import { Icon } from "../parts/Icon";
import { newWatchpoint, openWatchpoint, type Draft } from "./dialogs";
import { PresetButtons, StartCard } from "./Presets";

export function draftOf(spec: WatchpointSpec): Draft {
  const { id: _, ...draft } = spec;
  return draft;
}

/** The watchpoints of the run, and the actions on all of them together. */
export function Watchpoints(): JSX.Element {
  const current = run.value;
  if (current === null) return <div />;
  return (
    <div class="watchpoints">
      <div class="filters">
        <button
          type="button"
          class="small primary"
          title="New watchpoint (w)"
          onClick={() => newWatchpoint(tickedPatterns.value)}
        >
          <Icon name="plus" /> new
        </button>
        <PresetButtons run={current.id} />
        {current.watchpoints.length > 1 && (
          <button
            type="button"
            class="small"
            title="Delete all watchpoints; you can undo this"
            onClick={() => void removeAll(current)}
          >
            clear
          </button>
        )}
        <span class="spacer" />
        <a
          class="button small"
          href={api.watchpointFileAddress(current.id)}
          download="watchpoints.json"
        >
          save
        </a>
        <label class="button small" title="Replace these watchpoints with those of a file">
          load
          <input
            type="file"
            accept=".json,application/json"
            class="hidden-file"
            aria-label="Load watchpoints from a file"
            onChange={(event) => void loadFile(current.id, event.currentTarget)}
          />
        </label>
      </div>
      {current.watchpoints.length > 0 &&
        (current.kind === "dump" || rank.value?.state === "paused") && (
          <Recheck current={current} />
        )}
      <StartCard current={current} />
      <List current={current} />
    </div>
  );
}

const MOST_COUNTED = 20_000;

function List({ current }: { current: RunView }): JSX.Element {
  const number = rank.value?.rank ?? 0;
  const ids = current.watchpoints.map((each) => each.id);
  // Counting very many hits takes long, and the exact number does not matter then.
  const isCounted = ids.length > 0 && (rank.value?.hits ?? 0) <= MOST_COUNTED;
  const request = isCounted ? { run: current.id, rank: number } : null;
  const version = `${throttledVersion("hits")} ${ids.join(" ")}`;
  const { data } = useResource(request, version, (at, signal) => countHits(at, ids, signal));
  return (
    <ul aria-label="Watchpoints">
      {current.watchpoints.map((each) => (
        <WatchpointRow
          key={each.id}
          run={current.id}
          spec={each}
          hits={data?.get(each.id) ?? 0}
          warning={current.warnings.find(({ id }) => id === each.id)?.text ?? ""}
        />
      ))}
    </ul>
  );
}

/** The number of hits of every watchpoint in one rank. */
async function countHits(
  at: RankAt,
  watchpoints: readonly number[],
  signal: AbortSignal,
): Promise<ReadonlyMap<number, number>> {
  const counts = watchpoints.map(async (watchpoint) => {
    const filter = { watchpoint, graph: null, step: null, op: "", verdict: "hit" };
    const found = await api.hits({ ...at, ...filter, offset: 0, limit: 1 }, signal);
    return [watchpoint, found.total] as const;
  });
  return new Map(await Promise.all(counts));
}

async function remove(id: string, spec: WatchpointSpec): Promise<void> {
  const isGone = await attempt(() => api.removeWatchpoint(id, spec.id));
  if (isGone)
    toast(`${spec.name} deleted`, "note", "", {
      text: "undo",
      act: () => void attempt(() => api.addWatchpoint(id, draftOf(spec))),
    });
}

async function removeAll(current: RunView): Promise<void> {
  const drafts = current.watchpoints.map(draftOf);
  const isGone = await attempt(() =>
    api.loadWatchpointFile(current.id, { watchpoints: [], version: 1 }),
  );
  const restore = (): void =>
    void attempt(() => api.loadWatchpointFile(current.id, { watchpoints: drafts, version: 1 }));
  if (isGone)
    toast(`${grouped(drafts.length)} watchpoints deleted`, "note", "", {
      text: "undo",
      act: restore,
    });
}

async function loadFile(id: string, input: HTMLInputElement): Promise<void> {
  const file = input.files?.[0];
  input.value = "";
  if (file === undefined) return;
  await attempt(async () => {
    const text = await file.text();
    let content: unknown;
    try {
      content = JSON.parse(text);
    } catch {
      throw new Error(`${file.name} is not a watchpoint file: it is not JSON`);
    }
    const before = (run.value?.watchpoints ?? []).map(draftOf);
    await api.loadWatchpointFile(id, content);
    const restore = (): void =>
      void attempt(() => api.loadWatchpointFile(id, { watchpoints: before, version: 1 }));
    toast(
      `Loaded the watchpoints of ${file.name}`,
      "note",
      "",
      before.length === 0 ? null : { text: "undo", act: restore },
    );
  });
}

const CHECKS = {
  dump: {
    text: "check all steps",
    title: "Check every tensor of the dump against the watchpoints",
  },
  live: {
    text: "check now",
    title:
      "Check weights, gradients, the current op and all kept values against the watchpoints now",
  },
} as const;

function Recheck({ current }: { current: RunView }): JSX.Element {
  const progress = current.recheck;
  const { text, title } = CHECKS[current.kind];
  return (
    <div class="recheck">
      <button
        type="button"
        class="small"
        title={title}
        disabled={progress?.running === true}
        onClick={() => void checkNow(current.id)}
      >
        {text}
      </button>
      {progress !== null && (
        <>
          {current.kind === "dump" && (
            <progress
              max={Math.max(progress.total, 1)}
              value={progress.done}
              aria-label="Checked"
            />
          )}
          {current.kind === "dump" && progress.running && (
            <button
              type="button"
              class="small"
              onClick={() => void attempt(() => api.stopCheck(current.id))}
            >
              Stop
            </button>
          )}
          <span class="quiet" role="status">
            {grouped(progress.done)} of {grouped(progress.total)}
            {current.kind === "live" && " checked"},{" "}
            {counted(progress.hits, current.kind === "live" ? "new hit" : "hit")}
            {progress.seconds_left !== null && `, about ${timeLeft(progress.seconds_left)} left`}
          </span>
          {progress.notes.map((note) => (
            <p key={note} class="quiet">
              {note}
            </p>
          ))}
        </>
      )}
    </div>
  );
}

/** A duration that is an estimate. */
function timeLeft(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

/** Checks the watchpoints now, against all available tensors. */
export async function checkNow(id: string): Promise<void> {
  await attempt(async () => replaceRun(await api.recheck(id)));
}

export function conditionText(spec: WatchpointSpec): string {
  return spec.conditions
    .map((condition) => {
      if (condition.expression !== "") return condition.expression;
      const values = Object.entries(condition.parameters).map(
        ([name, value]) => `${name} ${value}`,
      );
      return values.length === 0 ? condition.id : `${condition.id} (${values.join(", ")})`;
    })
    .join(spec.join === "all" ? " and " : " or ");
}

/** The ops a watchpoint covers, in a few words. */
function scopeText({ ops, conditions }: WatchpointSpec, catalogue: Catalogue | null): string {
  const out = ops.filter((each) => each.startsWith("!"));
  const [first, ...others] = ops.filter((each) => !each.startsWith("!"));
  const named =
    first === undefined
      ? targetWords(conditions, catalogue)
      : others.length > 0
        ? `${grouped(others.length + 1)} ops, scopes or patterns`
        : patternWords(first);
  if (out.length === 0) return named;
  return `${named} except ${out.length === 1 ? (out[0] ?? "").slice(1) : `${grouped(out.length)} others`}`;
}

function WatchpointRow({
  run: id,
  spec,
  hits,
  warning,
}: {
  run: string;
  spec: WatchpointSpec;
  hits: number;
  warning: string;
}): JSX.Element {
  const catalogue = useConditions().data;
  const words = spec.conditions
    .map((each) => conditionWords(each, catalogue))
    .join(spec.join === "all" ? " and " : " or ");
  const save = (change: Partial<Draft>): void => {
    void attempt(() => api.editWatchpoint(id, spec.id, { ...draftOf(spec), ...change }));
  };
  return (
    <li class={spec.enabled ? "watchpoint" : "watchpoint off"}>
      <label class="tick-target">
        <input
          type="checkbox"
          aria-label={`Enable ${spec.name}`}
          checked={spec.enabled}
          onChange={(event) => save({ enabled: event.currentTarget.checked })}
        />
      </label>
      <div class="two-lines">
        <button
          type="button"
          class="link name"
          title="Edit"
          onClick={() => openWatchpoint(spec.id, draftOf(spec))}
        >
          {spec.name === "" ? `watchpoint ${spec.id}` : spec.name}
        </button>
        <span
          class="under"
          title={[
            conditionText(spec),
            ...spec.ops,
            ...(spec.ranks.length > 0 ? [`ranks ${spec.ranks.join(", ")}`] : []),
          ].join("\n")}
        >
          {words}
          <span class="scope-text"> · {scopeText(spec, catalogue)}</span>
          {spec.ranks.length > 0 && ` · ranks ${spec.ranks.join(", ")}`}
          {spec.break_after === 0
            ? " · never pauses"
            : spec.break_after > 1
              ? ` · pauses at every ${ordinal(spec.break_after)} hit`
              : ""}
        </span>
        {warning !== "" && (
          <span class="warning" role="status">
            {warning}
          </span>
        )}
      </div>
      {hits > 0 && <span class="hit-count">{grouped(hits)}</span>}
      <button
        type="button"
        class="icon"
        aria-label={`Hits of ${spec.name}`}
        title="Show its hits"
        onClick={() => go({ side: "hits", hitWatchpoint: spec.id })}
      >
        <Icon name="eye" />
      </button>
      <button
        type="button"
        class="icon"
        aria-label={`Edit ${spec.name}`}
        title="Edit"
        onClick={() => openWatchpoint(spec.id, draftOf(spec))}
      >
        <Icon name="edit" />
      </button>
      <button
        type="button"
        class="icon"
        aria-label={`Delete ${spec.name}`}
        title="Delete"
        onClick={() => void remove(id, spec)}
      >
        <Icon name="bin" />
      </button>
    </li>
  );
}
