import type { JSX } from "preact";
import type { StatisticNumbers } from "../wire";
import { brief, formatNumber, grouped, toNumber, type WireNumber } from "../text/numbers";

/** The most important statistics in one line; NaN and Inf in colour. */
export function StatisticLine({ of }: { readonly of: StatisticNumbers | null }): JSX.Element {
  if (of === null) return <span class="quiet">no statistics</span>;
  if (of.count === 0) return <span class="quiet">empty</span>;
  const infinite = of.positive_inf_count + of.negative_inf_count;
  const isFinite = of.nan_count === 0 && infinite === 0;
  return (
    <span class="statistics-line">
      <span>
        <i>min</i> {hasFinite(of) ? brief(isFinite ? of.min : of.finite_min) : "–"}
      </span>
      <span>
        <i>max</i> {hasFinite(of) ? brief(isFinite ? of.max : of.finite_max) : "–"}
      </span>
      <span>
        <i>mean</i> <Value of={of.avg} />
      </span>
      {of.nan_count > 0 && <b class="mark-nan">{grouped(of.nan_count)} nan</b>}
      {infinite > 0 && <b class="mark-inf">{grouped(infinite)} inf</b>}
    </span>
  );
}

function Value({ of }: { of: WireNumber | null }): JSX.Element {
  if (of === null) return <span class="quiet">–</span>;
  return <span class={Number.isFinite(toNumber(of)) ? "" : "bad-text"}>{brief(of)}</span>;
}

function share(part: number, whole: number): string {
  return whole === 0
    ? ""
    : ` ${formatNumber((100 * part) / whole, { notation: "short", digits: 3 })} %`;
}

/** The names of the numbers, in the order they are listed. */
const VALUES: readonly (readonly [string, (of: StatisticNumbers) => WireNumber | null])[] = [
  ["min", (of) => of.min],
  ["max", (of) => of.max],
  ["mean", (of) => of.avg],
  ["std", (of) => of.std],
  ["mean |x|", (of) => of.abs_mean],
  ["L2 norm", (of) => of.l2norm],
  ["finite min", (of) => (hasFinite(of) ? of.finite_min : null)],
  ["finite max", (of) => (hasFinite(of) ? of.finite_max : null)],
];

/** The rows of a table of statistics; those of finite values where others are among them. */
function valuesOf(...all: readonly StatisticNumbers[]): typeof VALUES {
  const isFinite = all.every(
    (of) => of.nan_count + of.positive_inf_count + of.negative_inf_count === 0,
  );
  return isFinite ? VALUES.filter(([name]) => !name.startsWith("finite")) : VALUES;
}

type Bit = 0 | 1 | 2 | 4;

const COUNTS: readonly (readonly [string, (of: StatisticNumbers) => number | null, string, Bit])[] =
  [
    ["nan", (of) => of.nan_count, "mark-nan", 1],
    ["+inf", (of) => of.positive_inf_count, "mark-inf", 2],
    ["−inf", (of) => of.negative_inf_count, "mark-inf", 4],
    ["zero", (of) => of.zero_count, "", 0],
    ["negative", (of) => of.negative_count, "", 0],
    ["positive", (of) => of.positive_count, "", 0],
  ];

/** The names of the counts for boolean tensors. */
const BOOLEAN_NAMES: Readonly<Record<string, string>> = { zero: "false", positive: "true" };

function hasFinite(of: StatisticNumbers): boolean {
  return of.count > of.nan_count + of.positive_inf_count + of.negative_inf_count;
}

interface StatisticTableProps {
  readonly of: StatisticNumbers;
  readonly isBool?: boolean;
  /** Looks for the next NaN (1), +Inf (2) or -Inf (4). */
  readonly onFind?: (mark: 1 | 2 | 4) => void;
}

/** All statistics, for the tensor view. */
export function StatisticTable({ of, isBool = false, onFind }: StatisticTableProps): JSX.Element {
  return (
    <table class="statistics">
      <tbody>
        {valuesOf(of).map(([name, get]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <Value of={get(of)} />
            </td>
          </tr>
        ))}
        <tr>
          <th scope="row">elements</th>
          <td>{grouped(of.count)}</td>
        </tr>
        {COUNTS.map(([name, get, style, mark]) => {
          const count = get(of);
          return (
            <tr key={name}>
              <th scope="row">
                {isBool ? (BOOLEAN_NAMES[name] ?? name) : name}
                {mark !== 0 && (count ?? 0) > 0 && onFind !== undefined && (
                  <button
                    type="button"
                    class="link find"
                    title={`Go to the next ${name}, in this slice or in another`}
                    onClick={() => onFind(mark)}
                  >
                    find
                  </button>
                )}
              </th>
              <td class={(count ?? 0) > 0 ? style : "quiet"}>
                {count === null ? "–" : grouped(count)}
                {count !== null && count > 0 && <span class="quiet">{share(count, of.count)}</span>}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** The numbers of two tensors that are compared, side by side. */
export function StatisticPair({
  one,
  other,
  names,
}: {
  readonly one: StatisticNumbers;
  readonly other: StatisticNumbers;
  readonly names: readonly [string, string];
}): JSX.Element {
  return (
    <table class="statistics">
      <thead>
        <tr>
          <td />
          {names.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {valuesOf(one, other).map(([name, get]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <Value of={get(one)} />
            </td>
            <td>
              <Value of={get(other)} />
            </td>
          </tr>
        ))}
        {COUNTS.map(([name, get, style]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {[get(one), get(other)].map((count, at) => (
              <td key={at} class={(count ?? 0) > 0 ? style : "quiet"}>
                {count === null ? "–" : grouped(count)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
