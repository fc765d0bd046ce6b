import type { JSX } from "preact";
import type { Stored } from "../state/preferences";

interface SplitterProps {
  readonly value: Stored<number>;
  readonly direction: "column" | "row";
  /** 1 if the size is that of the part before the line, -1 if that of the part after it. */
  readonly sign: 1 | -1;
  readonly least: number;
  readonly most: number;
  readonly label: string;
}

/** The line between two panes; dragged, or moved with the arrow keys. */
export function Splitter({
  value,
  direction,
  sign,
  least,
  most,
  label,
}: SplitterProps): JSX.Element {
  const put = (size: number): void => {
    value.set(Math.round(Math.min(Math.max(size, least), most)));
  };
  return (
    <div
      class={`splitter ${direction}`}
      role="separator"
      aria-label={label}
      aria-orientation={direction === "column" ? "vertical" : "horizontal"}
      aria-valuenow={value.value}
      tabIndex={0}
      onPointerDown={(event) => {
        event.preventDefault();
        const start = value.value;
        const from = direction === "column" ? event.clientX : event.clientY;
        const move = (moved: PointerEvent): void =>
          put(start + sign * ((direction === "column" ? moved.clientX : moved.clientY) - from));
        const end = (): void => {
          window.removeEventListener("pointermove", move);
          window.removeEventListener("pointerup", end);
        };
        window.addEventListener("pointermove", move);
        window.addEventListener("pointerup", end);
      }}
      onKeyDown={(event) => {
        const by = { ArrowLeft: -16, ArrowUp: -16, ArrowRight: 16, ArrowDown: 16 }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        put(value.value + sign * by);
      }}
    />
  );
}
