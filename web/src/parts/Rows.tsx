import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useScrollMemory } from "./scrolling";
import { useVirtual } from "./virtual";

interface RowsProps {
  readonly count: number;
  /** Of every row, or of the one at a place. */
  readonly height: number | ((place: number) => number);
  /** Changes when heights do. */
  readonly heights?: string;
  readonly label: string;
  readonly row: (place: number) => JSX.Element;
  /** A place to bring into view. */
  readonly show?: number;
  /** What is listed: where the list stands is remembered for it. */
  readonly subject: string;
  readonly role?: "tree" | "listbox" | "list";
  /** The id of the row the keys are at. */
  readonly active?: string | undefined;
  readonly onKeyDown?: (event: KeyboardEvent) => void;
  /** Called with true when the list gets the focus by keys (a pointer brings its own place), with false when it loses it. */
  readonly onKeys?: (isThere: boolean) => void;
}

/** A long list of which only what is on the screen is drawn. */
export function Rows({ count, height, heights = "", label, row, show, subject, role = "list", active, onKeyDown, onKeys }: RowsProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual({ count, size: height, sizes: heights, scroller });
  const items = virtual.getVirtualItems();
  const isRestoring = useScrollMemory(scroller, subject, virtual.getTotalSize());
  useEffect(() => {
    if (show === undefined || show < 0 || show >= count || isRestoring()) return;
    virtual.scrollToIndex(show, { align: "auto" });
  }, [show]);
  return (
    <div
      ref={scroller}
      class="rows"
      role={role}
      aria-label={label}
      aria-activedescendant={active}
      tabIndex={0}
      onFocus={(event) => onKeys?.(event.target === event.currentTarget && event.currentTarget.matches(":focus-visible"))}
      onBlur={() => onKeys?.(false)}
      {...(onKeyDown === undefined ? {} : { onKeyDown })}
    >
      <div class="rows-inner" style={{ height: `${virtual.getTotalSize()}px` }}>
        {items.map((item) => (
          <div key={item.index} class="row-place" style={{ height: `${item.size}px`, transform: `translateY(${item.start}px)` }}>
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
