import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { chooseRank } from "../state/store";
import { checkText, ranksText } from "../text/ranks";
import { counted } from "../text/numbers";
import type { RankCheckRow, RankFinding, RanksView } from "../wire";
import { RankCells } from "./RankCells";

/** A row for each check, a cell for each rank; checks that found something come first. */
export function CheckTable({ view }: { readonly view: RanksView }): JSX.Element {
  const isOpen = useSignal(false);
  const found = view.checks
    .filter((each) => each.findings.length > 0)
    .sort((one, other) => firstStep(one) - firstStep(other));
  const silent = view.checks.filter((each) => each.findings.length === 0);
  return (
    <>
      <h4>Checks</h4>
      <table class="rank-checks" aria-label="Checks of the ranks">
        <tbody>
          {found.map((row) => (
            <CheckRow key={row.name} row={row} view={view} />
          ))}
          {isOpen.value && silent.map((row) => <CheckRow key={row.name} row={row} view={view} />)}
        </tbody>
      </table>
      <button
        type="button"
        class="link"
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        {isOpen.value ? "Hide" : "Show"} {counted(silent.length, "check")} without a finding
      </button>
    </>
  );
}

function firstStep(row: RankCheckRow): number {
  return Math.min(...row.findings.map((each) => each.step ?? Infinity));
}

function CheckRow({
  row,
  view,
}: {
  readonly row: RankCheckRow;
  readonly view: RanksView;
}): JSX.Element {
  const kinds = [...new Set(row.findings.map((each) => each.kind))];
  return (
    <>
      <tr class={row.findings.length > 0 ? "found" : ""}>
        <th scope="row">{(kinds.length > 0 ? kinds : [row.name]).map(checkText).join(", ")}</th>
        <td class="rank-step">{stepText(row)}</td>
        <td>
          <RankCells
            label={`${row.name} by rank`}
            cells={view.ranks.map((rank) => cellOf(rank, row))}
            onChoose={chooseRank}
          />
        </td>
      </tr>
      {row.findings.map((each, at) => (
        <tr key={at} class="rank-finding">
          <td colSpan={3}>
            <Sentence found={each} />
          </td>
        </tr>
      ))}
    </>
  );
}

function stepText(row: RankCheckRow): string {
  const step = firstStep(row);
  return Number.isFinite(step) ? `from step ${step}` : "";
}

function cellOf(
  rank: number,
  row: RankCheckRow,
): { readonly rank: number; readonly tone: string; readonly title: string } {
  const found = row.findings.find((each) => each.ranks.includes(rank));
  if (found === undefined) return { rank, tone: "fine", title: `rank ${rank}: no finding` };
  const tone = found.severity === "error" ? "bad" : found.severity === "warning" ? "warn" : "info";
  return { rank, tone, title: `rank ${rank}: ${checkText(found.kind)}` };
}

function Sentence({ found }: { readonly found: RankFinding }): JSX.Element {
  return (
    <>
      <p>
        {found.message} <span class="quiet">({found.status})</span>
      </p>
      <p class="quiet">
        {found.ranks.length > 0 && `${ranksText(found.ranks)}. `}To do: {found.advice}
        {found.places.length > 0 && ` — ${found.places.join(", ")}`}
      </p>
    </>
  );
}
