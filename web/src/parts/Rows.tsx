import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useVirtual } from "./virtual";

interface RowsProps {
  readonly count: number;
  readonly height: number;
  readonly label: string;
  readonly row: (place: number) => JSX.Element;
  /** Called with the last place on the screen: time to load more. */
  readonly onReach?: (last: number) => void;
  /** A place to bring into view. */
  readonly show?: number;
  readonly role?: "tree" | "listbox" | "list";
}

/** A long list of which only what is on the screen is drawn. */
export function Rows({ count, height, label, row, onReach, show, role = "list" }: RowsProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual({ count, size: height, scroller });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => onReach?.(last), [last, count]);
  useEffect(() => {
    if (show !== undefined && show >= 0 && show < count) virtual.scrollToIndex(show, { align: "auto" });
  }, [show]);
  return (
    <div ref={scroller} class="rows" role={role} aria-label={label} tabIndex={0}>
      <div class="rows-inner" style={{ height: `${virtual.getTotalSize()}px` }}>
        {items.map((item) => (
          <div key={item.index} class="row-place" style={{ height: `${height}px`, transform: `translateY(${item.start}px)` }}>
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
