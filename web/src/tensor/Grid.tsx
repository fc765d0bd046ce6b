import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { formatNumber, mark, toNumber, type NumberFormat, type WireNumber } from "../text/numbers";
import { useScrollMemory } from "../parts/scrolling";
import { useVirtual } from "../parts/virtual";

export interface GridProps {
  readonly rows: number;
  readonly columns: number;
  readonly rowLabel: (row: number) => string;
  readonly columnLabel: (column: number) => string;
  readonly at: (row: number, column: number) => WireNumber | null;
  /** Cells that are on the screen. */
  readonly onVisible: (rows: readonly number[], columns: readonly number[]) => void;
  readonly format: NumberFormat;
  readonly label: string;
  /** What the cells belong to; the scroll position is remembered for it. */
  readonly subject: string;
  /** A cell to mark and, with `isRevealed`, to scroll to. */
  readonly target?: { readonly row: number; readonly column: number } | null;
  readonly isRevealed?: boolean;
  /** The strength of a cell's background colour, from -1 to 1. */
  readonly weight?: (value: number) => number;
}

const ROW_HEIGHT = 20;
const LETTER = 6.95;
// A browser's longest scrollable element is a little above 16 million pixels.
export const MOST_ROWS = 700_000;

function columnWidth(format: NumberFormat): number {
  switch (format.notation) {
    case "scientific":
      return 62 + format.digits * 7;
    case "fixed":
      return 56 + format.digits * 7;
    case "short":
      return Math.ceil((6 + Math.max(format.digits, 2)) * LETTER) + 11;
  }
}

/** A table of numbers of any size; only the cells on the screen exist in the document. */
export function Grid({
  rows,
  columns,
  rowLabel,
  columnLabel,
  at,
  onVisible,
  format,
  label,
  subject,
  target = null,
  isRevealed = false,
  weight,
}: GridProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const width = columnWidth(format);
  const headWidth = Math.ceil(Math.max(rowLabel(Math.max(rows - 1, 0)).length, 3) * LETTER) + 16;
  const down = useVirtual({
    count: Math.min(rows, MOST_ROWS),
    size: ROW_HEIGHT,
    scroller,
    overscan: 6,
  });
  const across = useVirtual({
    count: columns,
    size: width,
    scroller,
    horizontal: true,
    overscan: 3,
  });
  const shownRows = down.getVirtualItems();
  const shownColumns = across.getVirtualItems();
  const ends = [shownRows[0], shownRows.at(-1), shownColumns[0], shownColumns.at(-1)];
  const key = ends.map((item) => item?.index ?? "").join(" ");
  useEffect(() => {
    onVisible(
      shownRows.map((item) => item.index),
      shownColumns.map((item) => item.index),
    );
  });
  useScrollMemory(scroller, `${label} ${subject}`, down.getTotalSize() + across.getTotalSize());
  useEffect(() => {
    const frame = scroller.current;
    if (target === null || frame === null || !isRevealed) return;
    frame.scrollTo({
      top: (target.row + 0.5) * ROW_HEIGHT - frame.clientHeight / 2,
      left: headWidth + (target.column + 0.5) * width - frame.clientWidth / 2,
    });
  }, [target?.row, target?.column, subject]);
  return (
    <div
      ref={scroller}
      class="grid"
      role="table"
      aria-label={label}
      aria-rowcount={rows}
      aria-colcount={columns}
      tabIndex={0}
      data-window={key}
    >
      <div
        class="grid-inner"
        style={{
          width: `${headWidth + across.getTotalSize()}px`,
          height: `${ROW_HEIGHT + down.getTotalSize()}px`,
        }}
      >
        <div class="grid-head" role="row">
          <span class="grid-corner" style={{ width: `${headWidth}px` }} />
          {shownColumns.map((item) => (
            <span
              key={item.index}
              class="grid-column"
              role="columnheader"
              style={{ left: `${headWidth + item.start}px`, width: `${width}px` }}
            >
              {columnLabel(item.index)}
            </span>
          ))}
        </div>
        {shownRows.map((row) => (
          <div
            key={row.index}
            class="grid-row"
            role="row"
            style={{ top: `${ROW_HEIGHT + row.start}px` }}
          >
            <span class="grid-name" role="rowheader" style={{ width: `${headWidth}px` }}>
              {rowLabel(row.index)}
            </span>
            {shownColumns.map((column) => {
              const value = at(row.index, column.index);
              return (
                <Cell
                  key={column.index}
                  value={value}
                  left={headWidth + column.start}
                  width={width}
                  isTarget={target?.row === row.index && target.column === column.index}
                  format={format}
                  weight={weight}
                />
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}

interface CellProps {
  readonly value: WireNumber | null;
  readonly left: number;
  readonly width: number;
  readonly isTarget: boolean;
  readonly format: NumberFormat;
  readonly weight: ((value: number) => number) | undefined;
}

const CLASSES = { nan: "nan", inf: "inf", "-inf": "inf", finite: "" } as const;

function Cell({ value, left, width, isTarget, format, weight }: CellProps): JSX.Element {
  const style: Record<string, string> = { left: `${left}px`, width: `${width}px` };
  if (weight !== undefined && value !== null && mark(value) === "finite") {
    const strength = weight(toNumber(value));
    if (strength !== 0) {
      const share = Math.round(Math.min(Math.abs(strength), 1) * 55);
      style.background = `color-mix(in srgb, var(${strength > 0 ? "--positive" : "--negative"}) ${share}%, transparent)`;
    }
  }
  const more = `${value === 0 ? " zero" : ""}${isTarget ? " target" : ""}`;
  return (
    <span
      class={`cell ${CLASSES[mark(value)]}${more}`}
      role="cell"
      style={style}
      title={value === null ? "" : String(value)}
    >
      {value === null ? "·" : formatNumber(value, format)}
    </span>
  );
}
