import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  /** Called with the text on Enter, and when the field loses the focus. */
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
 * A field for one line of text. Changes elsewhere on the page do not affect it while the user
 * types; Escape restores the old text.
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
