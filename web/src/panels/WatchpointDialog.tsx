import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Catalogue, ConditionInfo, ConditionSpec, ParameterInfo } from "../wire";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { useResource } from "../load/resource";
import { parameterTitle, targetWords } from "../text/conditions";
import { lastPart } from "../text/names";
import { grouped } from "../text/numbers";
import { clearTicks, go, rank, run, tickedPatterns } from "../state/store";
import { messageOf, toast } from "../state/toasts";
import { CountField } from "../parts/CountField";
import { Dialog } from "../parts/Dialog";
import { Icon } from "../parts/Icon";
import { TextField } from "../parts/TextField";
import { closeDialog, type Draft, openDialog } from "./dialogs";
import { checkNow } from "./Watchpoints";

export const EXPRESSION = "expression";

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
          <Conditions catalogue={catalogue.data} draft={draft} onChange={change} />
        )}
        <OpsField isForAll={isForAll} draft={draft} onChoose={choose} onChange={change} />
        <Pausing draft={draft} onChange={change} />
        <PreviewLine draft={isForAll ? { ...draft, ops: [] } : draft} />
        <footer>
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

/** What the watchpoint would have hit in the last step of which statistics were recorded. */
function PreviewLine({ draft }: { readonly draft: Draft }): JSX.Element | null {
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

function suggestedName(draft: Draft, catalogue: Catalogue | null): string {
  const titles = draft.conditions.map((condition) => {
    if (condition.id === EXPRESSION)
      return condition.expression.trim() === "" ? "Expression" : condition.expression.trim();
    return catalogue?.conditions.find((each) => each.id === condition.id)?.title ?? condition.id;
  });
  return titles.join(draft.join === "all" ? " and " : " or ").slice(0, 80);
}

interface ConditionsProps {
  readonly catalogue: Catalogue;
  readonly draft: Draft;
  readonly onChange: (part: Partial<Draft>) => void;
}

function Conditions({ catalogue, draft, onChange }: ConditionsProps): JSX.Element {
  const put = (at: number, condition: ConditionSpec): void =>
    onChange({
      conditions: draft.conditions.map((each, place) => (place === at ? condition : each)),
    });
  return (
    <fieldset>
      <legend>Condition</legend>
      {draft.conditions.map((condition, at) => (
        <div key={at} class="condition">
          {at > 0 && <JoinChoice draft={draft} onChange={onChange} />}
          <ConditionField
            catalogue={catalogue}
            condition={condition}
            onChange={(changed) => put(at, changed)}
            onRemove={
              draft.conditions.length > 1
                ? () =>
                    onChange({ conditions: draft.conditions.filter((_, place) => place !== at) })
                : null
            }
          />
        </div>
      ))}
      <button
        type="button"
        class="small"
        onClick={() =>
          onChange({
            conditions: [
              ...draft.conditions,
              { id: "tensor_all_zero", parameters: {}, expression: "" },
            ],
          })
        }
      >
        <Icon name="plus" /> add a condition
      </button>
    </fieldset>
  );
}

function JoinChoice({ draft, onChange }: Pick<ConditionsProps, "draft" | "onChange">): JSX.Element {
  return (
    <div class="segments join" role="radiogroup" aria-label="How to combine the conditions">
      {(["any", "all"] as const).map((join) => (
        <button
          key={join}
          type="button"
          role="radio"
          aria-checked={draft.join === join}
          onClick={() => onChange({ join })}
        >
          {join === "any" ? "or" : "and"}
        </button>
      ))}
    </div>
  );
}

const TARGETS: readonly (readonly [ConditionInfo["target"], string])[] = [
  ["tensor", "Any tensor"],
  ["weight", "Weights"],
  ["gradient", "Gradients"],
  ["activation", "Activations"],
];

interface ConditionFieldProps {
  readonly catalogue: Catalogue;
  readonly condition: ConditionSpec;
  readonly onChange: (condition: ConditionSpec) => void;
  readonly onRemove: (() => void) | null;
}

function ConditionField({
  catalogue,
  condition,
  onChange,
  onRemove,
}: ConditionFieldProps): JSX.Element {
  const listed = catalogue.conditions.filter((each) => each.id !== EXPRESSION);
  const info = catalogue.conditions.find((each) => each.id === condition.id);
  return (
    <>
      <div class="condition-head">
        <select
          aria-label="Condition"
          value={condition.id}
          onChange={(event) =>
            onChange({ id: event.currentTarget.value, parameters: {}, expression: "" })
          }
        >
          {TARGETS.map(([target, title]) => (
            <optgroup key={target} label={title}>
              {listed
                .filter((each) => each.target === target)
                .map((each) => (
                  <option key={each.id} value={each.id}>
                    {each.title} ({each.abbreviation})
                  </option>
                ))}
            </optgroup>
          ))}
          <optgroup label="Custom">
            <option value={EXPRESSION}>Expression</option>
          </optgroup>
        </select>
        {onRemove !== null && (
          <button type="button" class="icon" aria-label="Remove this condition" onClick={onRemove}>
            <Icon name="bin" />
          </button>
        )}
      </div>
      {condition.id === EXPRESSION ? (
        <ExpressionField
          names={catalogue.expression_names}
          condition={condition}
          onChange={onChange}
        />
      ) : (
        info !== undefined && (
          <>
            <p class="quiet">
              {info.description} {info.advice}
            </p>
            <p class="formula">
              <code>{info.formula}</code> <span class="quiet">{info.id}</span>
            </p>
            {info.parameters.map((parameter) => (
              <ParameterField
                key={parameter.name}
                parameter={parameter}
                condition={condition}
                onChange={onChange}
              />
            ))}
          </>
        )
      )}
    </>
  );
}

interface ParameterFieldProps {
  readonly parameter: ParameterInfo;
  readonly condition: ConditionSpec;
  readonly onChange: (condition: ConditionSpec) => void;
}

function ParameterField({ parameter, condition, onChange }: ParameterFieldProps): JSX.Element {
  const value = condition.parameters[parameter.name];
  const wrong = useSignal<string | null>(null);
  const put = (text: string): void => {
    const isNumber = Number.isFinite(Number(text));
    wrong.value = isNumber ? null : text;
    if (!isNumber) return;
    const { [parameter.name]: _, ...others } = condition.parameters;
    const parameters = text === "" ? others : { ...others, [parameter.name]: Number(text) };
    onChange({ ...condition, parameters });
  };
  return (
    <div class="field parameter">
      <span class="parameter-name" title={parameter.name}>
        {parameterTitle(parameter.name)}
      </span>
      <TextField
        label={parameterTitle(parameter.name)}
        class={wrong.value === null ? "" : "wrong"}
        numeric
        isWrong={wrong.value !== null}
        value={wrong.value ?? (value === undefined ? "" : String(value))}
        placeholder={parameter.default === null ? "not set" : String(parameter.default)}
        onDone={put}
      />
      {wrong.value === null ? (
        <span class="quiet">{parameter.description}</span>
      ) : (
        <span class="bad-text" role="alert">
          “{wrong.value}” is not a number, such as 0.5 or 1e-6
        </span>
      )}
    </div>
  );
}

interface ExpressionFieldProps {
  readonly names: readonly string[];
  readonly condition: ConditionSpec;
  readonly onChange: (condition: ConditionSpec) => void;
}

function ExpressionField({ names, condition, onChange }: ExpressionFieldProps): JSX.Element {
  const put = (expression: string): void => onChange({ ...condition, parameters: {}, expression });
  return (
    <div class="expression">
      <textarea
        aria-label="Expression"
        rows={2}
        spellcheck={false}
        placeholder="nan_count > 0 or abs_max > 10 * prev.abs_max"
        value={condition.expression}
        onInput={(event) => put(event.currentTarget.value)}
      />
      <p class="quiet">
        Compare statistics with &lt; &lt;= &gt; &gt;= == !=, combine them with and, or, not, and
        compute with + − * /. <code>prev.max</code> is the max of the previous step, and so on.
      </p>
      <p class="names">
        {names
          .filter((name) => !name.startsWith("prev."))
          .map((name) => (
            <button
              key={name}
              type="button"
              class="chip"
              onClick={() =>
                put(
                  `${condition.expression}${condition.expression === "" || condition.expression.endsWith(" ") ? "" : " "}${name}`,
                )
              }
            >
              {name}
            </button>
          ))}
      </p>
    </div>
  );
}

interface OpsFieldProps {
  readonly isForAll: boolean;
  readonly draft: Draft;
  readonly onChoose: (isForAll: boolean) => void;
  readonly onChange: (part: Partial<Draft>) => void;
}

function OpsField({ isForAll, draft, onChoose, onChange }: OpsFieldProps): JSX.Element {
  const more = tickedPatterns.value.filter((each) => !draft.ops.includes(each));
  return (
    <fieldset>
      <legend>Where</legend>
      <label class="check">
        <input type="radio" name="ops" checked={isForAll} onChange={() => onChoose(true)} />
        all tensors the condition applies to
      </label>
      <label class="check">
        <input type="radio" name="ops" checked={!isForAll} onChange={() => onChoose(false)} />
        only these: full names, scopes (encoder/), modules (fc1), classes (Linear), operators
        (Conv2D, relu) or name-regex(...); ! before a line excludes it
      </label>
      {!isForAll && <OpsText ops={draft.ops} onChange={onChange} />}
      {!isForAll && more.length > 0 && (
        <button
          type="button"
          class="small"
          onClick={() => onChange({ ops: [...draft.ops, ...more] })}
        >
          <Icon name="plus" /> add the {grouped(more.length)} ticked in the list
        </button>
      )}
    </fieldset>
  );
}

/**
 * One pattern per line. Typed text, including empty lines, is kept until the field loses the focus.
 */
function OpsText({
  ops,
  onChange,
}: {
  ops: readonly string[];
  onChange: (part: Partial<Draft>) => void;
}): JSX.Element {
  const typed = useSignal<string | null>(null);
  return (
    <textarea
      aria-label="Ops to watch, one per line"
      rows={Math.min(Math.max(ops.length, 2), 6)}
      spellcheck={false}
      placeholder={"one per line, for example\nDefault/network-Net/encoder/ or Linear"}
      value={typed.value ?? ops.join("\n")}
      onInput={(event) => {
        typed.value = event.currentTarget.value;
        onChange({
          ops: event.currentTarget.value
            .split("\n")
            .map((line) => line.trim())
            .filter((line) => line !== ""),
        });
      }}
      onBlur={() => (typed.value = null)}
    />
  );
}

const STOPS: readonly (readonly [string, number])[] = [
  ["every hit", 1],
  ["every N-th hit", 10],
  ["never, only list the hits", 0],
];

function stopOf(count: number): string {
  return STOPS[count === 1 ? 0 : count === 0 ? 2 : 1]?.[0] ?? "";
}

function Pausing({ draft, onChange }: Pick<ConditionsProps, "draft" | "onChange">): JSX.Element {
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
