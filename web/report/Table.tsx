import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

type Key = number | string | null | undefined;

export interface Column<Row> {
  readonly name: string;
  readonly help?: string;
  readonly isNumber?: boolean;
  /** "wrap": a long text that may break; "name": the same with more room. */
  readonly look?: "wrap" | "name";
  /** What rows are sorted by, and shown unless `show` is given. Rows without it come last. */
  readonly value: (row: Row) => Key;
  readonly show?: (row: Row) => ComponentChildren;
}

interface TableProps<Row> {
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  /** The column to sort by at first. */
  readonly sort?: number;
  readonly isDescending?: boolean;
  /** The text that the filter searches; without it there is no filter. */
  readonly searched?: (row: Row) => string;
  readonly placeholder?: string;
  readonly tools?: ComponentChildren;
  /** How many rows are shown at first. */
  readonly most?: number;
  /** The row that must be shown, whatever the filter and the number of rows. */
  readonly chosen?: Row | undefined;
  readonly rowClass?: (row: Row) => string;
  readonly onRow?: (row: Row) => void;
  /** The content of an additional row below this one. */
  readonly details?: (row: Row) => ComponentChildren;
}

/** A column of numbers, shown as text; a missing number is an empty cell. */
export function numbers<Row>(
  name: string,
  value: (row: Row) => number | null | undefined,
  text: (value: number) => string,
  help = "",
): Column<Row> {
  const show = (row: Row): string => {
    const found = value(row);
    return found == null ? "" : text(found);
  };
  return { name, isNumber: true, value, show, help };
}

/** A table that sorts by the column clicked at, and filters by words. */
export function Table<Row>(props: TableProps<Row>): JSX.Element {
  const { rows, columns, searched, tools } = props;
  const [sorted, setSorted] = useState(props.sort ?? 0);
  const [isDescending, setDescending] = useState(props.isDescending ?? false);
  const [words, setWords] = useState("");
  const [limit, setLimit] = useState(props.most ?? 500);
  const texts = useMemo(
    () =>
      new Map(searched === undefined ? [] : rows.map((row) => [row, searched(row).toLowerCase()])),
    [rows],
  );
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = rows.filter((row) => wanted.every((word) => texts.get(row)?.includes(word)));
  const column = columns[sorted];
  if (column !== undefined) chosen.sort(byKey(column.value, isDescending));
  const needed = props.chosen === undefined ? -1 : chosen.indexOf(props.chosen);
  const shown = needed < limit ? limit : needed + 50;
  useEffect(() => {
    if (props.chosen !== undefined && needed < 0) setWords("");
  }, [props.chosen]);
  const sortBy = (place: number): void => {
    setDescending(place === sorted ? !isDescending : (columns[place]?.isNumber ?? false));
    setSorted(place);
  };
  return (
    <>
      {(searched !== undefined || tools !== undefined) && (
        <div class="tools">
          {searched !== undefined && (
            <input
              type="search"
              placeholder={props.placeholder ?? "filter"}
              aria-label="filter"
              value={words}
              onInput={(event) => setWords(event.currentTarget.value)}
            />
          )}
          {tools}
          <span class="quiet">
            {chosen.length} of {rows.length}
          </span>
        </div>
      )}
      <div class="scroll">
        <table>
          <thead>
            <tr>
              {columns.map((each, place) => (
                <th
                  key={place}
                  class={each.isNumber === true ? "number" : ""}
                  title={each.help ?? ""}
                  aria-sort={place !== sorted ? "none" : isDescending ? "descending" : "ascending"}
                >
                  <button type="button" onClick={() => sortBy(place)}>
                    {each.name}
                    {place === sorted ? (isDescending ? " ▼" : " ▲") : ""}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {chosen.slice(0, shown).map((row, place) => (
              <Row key={place} row={row} table={props} />
            ))}
          </tbody>
        </table>
      </div>
      {chosen.length > shown && (
        <button type="button" class="more" onClick={() => setLimit(shown + 500)}>
          show more
        </button>
      )}
    </>
  );
}

function Row<Given>({
  row,
  table,
}: {
  readonly row: Given;
  readonly table: TableProps<Given>;
}): JSX.Element {
  const { columns, onRow } = table;
  const details = table.details?.(row);
  return (
    <>
      <tr
        class={table.rowClass?.(row) ?? ""}
        {...(onRow === undefined ? {} : { onClick: () => onRow(row) })}
      >
        {columns.map((column, place) => (
          <td key={place} class={column.isNumber === true ? "number" : (column.look ?? "")}>
            {column.show === undefined ? column.value(row) : column.show(row)}
          </td>
        ))}
      </tr>
      {details != null && (
        <tr class="details">
          <td colSpan={columns.length}>{details}</td>
        </tr>
      )}
    </>
  );
}

function byKey<Row>(
  key: (row: Row) => Key,
  isDescending: boolean,
): (one: Row, other: Row) => number {
  const isMissing = (value: Key): boolean => value == null || value === "" || Number.isNaN(value);
  return (one, other) => {
    const [left, right] = [key(one), key(other)];
    if (isMissing(left) || isMissing(right))
      return Number(isMissing(left)) - Number(isMissing(right));
    if (left === right) return 0;
    return ((left ?? 0) < (right ?? 0) ? -1 : 1) * (isDescending ? -1 : 1);
  };
}
