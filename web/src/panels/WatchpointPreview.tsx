import type { JSX } from "preact";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { useResource } from "../load/resource";
import { lastPart } from "../text/names";
import { grouped } from "../text/numbers";
import { targetWords } from "../text/conditions";
import { rank, run } from "../state/store";
import type { Draft } from "./dialogs";

/** What the watchpoint would have hit in the last step of which statistics were recorded. */
export function WatchpointPreview({ draft }: { readonly draft: Draft }): JSX.Element | null {
  const current = run.value;
  const number = rank.value?.rank ?? 0;
  const catalogue = useConditions().data;
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
    <p class="preview" role="status">
      {data.judged + data.undecided === 0 ? (
        `Nothing in step ${data.step} matches.`
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
