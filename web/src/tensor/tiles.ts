import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { messageOf, isAborted } from "../state/toasts";
import type { WireNumber } from "../text/numbers";

/** A rectangle of cells the table fetches at once. */
export interface Tile {
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

export type TileLoader = (tile: Tile, signal: AbortSignal) => Promise<readonly WireNumber[]>;

export interface Cells {
  readonly at: (row: number, column: number) => WireNumber | null;
  readonly want: (rows: readonly number[], columns: readonly number[]) => void;
  readonly error: string | null;
}

const MOST_TILES = 200;

/** The tiles that hold the cells of the given extremes, by row and column number of the tile. */
export function tilesFor(
  rows: readonly number[],
  columns: readonly number[],
  height: number,
  width: number,
): readonly (readonly [number, number])[] {
  const span = (places: readonly number[], size: number): number[] => {
    if (places.length === 0) return [];
    const [first, last] = [
      Math.floor(Math.min(...places) / size),
      Math.floor(Math.max(...places) / size),
    ];
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  };
  return span(rows, height).flatMap((row) =>
    span(columns, width).map((column) => [row, column] as const),
  );
}

/** Cells of a large table, fetched in tiles as they come into view, a bounded number kept. */
export function useTiles(
  subject: string,
  total: { readonly rows: number; readonly columns: number },
  tile: { readonly rows: number; readonly columns: number },
  load: TileLoader,
): Cells {
  const held = useSignal<ReadonlyMap<string, readonly WireNumber[]>>(new Map());
  const error = useSignal<string | null>(null);
  const asked = useRef(new Set<string>());
  const abort = useRef(new AbortController());
  const shown = useRef(subject);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (shown.current !== subject) {
      shown.current = subject;
      held.value = new Map();
      error.value = null;
      asked.current = new Set();
    }
    abort.current = new AbortController();
    return () => {
      abort.current.abort();
      asked.current = new Set();
    };
  }, [subject]);

  const widthOf = (column: number): number =>
    Math.min(tile.columns, total.columns - column * tile.columns);
  const want = (rows: readonly number[], columns: readonly number[]): void => {
    for (const [row, column] of tilesFor(rows, columns, tile.rows, tile.columns)) {
      const key = `${row} ${column}`;
      if (asked.current.has(key) || held.value.has(key)) continue;
      asked.current.add(key);
      const { signal } = abort.current;
      const wanted: Tile = {
        row: row * tile.rows,
        column: column * tile.columns,
        rows: Math.min(tile.rows, total.rows - row * tile.rows),
        columns: widthOf(column),
      };
      latest
        .current(wanted, signal)
        .then((values) => {
          if (signal.aborted) return;
          const kept =
            held.value.size >= MOST_TILES ? [...held.value].slice(MOST_TILES / 2) : [...held.value];
          held.value = new Map(kept).set(key, values);
          asked.current.delete(key);
          error.value = null;
        })
        .catch((problem: unknown) => {
          if (!signal.aborted && !isAborted(problem)) error.value = messageOf(problem);
        });
    }
  };
  const at = (row: number, column: number): WireNumber | null => {
    const [down, right] = [Math.floor(row / tile.rows), Math.floor(column / tile.columns)];
    const values = held.value.get(`${down} ${right}`);
    return (
      values?.[(row - down * tile.rows) * widthOf(right) + (column - right * tile.columns)] ?? null
    );
  };
  return { at, want, error: error.value };
}
