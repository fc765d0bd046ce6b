import type { JSX } from "preact";

interface Cell {
  readonly rank: number;
  /** The CSS class of its colour. */
  readonly tone: string;
  readonly title: string;
}

interface RankCellsProps {
  readonly cells: readonly Cell[];
  readonly label: string;
  readonly chosen?: number | null;
  readonly onChoose?: (rank: number) => void;
}

/** With more ranks the cells have no numbers, so that 64 fit into a line. */
const MOST_NUMBERED = 16;

/** One small square for each rank, in the order of their numbers. */
export function RankCells({ cells, label, chosen, onChoose }: RankCellsProps): JSX.Element {
  const isSmall = cells.length > MOST_NUMBERED;
  return (
    <div class={`rank-cells ${isSmall ? "small" : ""}`} role="group" aria-label={label}>
      {cells.map(({ rank, tone, title }) => (
        <button
          key={rank}
          type="button"
          class={`rank-cell ${tone}`}
          title={title}
          aria-label={title}
          aria-pressed={chosen === undefined ? undefined : chosen === rank}
          disabled={onChoose === undefined}
          onClick={() => onChoose?.(rank)}
        >
          {isSmall ? "" : rank}
        </button>
      ))}
    </div>
  );
}
