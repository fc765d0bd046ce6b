import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  /** What was typed, when the reader is done: Enter, or the field is left. */
  readonly onDone: (text: string) => void;
  readonly onType?: (text: string) => void;
  readonly class?: string;
  readonly title?: string;
  readonly placeholder?: string;
  readonly list?: string;
  readonly numeric?: boolean;
  readonly isWrong?: boolean;
}

/**
 * A line of text that is the reader's while it is typed: whatever changes elsewhere on the page
 * meanwhile does not touch it. Escape gives it up.
 */
export function TextField({
  label,
  value,
  onDone,
  onType,
  numeric = false,
  isWrong = false,
  ...more
}: TextFieldProps): JSX.Element {
  const typed = useSignal<string | null>(null);
  return (
    <input
      type="text"
      aria-label={label}
      aria-invalid={isWrong}
      spellcheck={false}
      autocomplete="off"
      inputMode={numeric ? "decimal" : "text"}
      value={typed.value ?? value}
      {...more}
      onInput={(event) => {
        typed.value = event.currentTarget.value;
        onType?.(event.currentTarget.value);
      }}
      onChange={(event) => {
        const text = event.currentTarget.value.trim();
        typed.value = null;
        onDone(text);
      }}
      onBlur={() => (typed.value = null)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        typed.value = null;
        event.currentTarget.value = value;
        event.currentTarget.blur();
      }}
    />
  );
}
