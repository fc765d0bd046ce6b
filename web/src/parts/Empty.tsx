import type { ComponentChildren, JSX } from "preact";

/** Shown instead of an empty panel: what is missing, and what to do. */
export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <h3>{title}</h3>
      <div>{children}</div>
    </div>
  );
}
