import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Catalogue } from "../wire";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { clearTicks, go, rank, run } from "../state/store";
import { messageOf, toast } from "../state/toasts";
import { CountField } from "../parts/CountField";
import { Dialog } from "../parts/Dialog";
import { closeDialog, type Draft, openDialog } from "./dialogs";
import { ConditionFields, EXPRESSION, type ConditionFieldsProps } from "./ConditionFields";
import { WatchedOps } from "./WatchedOps";
import { WatchpointPreview } from "./WatchpointPreview";
import { checkNow } from "./Watchpoints";

interface WatchpointDialogProps {
  readonly id: number | null;
  readonly draft: Draft;
  /**
   * Whether all tensors are watched that the condition applies to; the draft's ops are ignored
   * then.
   */
  readonly isForAll: boolean;
}

/** Creates or changes a watchpoint; the server's error message is shown beside the button. */
export function WatchpointDialog({ id, draft, isForAll }: WatchpointDialogProps): JSX.Element {
  const catalogue = useConditions();
  const problem = useSignal<string | null>(null);
  const close = (): void => {
    closeDialog();
  };
  const change = (part: Partial<Draft>): void => {
    openDialog({ kind: "watchpoint", id, draft: { ...draft, ...part }, isForAll });
    problem.value = null;
  };
  const choose = (forAll: boolean): void => {
    openDialog({ kind: "watchpoint", id, draft, isForAll: forAll });
  };
  const save = async (): Promise<void> => {
    const current = run.value;
    if (current === null) return;
    const name = draft.name.trim();
    const whole: Draft = {
      ...draft,
      name: name === "" ? suggestedName(draft, catalogue.data) : name,
      ops: isForAll ? [] : draft.ops,
    };
    try {
      const made =
        id === null
          ? await api.addWatchpoint(current.id, whole)
          : await api.editWatchpoint(current.id, id, whole);
      if (made.warning !== "") toast(`${made.name}: ${made.warning}`);
      else if (made.enabled && current.kind === "live" && rank.value?.state === "paused") {
        toast("Watchpoint added", "note", "", {
          text: "check now",
          act: () => void checkNow(current.id),
        });
      }
    } catch (error) {
      problem.value = messageOf(error);
      return;
    }
    if (id === null && !isForAll) clearTicks();
    go({ side: "watchpoints" });
    close();
  };
  const title = id === null ? "New watchpoint" : `Watchpoint ${id}`;
  return (
    <Dialog title={title} onClose={close} wide>
      {catalogue.error !== null && <p class="error-line">{catalogue.error}</p>}
      <form
        class="watchpoint-form"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <label class="field">
          <span>Name</span>
          <input
            type="text"
            data-first
            value={draft.name}
            placeholder={suggestedName(draft, catalogue.data)}
            onInput={(event) => change({ name: event.currentTarget.value })}
          />
        </label>
        {catalogue.data !== null && (
          <ConditionFields catalogue={catalogue.data} draft={draft} onChange={change} />
        )}
        <WatchedOps isForAll={isForAll} draft={draft} onChoose={choose} onChange={change} />
        <Pausing draft={draft} onChange={change} />
        <footer>
          <WatchpointPreview draft={isForAll ? { ...draft, ops: [] } : draft} />
          {problem.value !== null && (
            <p class="error-line" role="alert">
              {problem.value}
            </p>
          )}
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={catalogue.data === null}>
            {id === null ? "Add watchpoint" : "Save"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function suggestedName(draft: Draft, catalogue: Catalogue | null): string {
  const titles = draft.conditions.map((condition) => {
    if (condition.id === EXPRESSION)
      return condition.expression.trim() === "" ? "Expression" : condition.expression.trim();
    return catalogue?.conditions.find((each) => each.id === condition.id)?.title ?? condition.id;
  });
  return titles.join(draft.join === "all" ? " and " : " or ").slice(0, 80);
}

const STOPS: readonly (readonly [string, number])[] = [
  ["every hit", 1],
  ["every N-th hit", 10],
  ["never, only list the hits", 0],
];

function stopOf(count: number): string {
  return STOPS[count === 1 ? 0 : count === 0 ? 2 : 1]?.[0] ?? "";
}

function Pausing({
  draft,
  onChange,
}: Pick<ConditionFieldsProps, "draft" | "onChange">): JSX.Element {
  const ranks = run.value?.ranks ?? [];
  const toggleRank = (rank: number): void => {
    const now = draft.ranks.length === 0 ? ranks.map((each) => each.rank) : draft.ranks;
    const next = now.includes(rank)
      ? now.filter((each) => each !== rank)
      : [...now, rank].sort((a, b) => a - b);
    onChange({ ranks: next.length === ranks.length ? [] : next });
  };
  return (
    <fieldset>
      <legend>Stop</legend>
      <div class="field stop-choice" role="radiogroup" aria-label="Stop">
        {STOPS.map(([text, count]) => (
          <label key={text} class="check">
            <input
              type="radio"
              name="stop"
              checked={stopOf(draft.break_after) === text}
              onChange={() => onChange({ break_after: count })}
            />
            {text}
          </label>
        ))}
        {draft.break_after > 1 && (
          <CountField
            label="N"
            class="short"
            value={draft.break_after}
            least={2}
            onChange={(count) => onChange({ break_after: count })}
          />
        )}
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={draft.enabled}
          onChange={(event) => onChange({ enabled: event.currentTarget.checked })}
        />{" "}
        enabled
      </label>
      {ranks.length > 1 && (
        <div class="ranks">
          {ranks.map((each) => (
            <label key={each.rank} class="check">
              <input
                type="checkbox"
                checked={draft.ranks.length === 0 || draft.ranks.includes(each.rank)}
                onChange={() => toggleRank(each.rank)}
              />{" "}
              rank {each.rank}
            </label>
          ))}
        </div>
      )}
    </fieldset>
  );
}
