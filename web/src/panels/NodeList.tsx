import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { coverage, fileName } from "../state/names";
import { grouped } from "../state/numbers";
import { tickedPaths } from "../state/preferences";
import { go, graph, place, ticked, toggleTick } from "../state/store";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import { newWatchpoint } from "./dialogs";
import { NodeResults } from "./NodeResults";
import { NodeTree } from "./NodeTree";
import { SourceLines } from "./SourceLines";

export const SEARCH_ID = "node-search";

/** The left column: every node of the graph as a tree, or those that match a search or a filter. */
export function NodeList(): JSX.Element {
  const isByLine = useSignal(false);
  const now = place.value;
  const isFiltered =
    now.query !== "" || now.category !== "" || now.phase !== "" || now.file !== "" || now.onlyHits;
  if (graph.value === null) {
    return (
      <section class="pane node-list" aria-label="Nodes">
        <Empty title="No ops yet">They appear with the first step.</Empty>
      </section>
    );
  }
  return (
    <section class="pane node-list" aria-label="Nodes">
      <SearchField />
      <Filters isByLine={isByLine.value} onByLine={(value) => (isByLine.value = value)} />
      {isByLine.value ? <SourceLines onChosen={() => (isByLine.value = false)} /> : isFiltered ? <NodeResults /> : <NodeTree />}
      <Ticked />
    </section>
  );
}

function SearchField(): JSX.Element {
  const waiting = useRef(0);
  const change = (text: string): void => {
    window.clearTimeout(waiting.current);
    waiting.current = window.setTimeout(() => go({ query: text }), 150);
  };
  return (
    <div class="search">
      <Icon name="search" />
      <input
        id={SEARCH_ID}
        type="search"
        placeholder="Search ops  ( / )"
        aria-label="Search ops"
        value={place.value.query}
        spellcheck={false}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
    </div>
  );
}

function Filters({ isByLine, onByLine }: { isByLine: boolean; onByLine: (value: boolean) => void }): JSX.Element {
  const now = place.value;
  return (
    <div class="filters">
      <select aria-label="Kind" value={now.category} onChange={(event) => go({ category: event.currentTarget.value })}>
        <option value="">kind</option>
        <option value="weight">weights</option>
        <option value="gradient">gradients</option>
        <option value="activation">activations</option>
        <option value="tensor">tensors</option>
      </select>
      <select aria-label="Phase" value={now.phase} onChange={(event) => go({ phase: event.currentTarget.value })}>
        <option value="">phase</option>
        <option value="forward">forward</option>
        <option value="backward">backward</option>
        <option value="optimizer">optimizer</option>
      </select>
      <button type="button" class="small toggle" aria-pressed={now.onlyHits} onClick={() => go({ onlyHits: !now.onlyHits })}>
        hits
      </button>
      <button type="button" class="small toggle" aria-pressed={isByLine} title="Find ops by the line of code that made them" onClick={() => onByLine(!isByLine)}>
        lines
      </button>
      {now.file !== "" && (
        <button type="button" class="chip" title={`Made by ${now.file}:${now.line ?? ""}; click to see all`} onClick={() => go({ file: "", line: null })}>
          {fileName(now.file)}:{now.line} <Icon name="close" />
        </button>
      )}
    </div>
  );
}

/** A tick box of a node: what is ticked is what a new watchpoint looks at. */
export function TickBox({ path, scope }: { readonly path: string; readonly scope: string }): JSX.Element {
  const covered = coverage(ticked.value, path, scope);
  const isInside = covered === "all" && !ticked.value.has(path);
  return (
    <input
      type="checkbox"
      aria-label={`Watch ${path}`}
      title={isInside ? "The scope round it is ticked" : "Tick for a watchpoint"}
      checked={covered === "all"}
      disabled={isInside}
      ref={(element) => {
        if (element !== null) element.indeterminate = covered === "some";
      }}
      onClick={(event) => event.stopPropagation()}
      onChange={() => toggleTick(path)}
    />
  );
}

function Ticked(): JSX.Element | null {
  const count = tickedPaths.value.length;
  if (count === 0) return null;
  return (
    <div class="ticked">
      <span>{grouped(count)} ticked</span>
      <span class="spacer" />
      <button type="button" class="small" onClick={() => (tickedPaths.value = [])}>
        clear
      </button>
      <button type="button" class="small primary" onClick={() => newWatchpoint(tickedPaths.value)}>
        watch these
      </button>
    </div>
  );
}
