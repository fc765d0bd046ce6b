import type { JSX } from "preact";
import { chooseRank, rank, rankToControl } from "../state/store";
import { ranksText } from "../text/ranks";
import type { RankView } from "../wire";
import { RankCells } from "./RankCells";

/** The state and step of each rank; a click shows the rank, which the controls may act on alone. */
export function RankStates({
  ranks,
  isLive,
}: {
  readonly ranks: readonly RankView[];
  readonly isLive: boolean;
}): JSX.Element {
  const last = Math.max(...ranks.map((each) => each.step));
  const behind = ranks.filter((each) => each.step < last);
  const counts = new Map<string, RankView[]>();
  for (const each of ranks) counts.set(each.state, [...(counts.get(each.state) ?? []), each]);
  return (
    <>
      <h4>Ranks</h4>
      <RankCells
        label="Ranks"
        cells={ranks.map((each) => ({
          rank: each.rank,
          tone: `state-${each.state}`,
          title: `rank ${each.rank}: ${each.state}, step ${each.step}`,
        }))}
        chosen={rank.value?.rank ?? null}
        onChoose={chooseRank}
      />
      <p class="quiet note">
        {[...counts].map(([state, those]) => `${those.length} ${state}`).join(", ")}
        {behind.length > 0 && behind.length < ranks.length && (
          <>
            {" "}
            · step {last}; behind: {ranksText(behind.map((each) => each.rank))}
          </>
        )}
        {isLive && (
          <>
            {" "}
            · the controls above act on{" "}
            {rankToControl.value === null ? "all ranks" : `rank ${rankToControl.value}`}
          </>
        )}
      </p>
    </>
  );
}
