import type { JSX } from "preact";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { selectOp, throttledVersion } from "../state/store";
import { fileName, lastPart } from "../text/names";
import { rangesText } from "../text/ranks";
import { counted, grouped } from "../text/numbers";
import type { CauseView } from "../wire";

interface Shared {
  readonly first: CauseView;
  readonly op: string;
  readonly ranks: readonly number[];
  readonly hits: number;
}

/** Causes of hits that several ranks have are one line, with the ranks that have them. */
export function groupCauses(causes: readonly CauseView[]): readonly Shared[] {
  const found = new Map<string, { first: CauseView; op: string; ranks: number[]; hits: number }>();
  for (const each of causes) {
    const op = each.origin === "" ? each.first.op : each.origin;
    const key = `${op} ${each.origin === "" ? `${each.watchpoint} ${each.condition}` : ""}`;
    const known = found.get(key);
    if (known === undefined)
      found.set(key, { first: each, op, ranks: [each.rank], hits: each.hits });
    else {
      known.ranks.push(each.rank);
      known.hits += each.hits;
      if (each.first.step < known.first.first.step) known.first = each;
    }
  }
  return [...found.values()].sort((one, other) => one.first.first.step - other.first.first.step);
}

/** The hits of all ranks, grouped by their cause. */
export function RankHits({
  id,
  ranks,
}: {
  readonly id: string;
  readonly ranks: number;
}): JSX.Element {
  const request = { run: id, rank: null };
  const { data, error } = useResource(request, throttledVersion("hits"), api.causes);
  const shared = groupCauses(data?.causes ?? []);
  return (
    <>
      <h4>Hits of all ranks</h4>
      {error !== null && <p class="error-line">{error}</p>}
      {data !== null && shared.length === 0 && <p class="quiet note">None.</p>}
      {shared.length > 0 && (
        <div class="rank-table">
          <table aria-label="Hits of all ranks">
            <thead>
              <tr>
                <th scope="col">op</th>
                <th scope="col">ranks</th>
                <th scope="col">first</th>
                <th scope="col">hits</th>
              </tr>
            </thead>
            <tbody>
              {shared.map(({ first, op, ranks: those, hits }) => (
                <tr key={`${op} ${first.condition}`}>
                  <td>
                    <button
                      type="button"
                      class="link"
                      title={op}
                      onClick={() =>
                        selectOp(op, {
                          rank: first.rank,
                          step: first.first.step,
                          io: "output",
                          slot: 0,
                        })
                      }
                    >
                      {lastPart(op)}
                    </button>
                    {first.first.source !== null && (
                      <span class="quiet">
                        {" "}
                        {fileName(first.first.source.file)}:{first.first.source.line}
                      </span>
                    )}
                  </td>
                  <td title={rangesText(those)}>
                    {those.length === ranks ? `all ${ranks}` : rangesText(those)}
                  </td>
                  <td>
                    rank {first.rank}, step {first.first.step}
                  </td>
                  <td>{grouped(hits)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && data.total > data.causes.length && (
        <p class="quiet note">and {counted(data.total - data.causes.length, "cause")} more</p>
      )}
    </>
  );
}
