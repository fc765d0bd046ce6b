import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

interface CountFieldProps {
  readonly label: string;
  readonly title?: string;
  readonly value: number;
  readonly least: number;
  readonly most?: number;
  readonly onChange: (count: number) => void;
  readonly class?: string;
  /** Enter was pressed, and the number is valid. */
  readonly onEnter?: () => void;
}

/**
 * A field for a whole number. It takes effect as soon as it is valid, and may be empty while it is
 * typed.
 */
export function CountField({
  label,
  title,
  value,
  least,
  most,
  onChange,
  onEnter,
  ...more
}: CountFieldProps): JSX.Element {
  const typed = useSignal<string | null>(null);
  return (
    <input
      type="number"
      aria-label={label}
      title={title}
      min={least}
      max={most}
      value={typed.value ?? value}
      {...more}
      onInput={(event) => {
        const text = event.currentTarget.value;
        typed.value = text;
        const count = Number(text);
        if (text !== "" && Number.isInteger(count) && count >= least && count <= (most ?? count))
          onChange(count);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        const isValid = event.currentTarget.value !== "" && event.currentTarget.validity.valid;
        if (event.key === "Enter" && !isValid) return;
        if (event.key === "Enter") onEnter?.();
        // Keys belong to the page again, except in a form, where Enter submits.
        if (event.currentTarget.form === null) event.currentTarget.blur();
      }}
      onBlur={() => (typed.value = null)}
    />
  );
}
