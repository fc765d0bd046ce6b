import type { ComponentChildren, JSX } from "preact";

/** What stands where there is nothing to show: what is missing, and what to do about it. */
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
