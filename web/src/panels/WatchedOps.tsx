import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { grouped } from "../text/numbers";
import { tickedPatterns } from "../state/store";
import { Icon } from "../parts/Icon";
import type { Draft } from "./dialogs";

interface WatchedOpsProps {
  readonly isForAll: boolean;
  readonly draft: Draft;
  readonly onChoose: (isForAll: boolean) => void;
  readonly onChange: (part: Partial<Draft>) => void;
}

export function WatchedOps({ isForAll, draft, onChoose, onChange }: WatchedOpsProps): JSX.Element {
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
