import type { JSX } from "preact";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { useResource } from "../load/resource";
import { lastPart } from "../text/names";
import { grouped } from "../text/numbers";
import { conditionWords, patternWords, targetWords } from "../text/conditions";
import { rank, run } from "../state/store";
import type { Catalogue } from "../wire";
import type { Draft } from "./dialogs";

/**
 * The watchpoint as a sentence, and what it would have hit in the last step of which statistics
 * were recorded.
 */
export function WatchpointPreview({ draft }: { readonly draft: Draft }): JSX.Element | null {
  const catalogue = useConditions().data;
  if (catalogue === null) return null;
  const words = draft.conditions.map((each) => conditionWords(each, catalogue));
  const places =
    draft.ops.length === 0
      ? targetWords(draft.conditions, catalogue)
      : draft.ops.map(patternWords).join(", ");
  return (
    <div class="preview">
      <p>
        {words.join(draft.join === "all" ? " and " : " or ")} <span class="quiet">· {places}</span>
      </p>
      <WouldHaveHit draft={draft} catalogue={catalogue} />
    </div>
  );
}

function WouldHaveHit({
  draft,
  catalogue,
}: {
  readonly draft: Draft;
  readonly catalogue: Catalogue;
}): JSX.Element | null {
  const current = run.value;
  const number = rank.value?.rank ?? 0;
  const isLive = current?.kind === "live" && rank.value?.graph != null;
  const key = JSON.stringify([draft.conditions, draft.ops, draft.join]);
  const { data, error } = useResource(
    isLive ? { run: current.id, key } : null,
    "",
    ({ run: id }, signal) => delayed(() => api.preview(id, number, draft), signal),
  );
  if (error !== null || data?.step == null) return null;
  const what = targetWords(draft.conditions, catalogue).replace("all ", "");
  return (
    <p role="status">
      {data.judged + data.undecided === 0 ? (
        `Nothing in step ${data.step} matches.`
      ) : data.judged === 0 ? (
        `Not known of step ${data.step}: ${grouped(data.undecided)} ${what} need values that were not kept.`
      ) : (
        <>
          Would have hit <b>{grouped(data.hits)}</b> of {grouped(data.judged)} {what} in step{" "}
          {data.step}
          {data.hits > 0 && `: ${data.examples.map(lastPart).join(", ")}`}
          {data.hits > data.examples.length && ", …"}
          {data.undecided > 0 && `; ${grouped(data.undecided)} more need the values`}.
        </>
      )}
    </p>
  );
}

const TYPING_MILLISECONDS = 300;

/** Does the work when the user has stopped typing. */
async function delayed<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  await new Promise((resolve) => setTimeout(resolve, TYPING_MILLISECONDS));
  if (signal.aborted) throw new DOMException("another request follows", "AbortError");
  return work();
}
