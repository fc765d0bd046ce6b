import type { JSX } from "preact";
import type { ComparisonView, UnpairedView } from "../wire";
import { api } from "../load/api";
import { run, selectOp } from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";
import { usePagedList } from "../load/pagedList";

const ROW_HEIGHT = 26;

/** The ops of one side that have no counterpart, and why. */
export function Unpaired({ view, side }: { view: ComparisonView; side: "a" | "b" }): JSX.Element {
  const id = run.value?.id ?? "";
  const found = usePagedList({ run: id, side }, view.pairs, async (request, signal) => {
    const page = await api.unpaired(request, signal);
    return { total: page.total, items: page.unpaired };
  });
  if (found.error !== null) return <p class="error-line">{found.error}</p>;
  if (!found.loading && found.total === 0) return <Empty title="Every op has a counterpart" />;
  return (
    <Rows
      subject={`unpaired ${id} ${side}`}
      count={found.total}
      height={ROW_HEIGHT}
      label={`Ops only in ${side}`}
      row={(place) => <Row each={found.at(place)} isHere={view.side === side} />}
    />
  );
}

function Row({ each, isHere }: { each: UnpairedView | null; isHere: boolean }): JSX.Element {
  if (each === null) return <div class="unpaired-row quiet">…</div>;
  return (
    <button
      type="button"
      class="unpaired-row line"
      title={each.op}
      disabled={!isHere}
      onClick={() => selectOp(each.op, { tab: "graph", step: each.step, rank: each.rank })}
    >
      <span>{each.step}</span>
      <span class="name">{each.op}</span>
      <span class="quiet">{each.reason}</span>
    </button>
  );
}
