import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useScrollMemory, type ScrollAccess } from "./scrolling";
import { useVirtual } from "./virtual";

interface RowsProps {
  readonly count: number;
  /** The height of every row in pixels; an estimate if rows are measured. */
  readonly height: number;
  /** Whether the browser measures each row, because its height depends on its content. */
  readonly isMeasured?: boolean;
  readonly label: string;
  readonly row: (index: number) => JSX.Element;
  /** An index to scroll to. */
  readonly show?: number;
  /** What is listed; the scroll position is remembered for each subject. */
  readonly subject: string;
  readonly role?: "tree" | "listbox" | "list";
  /** The id of the row that the keyboard cursor is at. */
  readonly active?: string | undefined;
  readonly onKeyDown?: (event: KeyboardEvent) => void;
  /**
   * Called with true when the list gets the focus from the keyboard, with false when it loses it.
   */
  readonly onKeyboardFocus?: (hasFocus: boolean) => void;
}

/**
 * Positions by the first visible row. Pixels would not do for measured rows: after a reload the
 * rows above are not measured yet, and have another height than before.
 */
function byRow(virtual: ReturnType<typeof useVirtual>, count: number): ScrollAccess {
  return {
    read: (element) => [virtual.getVirtualItemForOffset(element.scrollTop)?.index ?? 0, 0],
    restore: (_, [index], isLast) => {
      if (index >= count && !isLast) return false;
      virtual.scrollToIndex(Math.min(index, count - 1), { align: "start" });
      return true;
    },
  };
}

/** A long list; only the rows on the screen exist in the document. */
export function Rows({
  count,
  height,
  isMeasured = false,
  label,
  row,
  show,
  subject,
  role = "list",
  active,
  onKeyDown,
  onKeyboardFocus,
}: RowsProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual({ count, size: height, scroller });
  const isRestoring = useScrollMemory(
    scroller,
    subject,
    virtual.getTotalSize(),
    isMeasured ? byRow(virtual, count) : undefined,
  );
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
      onFocus={({ target, currentTarget }) =>
        onKeyboardFocus?.(target === currentTarget && currentTarget.matches(":focus-visible"))
      }
      onBlur={() => onKeyboardFocus?.(false)}
      {...(onKeyDown === undefined ? {} : { onKeyDown })}
    >
      <div class="rows-inner" style={{ height: `${virtual.getTotalSize()}px` }}>
        {virtual.getVirtualItems().map((item) => (
          <div
            key={item.index}
            data-index={item.index}
            ref={isMeasured ? virtual.measureElement : null}
            class="row-place"
            style={{
              ...(isMeasured ? {} : { height: `${item.size}px` }),
              transform: `translateY(${item.start}px)`,
            }}
          >
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
