import type { JSX } from "preact";
import type { StatisticNumbers } from "../wire";
import { brief, formatNumber, grouped, toNumber, type WireNumber } from "../state/numbers";

/** One line: what a reader looks for first, and what is bad in colour. */
export function StatisticLine({ of }: { readonly of: StatisticNumbers | null }): JSX.Element {
  if (of === null) return <span class="quiet">no statistics</span>;
  if (of.count === 0) return <span class="quiet">empty</span>;
  const infinite = of.positive_inf_count + of.negative_inf_count;
  const isFinite = of.nan_count === 0 && infinite === 0;
  return (
    <span class="statistics-line">
      <span>
        <i>min</i> {brief(isFinite ? of.min : of.finite_min)}
      </span>
      <span>
        <i>max</i> {brief(isFinite ? of.max : of.finite_max)}
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
  return whole === 0 ? "" : ` ${formatNumber((100 * part) / whole, { notation: "short", digits: 3 })} %`;
}

/** Every number there is, for the tensor view. */
interface StatisticTableProps {
  readonly of: StatisticNumbers;
  /** Looks for the first NaN (1), +Inf (2) or -Inf (4) in what is on the screen. */
  readonly onFind?: (mark: 1 | 2 | 4) => void;
}

export function StatisticTable({ of, onFind }: StatisticTableProps): JSX.Element {
  const values: readonly (readonly [string, WireNumber | null])[] = [
    ["min", of.min],
    ["max", of.max],
    ["mean", of.avg],
    ["std", of.std],
    ["mean |x|", of.abs_mean],
    ["L2 norm", of.l2norm],
    ["finite min", of.finite_min],
    ["finite max", of.finite_max],
  ];
  const counts: readonly (readonly [string, number | null, string, 1 | 2 | 4 | 0])[] = [
    ["nan", of.nan_count, "mark-nan", 1],
    ["+inf", of.positive_inf_count, "mark-inf", 2],
    ["−inf", of.negative_inf_count, "mark-inf", 4],
    ["zero", of.zero_count, "", 0],
    ["negative", of.negative_count, "", 0],
    ["positive", of.positive_count, "", 0],
  ];
  return (
    <table class="statistics">
      <tbody>
        {values.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <Value of={value} />
            </td>
          </tr>
        ))}
        <tr>
          <th scope="row">elements</th>
          <td>{grouped(of.count)}</td>
        </tr>
        {counts.map(([name, count, style, mark]) => (
          <tr key={name}>
            <th scope="row">
              {name}
              {mark !== 0 && (count ?? 0) > 0 && onFind !== undefined && (
                <button type="button" class="link find" title={`Go to the first ${name} of this plane`} onClick={() => onFind(mark)}>
                  find
                </button>
              )}
            </th>
            <td class={(count ?? 0) > 0 ? style : "quiet"}>
              {count === null ? "–" : grouped(count)}
              {count !== null && count > 0 && <span class="quiet">{share(count, of.count)}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
