import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { useTensorVersion } from "../load/tensorVersion";
import { SAME } from "../tensor/CompareChoice";
import { HeatMap } from "../tensor/HeatMap";
import { parseIndex } from "../tensor/slices";
import { go, place, rank } from "../state/store";
import { rangesText } from "../text/ranks";
import { brief, cosineText, counted, typeText } from "../text/numbers";
import type { MergeKind, MergedTensor, RankPlacement, RankValues, TensorOfRanks } from "../wire";

type Merge = MergeKind | "";

interface RankTensorProps {
  readonly id: string;
  readonly placements: readonly RankPlacement[];
}

/** The selected tensor on all ranks side by side, and put together by its placement. */
export function RankTensor({ id, placements }: RankTensorProps): JSX.Element {
  const merge = useSignal<Merge>("");
  const dim = useSignal(0);
  const { op, io, slot, step } = place.value;
  const isTensor = op !== "" && !op.endsWith("/");
  const request = isTensor
    ? { run: id, op, io, slot, step, merge: merge.value, dim: dim.value }
    : null;
  const { data, error, loading } = useResource(request, useTensorVersion(), api.rankTensor);
  const known = placements.filter(({ tensor }) => op === tensor || op.endsWith(`/${tensor}`));
  return (
    <>
      <h4>Tensor on all ranks</h4>
      {!isTensor && (
        <p class="quiet note">Select an op or a parameter to see its values on all ranks.</p>
      )}
      {isTensor && (
        <p class="note">
          <code>{op}</code>{" "}
          <span class="quiet">
            {io} {slot}
            {known.map((each) => `, ${placementText(each)}`).join("")}
          </span>
        </p>
      )}
      {error !== null && <p class="error-line">{error}</p>}
      {loading && data === null && <p class="quiet note">…</p>}
      {data !== null && (
        <>
          <SideBySide data={data} />
          <MergeChoice merge={merge} dim={dim} data={data} />
          {data.merged === null ? (
            <p class="quiet note">Not merged: {data.why_not_merged}</p>
          ) : (
            <Merged merged={data.merged} />
          )}
        </>
      )}
    </>
  );
}

function placementText({ group, kind, dim, is_inferred: isInferred }: RankPlacement): string {
  const what = kind === "sharded" ? `sharded in dimension ${dim}` : kind;
  return `${what} over ${group}${isInferred ? " (inferred)" : ""}`;
}

interface Same {
  readonly of: RankValues;
  readonly ranks: readonly number[];
}

/** Ranks with the same values are one row, so that 64 replicas are one line. */
function grouped(rows: readonly RankValues[]): readonly Same[] {
  const found = new Map<string, { of: RankValues; ranks: number[] }>();
  for (const each of rows) {
    const key = each.same_as === null ? `why ${each.why}` : String(each.same_as);
    const known = found.get(key);
    if (known === undefined) found.set(key, { of: each, ranks: [each.rank] });
    else known.ranks.push(each.rank);
  }
  return [...found.values()];
}

function SideBySide({ data }: { readonly data: TensorOfRanks }): JSX.Element {
  const rows = grouped(data.ranks);
  const first = data.ranks.find((each) => each.type !== null)?.rank ?? 0;
  return (
    <div class="rank-table">
      <table aria-label="Tensor on all ranks">
        <thead>
          <tr>
            <th scope="col">ranks</th>
            <th scope="col">type</th>
            <th scope="col">min</th>
            <th scope="col">max</th>
            <th scope="col">mean</th>
            <th scope="col">L2</th>
            <th scope="col" title={`The largest difference from rank ${first}`}>
              max |Δ|
            </th>
            <th scope="col">cosine</th>
            <th scope="col">equal</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ of, ranks }) => (
            <Row key={ranks[0]} of={of} ranks={ranks} first={first} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ of, ranks, first }: Same & { readonly first: number }): JSX.Element {
  const { type, statistics, distances, why } = of;
  const label = rangesText(ranks);
  if (type === null)
    return (
      <tr>
        <th scope="row">{label}</th>
        <td colSpan={8} class="quiet">
          {why}
        </td>
      </tr>
    );
  const isFirst = ranks.includes(first);
  return (
    <tr class={isFirst ? "" : "differs"}>
      <th scope="row">
        <button
          type="button"
          class="link"
          title={isFirst ? "Show its values" : `Show its difference from rank ${first}`}
          onClick={() =>
            go({
              tab: "tensor",
              rank: of.rank,
              against: isFirst ? null : { ...SAME, rank: first },
            })
          }
        >
          {label}
        </button>
      </th>
      <td>{typeText(type)}</td>
      <td>{brief(statistics?.min)}</td>
      <td>{brief(statistics?.max)}</td>
      <td>{brief(statistics?.avg)}</td>
      <td>{brief(statistics?.l2norm)}</td>
      <td>{isFirst ? "–" : brief(distances?.max_abs_error)}</td>
      <td>{isFirst || distances === null ? "–" : cosineText(distances.cosine)}</td>
      <td>
        {isFirst || distances === null ? "–" : `${distances.equal_count} of ${distances.count}`}
      </td>
    </tr>
  );
}

interface MergeChoiceProps {
  readonly merge: { value: Merge };
  readonly dim: { value: number };
  readonly data: TensorOfRanks;
}

const MERGES: readonly (readonly [Merge, string])[] = [
  ["", "by placement"],
  ["concatenate", "concatenated"],
  ["mean", "mean"],
  ["sum", "sum"],
  ["one", "of one rank"],
];

function MergeChoice({ merge, dim, data }: MergeChoiceProps): JSX.Element {
  const dimensions = Math.max(...data.ranks.map((each) => each.type?.shape.length ?? 0), 1);
  return (
    <p class="actions">
      <label>
        merged{" "}
        <select
          aria-label="How ranks are merged"
          value={merge.value}
          onChange={(event) => (merge.value = event.currentTarget.value as Merge)}
        >
          {MERGES.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      {merge.value === "concatenate" && (
        <label>
          dimension{" "}
          <select
            aria-label="Dimension of the shards"
            value={String(dim.value)}
            onChange={(event) => (dim.value = Number(event.currentTarget.value))}
          >
            {Array.from({ length: dimensions }, (_, at) => (
              <option key={at} value={String(at)}>
                {at}
              </option>
            ))}
          </select>
        </label>
      )}
    </p>
  );
}

function Merged({ merged }: { readonly merged: MergedTensor }): JSX.Element {
  const how =
    merged.kind === "concatenate"
      ? `concatenated in dimension ${merged.dim}`
      : merged.kind === "one"
        ? "of one rank"
        : `the ${merged.kind} over ranks`;
  const { statistics } = merged;
  return (
    <div class="rank-merged">
      <p class="note">
        {typeText(merged.type)}, {how}
        <span class="quiet">
          {merged.is_by_placement ? " (as its placement says)" : ""}
          {statistics !== null &&
            ` · min ${brief(statistics.min)}, max ${brief(statistics.max)}, mean ${brief(statistics.avg)}, ${counted(merged.type.shape.length, "dimension")}`}
        </span>
      </p>
      {merged.type.shape.length > 0 && (
        <HeatMap
          heat={merged.heat}
          plane={parseIndex(merged.heat.index, merged.type.shape)}
          label={`All ranks together, seen from rank ${rank.value?.rank ?? 0}`}
          by="mean"
        />
      )}
    </div>
  );
}
