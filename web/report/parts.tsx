import type { ComponentChildren, JSX } from "preact";

/** Large numbers with a word below each. */
export function Tiles({
  tiles,
}: {
  readonly tiles: readonly (readonly [string, string])[];
}): JSX.Element {
  return (
    <section class="tiles" aria-label="in short">
      {tiles.map(([value, label]) => (
        <div key={label} class="tile">
          <b>{value}</b>
          <span>{label}</span>
        </div>
      ))}
    </section>
  );
}

interface SectionProps {
  readonly id: string;
  readonly title: string;
  readonly note?: string;
  readonly isHalf?: boolean;
  readonly children?: ComponentChildren;
}

/** A card with a heading. */
export function Section({ id, title, note, isHalf = false, children }: SectionProps): JSX.Element {
  return (
    <section id={id} class={`card ${isHalf ? "" : "wide"}`}>
      <h2>
        {title} <small>{note}</small>
      </h2>
      {children}
    </section>
  );
}
