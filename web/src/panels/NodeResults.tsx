import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { ListedNode } from "../wire";
import { api } from "../load/api";
import { Highlighted } from "../parts/Highlighted";
import { commonParts, differingPart } from "../text/differing";
import { asScope, fileName, graphName, lastPart, leafText, phaseText } from "../text/names";
import { grouped } from "../text/numbers";
import { usePagedList } from "../load/pagedList";
import {
  go,
  graph,
  graphAt,
  place,
  rank,
  selectOp,
  throttledVersion,
  toggleTick,
} from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";
import { nextPlace, runListKey, useSelectNext } from "./listKeys";
import { nodeTicks } from "../state/preferences";
import { coverage } from "../state/ticks";
import { TickMark } from "./NodeList";

const ROW_HEIGHT = 38;
const MOST_OTHERS = 4;
/** So many results decide which part of a scope distinguishes them. */
const MOST_COMPARED = 200;

/** The ops that match the search and the filters, in execution order. */
export function NodeResults(): JSX.Element {
  const { query, category, phase, file, line, onlyHits, op } = place.value;
  const [shownGraph, currentRank, currentGraph] = [graphAt.value, rank.value, graph.value];
  const filter = { query, category, phase, file, line, hits: onlyHits };
  const request = shownGraph === null ? null : { ...shownGraph, ...filter };
  const subject = JSON.stringify(request);
  const found = usePagedList(
    request,
    `${currentGraph?.nodes ?? 0} ${throttledVersion("hits")}`,
    async (wanted, signal) => {
      const page = await api.nodes(wanted, signal);
      return { total: page.total, items: page.nodes };
    },
  );
  const selected = found.find((node) => node.name === op);
  const cursor = useSignal(-1);
  const hasKeyboard = useSignal(false);
  // With keyboard focus and nothing selected the cursor starts at the first row.
  const begin = hasKeyboard.value && found.total > 0 ? 0 : -1;
  const at = [cursor.value, selected, begin].find((row) => row !== -1) ?? -1;
  useEffect(() => {
    cursor.value = -1;
  }, [subject, op]);
  const choose = (index: number): void => {
    const node = found.at(index);
    if (node !== null) selectOp(node.name);
  };
  // When keys come fast, the place is ahead of the screen.
  useSelectNext((by) =>
    choose(
      nextPlace(
        found.total,
        found.find((node) => node.name === place.value.op),
        by,
        () => true,
      ),
    ),
  );
  const common = commonParts(
    Array.from({ length: Math.min(found.total, MOST_COMPARED) }, (_, row) => found.at(row)).flatMap(
      (node) => (node === null ? [] : [node.scope]),
    ),
  );
  const words = query.split(/\s+/).filter((word) => word !== "");
  if (found.error !== null) return <p class="error-line">{found.error}</p>;
  const others = (currentRank?.graphs ?? []).filter((each) => each.id !== currentGraph?.id);
  if (!found.loading && found.total === 0) {
    return (
      <Empty
        title={
          others.length > 0 && currentGraph !== null
            ? `No op of “${graphName(currentGraph, currentRank?.graphs ?? [])}” matches`
            : "No op matches"
        }
      >
        <p class="actions centred">
          <button
            type="button"
            onClick={() =>
              go({ query: "", category: "", phase: "", file: "", line: null, onlyHits: false })
            }
          >
            clear search and filters
          </button>
          {others.slice(-MOST_OTHERS).map((each) => (
            <button
              key={each.id}
              type="button"
              onClick={() => go({ graph: each.id, open: [], isClosed: false, tree: [] })}
            >
              search in {graphName(each, currentRank?.graphs ?? [])}
            </button>
          ))}
        </p>
      </Empty>
    );
  }
  return (
    <>
      <p class="result-count quiet" role="status">
        {found.loading
          ? "searching…"
          : `${grouped(found.total)} ${found.total === 1 ? "match" : "matches"}`}
      </p>
      <Rows
        subject={`results ${subject}`}
        count={found.total}
        height={ROW_HEIGHT}
        label="Matching ops"
        role="listbox"
        show={at}
        active={at === -1 ? undefined : `node-${at}`}
        onKeyboardFocus={(hasFocus) => (hasKeyboard.value = hasFocus)}
        onKeyDown={(event) =>
          runListKey(event, {
            move: (by) => (cursor.value = moved(at, by, found.total)),
            jump: (to) => (cursor.value = to === "first" ? 0 : found.total - 1),
            choose: () => choose(at),
            tick: () => {
              const node = at === -1 ? null : found.at(at);
              if (node !== null) toggleTick(node.name, asScope(node.scope));
            },
          })
        }
        row={(row) => {
          const node = found.at(row);
          return node === null ? (
            <div class="result quiet">…</div>
          ) : (
            <Result
              id={`node-${row}`}
              node={node}
              where={differingPart(node.scope, common)}
              words={words}
              isAt={row === at}
            />
          );
        }}
      />
    </>
  );
}

function moved(at: number, by: 1 | -1, count: number): number {
  return Math.min(Math.max(at + by, 0), count - 1);
}

interface ResultProps {
  readonly id: string;
  readonly node: ListedNode;
  /** Its scope, from the first part on in which the results differ. */
  readonly where: string;
  readonly words: readonly string[];
  readonly isAt: boolean;
}

function Result({ id, node, where, words, isAt }: ResultProps): JSX.Element {
  const isSelected = node.name === place.value.op;
  const scope = asScope(node.scope);
  return (
    <div
      id={id}
      class={`result line ${isSelected ? "selected" : ""} ${isAt ? "cursor" : ""}`}
      role="option"
      data-path={node.name}
      aria-selected={isSelected}
      aria-checked={coverage(nodeTicks.value, node.name, scope) === "all"}
      title={node.name}
      onClick={() => selectOp(node.name)}
    >
      <TickMark path={node.name} scope={scope} />
      <div class="two-lines">
        <span class={`name kind-${node.kind}`}>
          <Highlighted text={leafText(lastPart(node.name))} words={words} />
        </span>
        <span class="under">
          <Highlighted text={where} words={words} />
        </span>
      </div>
      <div class="two-lines right">
        <span>
          <span class={`phase ${phaseText(node)}`}>{phaseText(node)}</span>
          {node.hits > 0 && <span class="hit-count after-phase">{grouped(node.hits)}</span>}
        </span>
        <span class="under" title={node.source?.library ?? ""}>
          {node.source === null ? "" : `${fileName(node.source.file)}:${node.source.line}`}
        </span>
      </div>
    </div>
  );
}
