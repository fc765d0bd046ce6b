import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ConditionInfo, Hit, HitPhase, RankView } from "../wire";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { graphName } from "../text/names";
import { grouped } from "../text/numbers";
import { usePagedList, type PagedList } from "../load/pagedList";
import { throttledVersion, go, isOver, place, rank, run, tickedPatterns } from "../state/store";
import { HIT_PHASES } from "../state/place";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";
import { TextField } from "../parts/TextField";
import { newWatchpoint } from "./dialogs";
import { isSameHit } from "../state/hits";
import { Causes, PHASES } from "./Causes";
import { HitRow, keyOf } from "./HitRow";
import { StartCard } from "./Presets";

/** A hit of three lines; hits with more are measured when they are shown. */
const ROW_HEIGHT = 62;

/** The hits of all steps, of one rank or of all ranks, in execution order. */
export function Hits(): JSX.Element {
  const { hitWatchpoint, hitVerdict, hitStep, hitOp, hitGraph, hitPhase, hitAllRanks, op, chains } =
    place.value;
  const [currentRun, currentRank] = [run.value, rank.value];
  const filter = {
    rank: hitAllRanks && (currentRun?.ranks.length ?? 0) > 1 ? null : (currentRank?.rank ?? null),
    watchpoint: hitWatchpoint,
    graph: hitGraph,
    step: hitStep,
    op: hitOp ? op : "",
    phase: hitPhase,
    verdict: hitVerdict,
  };
  const isFiltered =
    hitWatchpoint !== null ||
    hitVerdict !== "" ||
    hitStep !== null ||
    hitOp ||
    hitGraph !== null ||
    hitPhase !== "";
  const isByCause = place.value.hitView === "causes" && !isFiltered;
  const request = currentRun === null ? null : { run: currentRun.id, ...filter };
  const [dropped, setDropped] = useState(0);
  const found = usePagedList(request, throttledVersion("hits"), async (wanted, signal) => {
    const page = await api.hits(wanted, signal);
    setDropped(page.dropped);
    return { total: page.total, items: page.hits };
  });
  const conditions = useConditions().data?.conditions ?? [];
  const stop = isFiltered ? undefined : indexOfStop(found, currentRank);
  const infoOf = (hit: Hit): ConditionInfo | undefined =>
    conditions.find((each) => each.id === hit.condition);
  return (
    <div class="hits">
      <HitFilters total={found.total} loading={found.loading} />
      {found.error !== null && <p class="error-line">{found.error}</p>}
      {dropped > 0 && (
        <p class="quiet note">
          {grouped(dropped)} more hits were dropped: the server keeps the first and the newest ones.
        </p>
      )}
      {!found.loading &&
        found.total === 0 &&
        found.error === null &&
        (isFiltered ? <NoneMatches /> : <NoHits />)}
      {found.total > 0 && isByCause && <Causes />}
      {found.total > 0 && !isByCause && (
        <Rows
          subject={`hits ${JSON.stringify(request)}`}
          count={found.total}
          height={ROW_HEIGHT}
          isMeasured
          label="Hits"
          {...(stop === undefined ? {} : { show: stop })}
          row={(at) => {
            const hit = found.at(at);
            return hit === null ? (
              <div class="hit quiet">…</div>
            ) : (
              <HitRow hit={hit} info={infoOf(hit)} isOpen={chains.includes(keyOf(hit))} />
            );
          }}
        />
      )}
    </div>
  );
}

/**
 * The index of the hit at which the training is paused; of the last hit while that is not loaded.
 */
function indexOfStop(found: PagedList<Hit>, current: RankView | null): number | undefined {
  if (current?.state !== "paused" || current.reason !== "hit") return undefined;
  const { hit: stop } = current;
  const index = stop === null ? -1 : found.find((hit) => isSameHit(hit, stop));
  return index === -1 ? found.total - 1 : index;
}

function NoneMatches(): JSX.Element {
  return (
    <Empty title="No hit matches">
      <button
        type="button"
        onClick={() =>
          go({
            hitWatchpoint: null,
            hitVerdict: "",
            hitStep: null,
            hitOp: false,
            hitGraph: null,
            hitPhase: "",
          })
        }
      >
        show all
      </button>
    </Empty>
  );
}

function NoHits(): JSX.Element {
  const count = run.value?.watchpoints.length ?? 0;
  const unobserved = run.value?.unobserved ?? [];
  if (count > 0 && unobserved.length > 0)
    return (
      <Empty title="No hits in what was observed">{`Not observed: ${unobserved.join("; ")}`}</Empty>
    );
  if (count > 0)
    return (
      <>
        {run.value !== null && <StartCard current={run.value} />}
        <Empty title="No hits">
          {count === 1
            ? `The watchpoint was not hit${isOver.value ? "" : " yet"}.`
            : `None of the ${count} watchpoints was hit${isOver.value ? "" : " yet"}.`}
        </Empty>
      </>
    );
  if (isOver.value)
    return <Empty title="No hits">Nothing was watched. The training has ended.</Empty>;
  return (
    <Empty title="No watchpoints yet">
      <button type="button" class="primary" onClick={() => newWatchpoint(tickedPatterns.value)}>
        new watchpoint
      </button>
    </Empty>
  );
}

/** The number of hits of the listed ranks, without undecided results. */
function hitCount(): number {
  const all = place.value.hitAllRanks
    ? (run.value?.ranks ?? [])
    : rank.value === null
      ? []
      : [rank.value];
  return all.reduce((sum, each) => sum + each.hits, 0);
}

function HitFilters({ total, loading }: { total: number; loading: boolean }): JSX.Element {
  const now = place.value;
  return (
    <div class="filters">
      <select
        aria-label="Watchpoint"
        class={now.hitWatchpoint === null ? "" : "active"}
        value={now.hitWatchpoint === null ? "" : String(now.hitWatchpoint)}
        onChange={(event) =>
          go({
            hitWatchpoint:
              event.currentTarget.value === "" ? null : Number(event.currentTarget.value),
          })
        }
      >
        <option value="">watchpoint</option>
        {(run.value?.watchpoints ?? []).map((each) => (
          <option key={each.id} value={String(each.id)}>
            {each.name}
          </option>
        ))}
      </select>
      <select
        aria-label="Result"
        class={now.hitVerdict === "" ? "" : "active"}
        value={now.hitVerdict}
        onChange={(event) => go({ hitVerdict: event.currentTarget.value })}
      >
        <option value="">result</option>
        <option value="hit">hits ({grouped(hitCount())})</option>
        <option value="undecided">not checkable</option>
      </select>
      <TextField
        label="Step"
        class={now.hitStep === null ? "short" : "short active"}
        placeholder="step"
        numeric
        value={now.hitStep === null ? "" : String(now.hitStep)}
        onDone={(text) => go({ hitStep: /^\d+$/.test(text) ? Number(text) : null })}
      />
      <LocationFilter />
      <select
        aria-label="Phase of hits"
        class={now.hitPhase === "" ? "" : "active"}
        value={now.hitPhase}
        onChange={(event) => go({ hitPhase: phaseOf(event.currentTarget.value) })}
      >
        <option value="">phase</option>
        {HIT_PHASES.map((phase) => (
          <option key={phase} value={phase}>
            {PHASES[phase]}
          </option>
        ))}
      </select>
      {(run.value?.ranks.length ?? 0) > 1 && (
        <button
          type="button"
          class="small toggle"
          aria-pressed={now.hitAllRanks}
          title="Show the hits of all ranks"
          onClick={() => go({ hitAllRanks: !now.hitAllRanks })}
        >
          all ranks
        </button>
      )}
      <button
        type="button"
        class="small toggle"
        aria-pressed={now.hitView === "causes"}
        title="Group the hits by the op that they come from"
        onClick={() => go({ hitView: now.hitView === "causes" ? "list" : "causes" })}
      >
        by cause
      </button>
      <span class="spacer" />
      <span
        class="quiet"
        role="status"
        title="Hits, and results that are not checkable, in this list"
      >
        {loading ? "…" : `${grouped(total)} ${total === 1 ? "result" : "results"}`}
      </span>
    </div>
  );
}

function phaseOf(text: string): HitPhase | "" {
  return HIT_PHASES.find((phase) => phase === text) ?? "";
}

/** Limits the list to the selected op, or to steps that ran one graph. */
function LocationFilter(): JSX.Element {
  const { op, hitOp, hitGraph } = place.value;
  const graphs = rank.value?.graphs ?? [];
  const known = graphs.map((each) => each.id);
  const text = (number: number): string => {
    const found = graphs.find((each) => each.id === number);
    return found === undefined ? `graph ${number}` : graphName(found, graphs);
  };
  const all = hitGraph === null || known.includes(hitGraph) ? known : [...known, hitGraph];
  const numbers = all.length > 1 || hitGraph !== null ? all : [];
  return (
    <select
      aria-label="Location"
      class={hitOp || hitGraph !== null ? "active" : ""}
      value={hitOp ? "op" : hitGraph === null ? "" : String(hitGraph)}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        go({ hitOp: chosen === "op", hitGraph: /^\d+$/.test(chosen) ? Number(chosen) : null });
      }}
    >
      <option value="">location</option>
      <option value="op" disabled={op === "" && !hitOp}>
        {" "}
        selected op{" "}
      </option>
      {numbers.map((number) => (
        <option key={number} value={String(number)}>
          {text(number)}
        </option>
      ))}
    </select>
  );
}
