import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Hit, ParameterValue } from "../wire";
import { api } from "../state/api";
import { useCatalogue } from "../state/catalogue";
import { fileName, lastPart } from "../state/names";
import { brief, grouped, typeText } from "../state/numbers";
import { usePages } from "../state/pages";
import { calmTick, go, openTensor, place, rank, run, selectOp } from "../state/store";
import { Empty } from "../parts/Empty";
import { newWatchpoint } from "./dialogs";
import { tickedPaths } from "../state/preferences";

/** Every hit of the rank, in execution order, kept for all steps. */
export function Hits(): JSX.Element {
  const { hitWatchpoint, hitVerdict, hitStep, hitOp, op } = place.value;
  const [currentRun, currentRank] = [run.value, rank.value];
  const filter = {
    rank: currentRank?.rank ?? null,
    watchpoint: hitWatchpoint,
    step: hitStep,
    op: hitOp ? op : "",
    verdict: hitVerdict,
  };
  const found = usePages<Hit>(
    currentRun === null ? null : JSON.stringify([currentRun.id, filter]),
    calmTick("hits"),
    async (offset, limit, signal) => {
      const page = await api.hits(currentRun?.id ?? "", filter, offset, limit, signal);
      return { total: page.total, items: page.hits };
    },
  );
  const isFiltered = hitWatchpoint !== null || hitVerdict !== "" || hitStep !== null || hitOp;
  return (
    <div class="hits">
      <HitFilters total={found.total} loading={found.loading} />
      {found.error !== null && <p class="error-line">{found.error}</p>}
      {!found.loading && found.total === 0 && found.error === null && (isFiltered ? <NoneMatches /> : <NoHits />)}
      <div
        class="hit-list"
        role="list"
        aria-label="Hits"
        onScroll={(event) => {
          const list = event.currentTarget;
          if (list.scrollTop + list.clientHeight > list.scrollHeight - 400) found.reach(found.items.length);
        }}
      >
        {found.items.map((hit) => (
          <HitRow key={`${hit.rank} ${hit.number}`} hit={hit} />
        ))}
        {found.items.length < found.total && (
          <button type="button" class="small" onClick={() => found.reach(found.items.length)}>
            {grouped(found.total - found.items.length)} more
          </button>
        )}
      </div>
    </div>
  );
}

function NoneMatches(): JSX.Element {
  return (
    <Empty title="No hit matches">
      <button type="button" onClick={() => go({ hitWatchpoint: null, hitVerdict: "", hitStep: null, hitOp: false })}>
        show all
      </button>
    </Empty>
  );
}

function NoHits(): JSX.Element {
  const count = run.value?.watchpoints.length ?? 0;
  if (count > 0) return <Empty title="No hits">{count === 1 ? "The watchpoint has" : `The ${count} watchpoints have`} not met anything yet.</Empty>;
  return (
    <Empty title="Nothing is watched">
      <button type="button" class="primary" onClick={() => newWatchpoint(tickedPaths.value)}>
        new watchpoint
      </button>
    </Empty>
  );
}

function HitFilters({ total, loading }: { total: number; loading: boolean }): JSX.Element {
  const now = place.value;
  return (
    <div class="filters">
      <select
        aria-label="Watchpoint"
        value={now.hitWatchpoint === null ? "" : String(now.hitWatchpoint)}
        onChange={(event) => go({ hitWatchpoint: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}
      >
        <option value="">watchpoint</option>
        {(run.value?.watchpoints ?? []).map((each) => (
          <option key={each.id} value={String(each.id)}>
            {each.name}
          </option>
        ))}
      </select>
      <select aria-label="Verdict" value={now.hitVerdict} onChange={(event) => go({ hitVerdict: event.currentTarget.value })}>
        <option value="">verdict</option>
        <option value="hit">hits</option>
        <option value="undecided">undecided</option>
      </select>
      <input
        type="number"
        class="short"
        placeholder="step"
        aria-label="Step"
        value={now.hitStep ?? ""}
        onChange={(event) => go({ hitStep: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}
      />
      <button type="button" class="small toggle" aria-pressed={now.hitOp} disabled={now.op === "" && !now.hitOp} onClick={() => go({ hitOp: !now.hitOp })}>
        this op
      </button>
      <span class="spacer" />
      <span class="quiet" role="status">
        {loading ? "…" : grouped(total)}
      </span>
    </div>
  );
}

function HitRow({ hit }: { hit: Hit }): JSX.Element {
  const showsChain = useSignal(false);
  const watchpoint = run.value?.watchpoints.find((each) => each.id === hit.watchpoint);
  const info = useCatalogue().data?.conditions.find((each) => each.id === hit.condition);
  const { op, step } = place.value;
  const isSelected = op === hit.op && (step === null || step === hit.step);
  return (
    <div class={`hit ${hit.verdict} ${hit.part} ${isSelected ? "selected" : ""}`} role="listitem">
      <div class="hit-head" title={hit.op} onClick={() => selectOp(hit.op, { io: hit.io, slot: hit.slot, step: hit.step, index: "", against: null })}>
        <span class="hit-step">step {hit.step}</span>
        <button type="button" class="link name">
          {lastPart(hit.op)}
        </button>
        <span class="quiet">
          {hit.io} {hit.slot}
        </span>
        <span class="spacer" />
        {hit.verdict === "undecided" ? <span class="badge-text undecided">undecided</span> : <PartBadge part={hit.part} />}
      </div>
      <div class="hit-body">
        <span class="quiet" title={[watchpoint?.name, info?.formula, info?.advice].filter((text) => text !== undefined && text !== "").join("\n")}>
          {info?.title ?? watchpoint?.name ?? hit.condition}
        </span>
        <Values values={hit.values} />
        {hit.count > 1 && <span class="quiet">×{grouped(hit.count)}</span>}
      </div>
      {hit.why !== "" && <p class="why">{hit.why}</p>}
      <div class="hit-foot">
        <button type="button" class="link" onClick={() => openTensor(hit.op, hit.io, hit.slot, hit.step)}>
          {typeText(hit.type)}
        </button>
        {hit.source !== null && (
          <span class="quiet" title={hit.source.code}>
            {fileName(hit.source.file)}:{hit.source.line}
          </span>
        )}
        <span class="spacer" />
        {hit.origin !== null && hit.part !== "producer" && (
          <button type="button" class="link origin-link" title={`Made by ${hit.origin}`} onClick={() => selectOp(hit.origin ?? "")}>
            origin: {lastPart(hit.origin)}
          </button>
        )}
        {hit.chain.length > 1 && (
          <button type="button" class="link" aria-expanded={showsChain.value} onClick={() => (showsChain.value = !showsChain.value)}>
            chain of {hit.chain.length}
          </button>
        )}
      </div>
      {showsChain.value && <Chain hit={hit} />}
    </div>
  );
}

export function PartBadge({ part }: { readonly part: Hit["part"] }): JSX.Element | null {
  switch (part) {
    case "producer":
      return (
        <span class="badge-text producer" title="Finite inputs, non-finite output: made here">
          producer
        </span>
      );
    case "carrier":
      return (
        <span class="badge-text carrier" title="Non-finite values came in and were passed on">
          carrier
        </span>
      );
    case "other":
      return null;
  }
}

function Values({ values }: { values: readonly ParameterValue[] }): JSX.Element {
  return (
    <span class="hit-values">
      {values.map((value) => (
        <span key={value.name}>
          {value.name} {value.preset !== null && <span class="quiet">{brief(value.preset)}</span>}
          {value.actual !== null && <b> → {brief(value.actual)}</b>}
        </span>
      ))}
    </span>
  );
}

function Chain({ hit }: { hit: Hit }): JSX.Element {
  return (
    <ol class="chain" aria-label="From the origin to here">
      {hit.chain.map((op, at) => (
        <li key={op} class={at === 0 ? "origin" : ""}>
          <button type="button" class="link" title={op} onClick={() => selectOp(op)}>
            {lastPart(op)}
          </button>
          {at === 0 && <span class="badge-text producer">origin</span>}
        </li>
      ))}
    </ol>
  );
}
