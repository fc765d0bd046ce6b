import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { graphText, fileName } from "../text/names";
import { grouped } from "../text/numbers";
import { nodeTicks } from "../state/preferences";
import { clearTicks, go, graph, place, rank, tickedPatterns, toggleTick } from "../state/store";
import { coverage } from "../state/ticks";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import { newWatchpoint } from "./dialogs";
import { NodeResults } from "./NodeResults";
import { NodeTree } from "./NodeTree";
import { SourceLines } from "./SourceLines";

export const SEARCH_ID = "node-search";
const WAIT_MILLISECONDS = 150;
const MOST_IN_TITLE = 20;

/** The left column: every node of the graph as a tree, or those that match a search or a filter. */
export function NodeList(): JSX.Element {
  return (
    <section class="pane node-list" aria-label="Nodes">
      <SearchField key={place.value.listing} isByLine={place.value.listing === "lines"} />
      <Filters />
      <Listed />
      <Ticked />
    </section>
  );
}

function Listed(): JSX.Element {
  const now = place.value;
  if (graph.value === null)
    return <Empty title="No ops yet">Ops appear with the first step.</Empty>;
  if (now.listing === "lines") return <SourceLines />;
  const isFiltered =
    now.query !== "" || now.category !== "" || now.phase !== "" || now.file !== "" || now.onlyHits;
  return isFiltered ? <NodeResults /> : <NodeTree />;
}

function SearchField({ isByLine }: { isByLine: boolean }): JSX.Element {
  const waiting = useRef(0);
  const typed = useSignal<string | null>(null);
  const put = (text: string): void => {
    window.clearTimeout(waiting.current);
    typed.value = null;
    go(isByLine ? { lineQuery: text } : { query: text });
  };
  return (
    <div class="search">
      <Icon name="search" />
      <input
        id={SEARCH_ID}
        type="search"
        placeholder={isByLine ? "Search code or file  ( / )" : "Search ops  ( / )"}
        aria-label={isByLine ? "Search lines" : "Search ops"}
        value={typed.value ?? (isByLine ? place.value.lineQuery : place.value.query)}
        spellcheck={false}
        onInput={(event) => {
          const text = event.currentTarget.value;
          typed.value = text;
          window.clearTimeout(waiting.current);
          waiting.current = window.setTimeout(() => put(text), WAIT_MILLISECONDS);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape" && event.key !== "ArrowDown" && event.key !== "Enter") return;
          // Escape only leaves the field; the browser's default would also empty it.
          event.preventDefault();
          if (event.key === "Escape") {
            event.currentTarget.blur();
            return;
          }
          put(event.currentTarget.value);
          // The results replace the tree in the next frame.
          requestAnimationFrame(() =>
            document.querySelector<HTMLElement>(".node-list .rows")?.focus(),
          );
        }}
      />
    </div>
  );
}

function Filters(): JSX.Element {
  const now = place.value;
  const isByLine = now.listing === "lines";
  return (
    <div class="filters">
      <GraphFilter />
      <select
        aria-label="Kind"
        class={now.category === "" ? "" : "active"}
        value={now.category}
        onChange={(event) => go({ category: event.currentTarget.value, listing: "ops" })}
      >
        <option value="">kind</option>
        <option value="weight">weight</option>
        <option value="gradient">gradient</option>
        <option value="activation">activation</option>
        <option value="tensor">tensor</option>
      </select>
      <select
        aria-label="Phase"
        class={now.phase === "" ? "" : "active"}
        value={now.phase}
        onChange={(event) => go({ phase: event.currentTarget.value, listing: "ops" })}
      >
        <option value="">phase</option>
        <option value="forward">forward</option>
        <option value="backward">backward</option>
        <option value="optimizer">optimizer</option>
      </select>
      <button
        type="button"
        class="small toggle"
        aria-pressed={now.onlyHits}
        title="Only ops with hits"
        onClick={() => go({ onlyHits: !now.onlyHits, listing: "ops" })}
      >
        hits
      </button>
      <button
        type="button"
        class="small toggle"
        aria-pressed={isByLine}
        title="List the lines of code and the ops they run"
        onClick={() => go({ listing: isByLine ? "ops" : "lines" })}
      >
        {" "}
        by code line{" "}
      </button>
      {now.file !== "" && (
        <button
          type="button"
          class="chip"
          title={`Ops of ${now.file}:${now.line ?? ""}; click to show all ops`}
          onClick={() => go({ file: "", line: null })}
        >
          {fileName(now.file)}:{now.line} <Icon name="close" />
        </button>
      )}
    </div>
  );
}

/** Chooses the graph whose nodes are listed, if a training has several. */
function GraphFilter(): JSX.Element | null {
  const graphs = rank.value?.graphs ?? [];
  const current = graph.value;
  if (graphs.length < 2 || current === null) return null;
  return (
    <select
      aria-label="Graph of the list"
      title="Steps that run different ops have different graphs"
      class="wide-filter"
      value={String(current.id)}
      onChange={(event) =>
        go({ graph: Number(event.currentTarget.value), open: [], isClosed: false, tree: [] })
      }
    >
      {graphs.map((each) => (
        <option key={each.id} value={String(each.id)}>
          {graphText(each, graphs)}
        </option>
      ))}
    </select>
  );
}

/** The tick box of a node; a new watchpoint covers the ticked nodes. */
export function TickBox({
  path,
  scope,
}: {
  readonly path: string;
  readonly scope: string;
}): JSX.Element {
  const covered = coverage(nodeTicks.value, path, scope);
  return (
    <label class="tick-target" onClick={(event) => event.stopPropagation()}>
      <input
        type="checkbox"
        tabIndex={-1}
        aria-label={`Watch ${path}`}
        title={
          covered === "all"
            ? "Included in the next watchpoint"
            : covered === "some"
              ? "Partly included in the next watchpoint"
              : "Tick to include it in the next watchpoint"
        }
        checked={covered === "all"}
        ref={(element) => {
          if (element !== null) element.indeterminate = covered === "some";
        }}
        onChange={() => toggleTick(path, scope)}
      />
    </label>
  );
}

/**
 * The tick of an option of a list, for the mouse: an option may not contain a field. `v` ticks it
 * by the keyboard, and the option itself says whether it is ticked.
 */
export function TickMark({
  path,
  scope,
}: {
  readonly path: string;
  readonly scope: string;
}): JSX.Element {
  return (
    <span
      class={`tick-mark ${coverage(nodeTicks.value, path, scope)}`}
      aria-hidden="true"
      title={`Watch ${path} (v)`}
      onClick={(event) => {
        event.stopPropagation();
        toggleTick(path, scope);
      }}
    />
  );
}

function Ticked(): JSX.Element | null {
  const on = nodeTicks.value.filter((each) => each.isOn).length;
  const out = nodeTicks.value.length - on;
  if (on === 0) return null;
  return (
    <div class="ticked">
      <span title={tickedPatterns.value.slice(0, MOST_IN_TITLE).join("\n")}>
        {grouped(on)} ticked{out > 0 && `, ${grouped(out)} excluded`}
      </span>
      <span class="spacer" />
      <button type="button" class="small" onClick={() => clearTicks()}>
        clear
      </button>
      <button
        type="button"
        class="small primary"
        onClick={() => newWatchpoint(tickedPatterns.value)}
      >
        watch these
      </button>
    </div>
  );
}
