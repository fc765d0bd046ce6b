import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { TextField } from "../parts/TextField";
import { parameterTitle, REPORTING } from "../text/conditions";
import type { ConditionInfo, ConditionSpec, ParameterInfo } from "../wire";

interface ParameterFieldProps {
  readonly parameter: ParameterInfo;
  readonly condition: ConditionSpec;
  readonly onChange: (condition: ConditionSpec) => void;
}

/** A number that a condition compares with, or needs for it. */
export function ParameterField({
  parameter,
  condition,
  onChange,
}: ParameterFieldProps): JSX.Element {
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

interface ReportingFieldsProps {
  readonly info: ConditionInfo;
  readonly condition: ConditionSpec;
  readonly onChange: (condition: ConditionSpec) => void;
}

const SWITCHES: readonly (readonly [string, string])[] = [
  ["from_start", "only if it is so from the first watched step on"],
  ["floats_only", "leave out integers and truth values"],
];

/** When a tensor that meets the condition is reported; folded, because that is usually at once. */
export function ReportingFields({
  info,
  condition,
  onChange,
}: ReportingFieldsProps): JSX.Element | null {
  const given = condition.parameters;
  const rows = info.parameters.find(({ name }) => name === "steps_in_a_row");
  const isOpen = useSignal(REPORTING.some((name) => given[name] !== undefined));
  if (rows === undefined) return null;
  const toggle = (name: string, isOn: boolean): void => {
    const { [name]: _, ...others } = given;
    onChange({ ...condition, parameters: isOn ? { ...others, [name]: 1 } : others });
  };
  return (
    <details
      class="reporting"
      open={isOpen.value}
      onToggle={(event) => (isOpen.value = event.currentTarget.open)}
    >
      <summary>When to report</summary>
      <ParameterField parameter={rows} condition={condition} onChange={onChange} />
      {SWITCHES.map(([name, text]) => (
        <label key={name} class="check">
          <input
            type="checkbox"
            checked={(given[name] ?? 0) > 0}
            onChange={(event) => toggle(name, event.currentTarget.checked)}
          />{" "}
          {text}
        </label>
      ))}
    </details>
  );
}
