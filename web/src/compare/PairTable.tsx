import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { ComparisonView, PairStatus, PairView } from "../wire";
import { api } from "../load/api";
import { shortName } from "../text/names";
import { brief, cosineText, grouped } from "../text/numbers";
import { go, place, run } from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";
import { openPair } from "./openPair";
import { usePagedList } from "../load/pagedList";

const ROW_HEIGHT = 26;
const WAIT_MILLISECONDS = 150;
export const STATUSES: readonly PairStatus[] = [
  "diverged",
  "inherited",
  "incomparable",
  "rounding",
  "within",
  "equal",
  "not dumped",
];

/** Every pair of ops, in execution order or the worst first. */
export function PairTable({ view }: { view: ComparisonView }): JSX.Element {
  const { pairQuery, pairStatus, pairSort } = place.value;
  const id = run.value?.id ?? "";
  const filter = { query: pairQuery, status: pairStatus, sort: pairSort };
  const found = usePagedList({ run: id, ...filter }, view.pairs, async (request, signal) => {
    const page = await api.pairs(request, signal);
    return { total: page.total, items: page.pairs };
  });
  const first = view.first?.pair.number ?? -1;
  return (
    <div class="pair-table">
      <PairFilters view={view} total={found.total} loading={found.loading} />
      {found.error !== null && <p class="error-line">{found.error}</p>}
      <div class="pair-row pair-head" aria-hidden="true">
        <span>step</span>
        <span>pair</span>
        <span>status</span>
        <span>a ↔ b</span>
        <span>relative L2</span>
        <span>max abs</span>
        <span>cosine</span>
        <span>allowed</span>
      </div>
      {!found.loading && found.total === 0 && <Empty title="No pair matches" />}
      <Rows
        subject={`pairs ${id} ${JSON.stringify(filter)}`}
        count={found.total}
        height={ROW_HEIGHT}
        label="Pairs"
        row={(place) => <Row view={view} pair={found.at(place)} first={first} />}
      />
    </div>
  );
}

function Row({
  view,
  pair,
  first,
}: {
  view: ComparisonView;
  pair: PairView | null;
  first: number;
}): JSX.Element {
  if (pair === null) return <div class="pair-row quiet">…</div>;
  const tensors = pair.tensors[0];
  const distances = tensors?.distances ?? null;
  const isFirst = pair.number === first;
  return (
    <button
      type="button"
      class={`pair-row line ${isFirst ? "first" : ""}`}
      title={`${pair.a}\n${pair.b}\npaired by ${pair.how}${pair.notes.map((note) => `\n${note}`).join("")}`}
      onClick={() => openPair(view, pair)}
    >
      <span>{pair.step}</span>
      <span>{pair.order}</span>
      <span>
        <span class={`pair-status ${pair.status.replace(" ", "-")}`}>
          {isFirst ? "first divergence" : pair.status}
        </span>
      </span>
      <span class="name">
        {pair.a === pair.b ? shortName(pair.a) : `${shortName(pair.a)} ↔ ${shortName(pair.b)}`}
      </span>
      <span>{pair.status === "not dumped" ? "" : brief(pair.error)}</span>
      <span>{distances === null ? "" : brief(distances.max_abs_error)}</span>
      <span>{distances === null ? "" : cosineText(distances.cosine)}</span>
      <span>{pair.status === "not dumped" ? "" : brief(pair.allowed)}</span>
    </button>
  );
}

function PairFilters({
  view,
  total,
  loading,
}: {
  view: ComparisonView;
  total: number;
  loading: boolean;
}): JSX.Element {
  const waiting = useRef(0);
  const { pairQuery, pairStatus, pairSort } = place.value;
  const search = (text: string): void => {
    window.clearTimeout(waiting.current);
    waiting.current = window.setTimeout(() => go({ pairQuery: text }), WAIT_MILLISECONDS);
  };
  return (
    <div class="filters">
      <input
        type="search"
        placeholder="Search pairs"
        aria-label="Search pairs"
        value={pairQuery}
        spellcheck={false}
        onInput={(event) => search(event.currentTarget.value)}
      />
      <select
        aria-label="Status"
        value={pairStatus}
        onChange={(event) => go({ pairStatus: event.currentTarget.value })}
      >
        <option value="">status</option>
        {STATUSES.filter((status) => (view.counts[status] ?? 0) > 0).map((status) => (
          <option key={status} value={status}>
            {status} ({grouped(view.counts[status] ?? 0)})
          </option>
        ))}
      </select>
      <div class="segments" role="tablist" aria-label="Order of the pairs">
        <button
          type="button"
          role="tab"
          aria-selected={pairSort === "order"}
          onClick={() => go({ pairSort: "order" })}
        >
          execution order
        </button>
        <button
          type="button"
          role="tab"
          aria-selected={pairSort === "error"}
          onClick={() => go({ pairSort: "error" })}
        >
          largest distance
        </button>
      </div>
      <span class="spacer" />
      <span class="quiet" role="status">
        {loading ? "…" : grouped(total)}
      </span>
    </div>
  );
}
