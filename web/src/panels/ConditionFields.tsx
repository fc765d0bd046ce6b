import type { JSX } from "preact";
import type { Catalogue, ConditionInfo, ConditionSpec } from "../wire";
import { REPORTING } from "../text/conditions";
import { Icon } from "../parts/Icon";
import type { Draft } from "./dialogs";
import { ParameterField, ReportingFields } from "./ParameterFields";

export const EXPRESSION = "expression";

export interface ConditionFieldsProps {
  readonly catalogue: Catalogue;
  readonly draft: Draft;
  readonly onChange: (part: Partial<Draft>) => void;
}

export function ConditionFields({ catalogue, draft, onChange }: ConditionFieldsProps): JSX.Element {
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

function JoinChoice({
  draft,
  onChange,
}: Pick<ConditionFieldsProps, "draft" | "onChange">): JSX.Element {
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
            {info.parameters
              .filter(({ name }) => !REPORTING.includes(name))
              .map((parameter) => (
                <ParameterField
                  key={parameter.name}
                  parameter={parameter}
                  condition={condition}
                  onChange={onChange}
                />
              ))}
            <ReportingFields info={info} condition={condition} onChange={onChange} />
          </>
        )
      )}
    </>
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
