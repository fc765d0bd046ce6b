import type { JSX } from "preact";
import type { ListedNode } from "../wire";
import { api } from "../state/api";
import { asScope, fileName, lastPart } from "../state/names";
import { grouped } from "../state/numbers";
import { usePages } from "../state/pages";
import { calmTick, go, graph, place, rank, run, selectOp } from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";
import { TickBox } from "./NodeList";

const ROW_HEIGHT = 38;

/** The ops that match the search and the filters, in execution order. */
export function NodeResults(): JSX.Element {
  const { query, category, phase, file, line, onlyHits, op } = place.value;
  const [currentRun, currentRank, currentGraph] = [run.value, rank.value, graph.value];
  const filter = { query, category, phase, file, line, hits: onlyHits };
  const isReady = currentRun !== null && currentRank !== null && currentGraph !== null;
  const subject = isReady
    ? JSON.stringify([currentRun.id, currentRank.rank, currentGraph.id, filter])
    : null;
  const found = usePages<ListedNode>(subject, `${currentGraph?.nodes ?? 0} ${calmTick("hits")}`, async (offset, limit, signal) => {
    const page = await api.nodes(currentRun?.id ?? "", currentRank?.rank ?? 0, currentGraph?.id ?? 0, filter, offset, limit, signal);
    return { total: page.total, items: page.nodes };
  });
  if (found.error !== null) return <p class="error-line">{found.error}</p>;
  if (!found.loading && found.total === 0) {
    return (
      <Empty title="No op matches">
        <button type="button" onClick={() => go({ query: "", category: "", phase: "", file: "", line: null, onlyHits: false })}>
          clear search and filters
        </button>
      </Empty>
    );
  }
  return (
    <>
      <p class="result-count quiet" role="status">
        {found.loading ? "searching…" : `${grouped(found.total)} ${found.total === 1 ? "match" : "matches"}`}
      </p>
      <Rows
        count={found.items.length}
        height={ROW_HEIGHT}
        label="Matching ops"
        role="listbox"
        show={found.items.findIndex((node) => node.name === op)}
        onReach={found.reach}
        row={(at) => {
          const node = found.items[at];
          return node === undefined ? <span /> : <Result node={node} />;
        }}
      />
    </>
  );
}

function Result({ node }: { node: ListedNode }): JSX.Element {
  const isSelected = node.name === place.value.op;
  return (
    <div class={`result line ${isSelected ? "selected" : ""}`} role="option" data-path={node.name} aria-selected={isSelected} title={node.name} onClick={() => selectOp(node.name)}>
      <TickBox path={node.name} scope={asScope(node.scope)} />
      <div class="two-lines">
        <span class={`name kind-${node.kind}`}>{lastPart(node.name)}</span>
        <span class="under">{node.scope.replace(/\/$/, "")}</span>
      </div>
      <div class="two-lines right">
        <span>
          <span class={`phase ${node.phase}`}>{node.phase}</span>
          {node.hits > 0 && <span class="hit-count">{grouped(node.hits)}</span>}
        </span>
        <span class="under">{node.source === null ? "" : `${fileName(node.source.file)}:${node.source.line}`}</span>
      </div>
    </div>
  );
}
