import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ConditionInfo, Hit, ParameterValue, RankView } from "../wire";
import { api } from "../state/api";
import { useCatalogue } from "../state/catalogue";
import { fileName, lastPart } from "../state/names";
import { brief, grouped, typeText } from "../state/numbers";
import { useSparse, type Sparse } from "../state/sparse";
import { calmTick, go, openTensor, place, rank, run, selectOp, tickedPatterns } from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";
import { TextField } from "../parts/TextField";
import { newWatchpoint } from "./dialogs";

const ROW_HEIGHT = 62;
const CHAIN_LINE = 18;
const CHAIN_MOST = 9;
const BODY_LINE = 18;
const BODY_LETTERS = 46;
const ADVICE_LINE = 16;
const ADVICE_LETTERS = 50;

const keyOf = (hit: Hit): string => `${hit.rank}.${hit.number}`;

/** Every hit of the rank, or of all, in execution order, kept for all steps. */
export function Hits(): JSX.Element {
  const { hitWatchpoint, hitVerdict, hitStep, hitOp, hitGraph, hitAllRanks, op, chains } = place.value;
  const [currentRun, currentRank] = [run.value, rank.value];
  const filter = {
    rank: hitAllRanks ? null : (currentRank?.rank ?? null),
    watchpoint: hitWatchpoint,
    graph: hitGraph,
    step: hitStep,
    op: hitOp ? op : "",
    verdict: hitVerdict,
  };
  const subject = currentRun === null ? null : JSON.stringify([currentRun.id, filter]);
  const [dropped, setDropped] = useState(0);
  const found = useSparse<Hit>(subject, calmTick("hits"), async (offset, limit, signal) => {
    const page = await api.hits(currentRun?.id ?? "", filter, offset, limit, signal);
    setDropped(page.dropped);
    return { total: page.total, items: page.hits };
  });
  const conditions = useCatalogue().data?.conditions ?? [];
  const isFiltered = hitWatchpoint !== null || hitVerdict !== "" || hitStep !== null || hitOp || hitGraph !== null;
  const stop = isFiltered ? undefined : placeOfStop(found, currentRank);
  const infoOf = (hit: Hit): ConditionInfo | undefined => conditions.find((each) => each.id === hit.condition);
  return (
    <div class="hits">
      <HitFilters total={found.total} loading={found.loading} />
      {found.error !== null && <p class="error-line">{found.error}</p>}
      {dropped > 0 && <p class="quiet note">{grouped(dropped)} others were not kept: there are so many that the server has the first and the newest.</p>}
      {!found.loading && found.total === 0 && found.error === null && (isFiltered ? <NoneMatches /> : <NoHits />)}
      {found.total > 0 && (
        <Rows
          subject={`hits ${subject ?? ""}`}
          count={found.total}
          height={(at) => heightOf(found.at(at), chains, infoOf)}
          heights={`${conditions.length} ${chains.map((key) => found.find((hit) => keyOf(hit) === key)).join(" ")}`}
          label="Hits"
          {...(stop === undefined ? {} : { show: stop })}
          row={(at) => {
            const hit = found.at(at);
            return hit === null ? <div class="hit quiet">…</div> : <HitRow hit={hit} info={infoOf(hit)} isOpen={chains.includes(keyOf(hit))} />;
          }}
        />
      )}
    </div>
  );
}

/** Where in the list the training stands: at its end, or, once that is here, at the hit the training names. */
function placeOfStop(found: Sparse<Hit>, current: RankView | null): number | undefined {
  if (current === null || current.state !== "paused" || current.reason !== "hit") return undefined;
  const isNamed = (hit: Hit): boolean => hit.op === current.op || current.message.endsWith(` ${hit.op}`);
  const named = found.find((hit) => hit.verdict === "hit" && hit.step >= current.step - 1 && isNamed(hit));
  return named === -1 ? found.total - 1 : named;
}

function heightOf(hit: Hit | null, chains: readonly string[], infoOf: (hit: Hit) => ConditionInfo | undefined): number {
  if (hit === null) return ROW_HEIGHT;
  const row = isLong(hit, infoOf(hit)) ? ROW_HEIGHT + BODY_LINE : ROW_HEIGHT;
  if (!chains.includes(keyOf(hit))) return row;
  const chain = hit.chain.length > 1 ? Math.min(hit.chain.length, CHAIN_MOST) * CHAIN_LINE + 4 : 0;
  return row + chain + Math.ceil(adviceOf(hit, infoOf(hit)).length / ADVICE_LETTERS) * ADVICE_LINE + 6;
}

/** Whether what was asked and found needs two lines. */
function isLong(hit: Hit, info: ConditionInfo | undefined): boolean {
  const values = hit.values.map((value) => valueText(value).join(" ").length + 2);
  return values.reduce((sum, length) => sum + length, titleOf(hit, info).length) > BODY_LETTERS;
}

/** The parts of a value: its name, what was set, what was found. */
function valueText({ name, preset, actual }: ParameterValue): readonly [string, string, string] {
  const set = preset === null ? "" : `set ${brief(preset)}${actual === null ? "" : ","}`;
  return [name, set, actual === null ? "" : `found ${brief(actual)}`];
}

function titleOf(hit: Hit, info: ConditionInfo | undefined): string {
  return info?.title ?? run.value?.watchpoints.find((each) => each.id === hit.watchpoint)?.name ?? hit.condition;
}

/** What was found in full, where a line cuts it, and what to do. */
function adviceOf(hit: Hit, info: ConditionInfo | undefined): string {
  return [hit.why === "" || /[.!?]$/.test(hit.why) ? hit.why : `${hit.why}.`, info?.advice ?? ""].filter((text) => text !== "").join(" ");
}

function NoneMatches(): JSX.Element {
  return (
    <Empty title="No hit matches">
      <button type="button" onClick={() => go({ hitWatchpoint: null, hitVerdict: "", hitStep: null, hitOp: false, hitGraph: null })}>
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
      <button type="button" class="primary" onClick={() => newWatchpoint(tickedPatterns.value)}>
        new watchpoint
      </button>
    </Empty>
  );
}

/** How many hits there are of the ranks that are listed, without what could not be decided. */
function hitCount(): number {
  const all = place.value.hitAllRanks ? (run.value?.ranks ?? []) : rank.value === null ? [] : [rank.value];
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
        onChange={(event) => go({ hitWatchpoint: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}
      >
        <option value="">watchpoint</option>
        {(run.value?.watchpoints ?? []).map((each) => (
          <option key={each.id} value={String(each.id)}>
            {each.name}
          </option>
        ))}
      </select>
      <select aria-label="Verdict" class={now.hitVerdict === "" ? "" : "active"} value={now.hitVerdict} onChange={(event) => go({ hitVerdict: event.currentTarget.value })}>
        <option value="">verdict</option>
        <option value="hit">hits ({grouped(hitCount())})</option>
        <option value="undecided">undecided</option>
      </select>
      <TextField
        label="Step"
        class={now.hitStep === null ? "short" : "short active"}
        placeholder="step"
        numeric
        value={now.hitStep === null ? "" : String(now.hitStep)}
        onDone={(text) => go({ hitStep: /^\d+$/.test(text) ? Number(text) : null })}
      />
      <Where />
      {(run.value?.ranks.length ?? 0) > 1 && (
        <button type="button" class="small toggle" aria-pressed={now.hitAllRanks} title="Hits of all ranks, not only of the one that is shown" onClick={() => go({ hitAllRanks: !now.hitAllRanks })}>
          all ranks
        </button>
      )}
      <span class="spacer" />
      <span class="quiet" role="status" title="So many are listed here, undecided ones too">
        {loading ? "…" : grouped(total)}
      </span>
    </div>
  );
}

/** Hits of the selected op alone, or of the steps that ran one graph. */
function Where(): JSX.Element {
  const { op, hitOp, hitGraph } = place.value;
  const known = (rank.value?.graphs ?? []).map((each) => each.id);
  const all = hitGraph === null || known.includes(hitGraph) ? known : [...known, hitGraph];
  const numbers = all.length > 1 || hitGraph !== null ? all : [];
  return (
    <select
      aria-label="Where"
      class={hitOp || hitGraph !== null ? "active" : ""}
      value={hitOp ? "op" : hitGraph === null ? "" : String(hitGraph)}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        go({ hitOp: chosen === "op", hitGraph: /^\d+$/.test(chosen) ? Number(chosen) : null });
      }}
    >
      <option value="">where</option>
      <option value="op" disabled={op === "" && !hitOp}>
        this op
      </option>
      {numbers.map((number) => (
        <option key={number} value={String(number)}>
          graph {number}
        </option>
      ))}
    </select>
  );
}

interface HitRowProps {
  readonly hit: Hit;
  readonly info: ConditionInfo | undefined;
  readonly isOpen: boolean;
}

function HitRow({ hit, info, isOpen }: HitRowProps): JSX.Element {
  const watchpoint = run.value?.watchpoints.find((each) => each.id === hit.watchpoint);
  const { op, step, chains } = place.value;
  const advice = adviceOf(hit, info);
  const isSelected = op === hit.op && (step === null || step === hit.step) && hit.rank === rank.value?.rank;
  const here = { rank: hit.rank === rank.value?.rank ? place.value.rank : hit.rank };
  const toggle = (button: HTMLElement): void => {
    go({ chains: isOpen ? chains.filter((each) => each !== keyOf(hit)) : [...chains, keyOf(hit)] });
    // What unfolds at the foot of the list is to be seen.
    requestAnimationFrame(() => button.closest(".row-place")?.scrollIntoView({ block: "nearest" }));
  };
  return (
    <div class={`hit ${hit.verdict} ${hit.part} ${isSelected ? "selected" : ""}`} role="listitem">
      <div class="hit-head" title={hit.op} onClick={() => selectOp(hit.op, { io: hit.io, slot: hit.slot, step: hit.step, index: "", against: null, ...here })}>
        <span class="hit-step">
          {place.value.hitAllRanks && `rank ${hit.rank}, `}step {hit.step}
        </span>
        <button type="button" class="link name">
          {lastPart(hit.op)}
        </button>
        {hit.op.includes("/") && (
          <span class="quiet slot-name">
            {hit.io} {hit.slot}
          </span>
        )}
        <span class="spacer" />
        {hit.verdict === "undecided" ? <span class="badge-text undecided">undecided</span> : <PartBadge part={hit.part} />}
      </div>
      <div class={isLong(hit, info) ? "hit-body long" : "hit-body"} title={[watchpoint?.name, info?.formula, hit.why].filter((text) => text !== undefined && text !== "").join("\n")}>
        <span class="quiet">{titleOf(hit, info)}</span>
        <Values values={hit.values} />
        {hit.count > 1 && <span class="quiet">×{grouped(hit.count)}</span>}
        <span class="why">
          {hit.values.length > 0 && hit.why !== "" && "· "}
          {hit.why}
        </span>
      </div>
      <div class="hit-foot">
        <button type="button" class="link" title="Open the tensor" onClick={() => openTensor(hit.op, hit.io, hit.slot, hit.step)}>
          {typeText(hit.type)}
        </button>
        {hit.source !== null && (
          <span class="quiet name" title={`${hit.source.file}:${hit.source.line}\n${hit.source.code.trim()}`}>
            {fileName(hit.source.file)}:{hit.source.line}
          </span>
        )}
        <span class="spacer" />
        {hit.origin !== null && hit.part !== "producer" && (
          <button type="button" class="link origin-link" title={`Made by ${hit.origin}`} onClick={() => selectOp(hit.origin ?? "", { step: hit.step, ...here })}>
            origin: {lastPart(hit.origin)}
          </button>
        )}
        {(hit.chain.length > 1 || advice !== "") && (
          <button type="button" class="link" aria-expanded={isOpen} title={hit.chain.length > 1 ? "The ops from the origin to here, and what to do" : "What was found, and what to do"} onClick={(event) => toggle(event.currentTarget)}>
            {hit.chain.length > 1 ? `chain of ${hit.chain.length}` : "advice"}
          </button>
        )}
      </div>
      {isOpen && hit.chain.length > 1 && <Chain hit={hit} />}
      {isOpen && advice !== "" && <p class="advice">{advice}</p>}
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
      {values.map((value) => {
        const [name, set, found] = valueText(value);
        return (
          <span key={name}>
            {name} {set !== "" && <span class="quiet">{set} </span>}
            {found !== "" && <b>{found}</b>}
          </span>
        );
      })}
    </span>
  );
}

function Chain({ hit }: { hit: Hit }): JSX.Element {
  return (
    <ol class="chain" aria-label="From the origin to here">
      {hit.chain.map((op, at) => (
        <li key={`${at} ${op}`}>
          <button type="button" class="link" title={op} onClick={() => selectOp(op, { step: hit.step })}>
            {lastPart(op)}
          </button>
          {op === hit.origin && <span class="badge-text producer">origin</span>}
        </li>
      ))}
    </ol>
  );
}
