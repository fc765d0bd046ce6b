import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { TreeEntry } from "../wire";
import { api } from "../load/api";
import { drawnScopes } from "../text/names";
import { grouped } from "../text/numbers";
import {
  go,
  graph,
  opScope,
  place,
  rank,
  run,
  selectOp,
  shownGraphAt,
  throttledVersion,
  toggleTick,
} from "../state/store";
import { openMenuAtPointer, openMenuBeside } from "../state/nodeMenu";
import { isAborted, messageOf } from "../state/toasts";
import { Icon } from "../parts/Icon";
import { Rows } from "../parts/Rows";
import { type ListKeys, nextPlace, runListKey, useSelectNext } from "./listKeys";
import { TickBox } from "./NodeList";

const PAGE = 200;
const ROW_HEIGHT = 24;

interface Branch {
  readonly total: number;
  readonly entries: readonly TreeEntry[];
}

interface TreeRow {
  readonly entry: TreeEntry | null;
  readonly depth: number;
  readonly scope: string;
  readonly missing: number;
}

/** The lines on the screen: branches in place of the scopes that are open. */
export function visibleRows(
  branches: ReadonlyMap<string, Branch>,
  open: ReadonlySet<string>,
): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (scope: string, depth: number): void => {
    const branch = branches.get(scope);
    if (branch === undefined) return;
    for (const entry of branch.entries) {
      rows.push({ entry, depth, scope, missing: 0 });
      if (entry.is_scope && open.has(entry.path)) add(entry.path, depth + 1);
    }
    const missing = branch.total - branch.entries.length;
    if (missing > 0) rows.push({ entry: null, depth, scope, missing });
  };
  add("", 0);
  return rows;
}

export function NodeTree(): JSX.Element {
  const branches = useSignal<ReadonlyMap<string, Branch>>(new Map());
  const problem = useSignal<string | null>(null);
  const asked = useRef(new Set<string>());
  const open = new Set(place.value.tree);
  const subject = `${run.value?.id ?? ""} ${rank.value?.rank ?? ""} ${graph.value?.id ?? ""} ${place.value.view}`;
  const version = `${subject} ${graph.value?.nodes ?? 0} ${throttledVersion("hits")}`;

  const load = (scope: string, offset: number, signal: AbortSignal): void => {
    const at = shownGraphAt.value;
    if (at === null) return;
    const key = `${version} ${scope} ${offset}`;
    if (asked.current.has(key)) return;
    asked.current.add(key);
    api
      .tree({ ...at, scope, offset, limit: PAGE }, signal)
      .then((page) => {
        const before =
          offset === 0 ? [] : (branches.value.get(scope)?.entries ?? []).slice(0, offset);
        branches.value = new Map(branches.value).set(scope, {
          total: page.total,
          entries: [...before, ...page.entries],
        });
        problem.value = null;
      })
      .catch((error: unknown) => {
        asked.current.delete(key);
        if (!isAborted(error) && scope === "") problem.value = messageOf(error);
      });
  };

  const aborting = useRef(new AbortController());
  useEffect(() => {
    branches.value = new Map();
  }, [subject]);
  useEffect(() => {
    aborting.current = new AbortController();
    asked.current = new Set();
    for (const scope of ["", ...place.value.tree]) load(scope, 0, aborting.current.signal);
    return () => aborting.current.abort();
  }, [version]);
  useEffect(() => {
    for (const scope of place.value.tree)
      if (!branches.value.has(scope)) load(scope, 0, aborting.current.signal);
  }, [place.value.tree.join("\n")]);
  useEffect(() => {
    if (place.value.op === "") return;
    const { view } = place.value;
    const inner = opScope.value === "" ? [] : [opScope.value];
    const round = [
      ...drawnScopes(place.value.op, view),
      ...drawnScopes(opScope.value, view),
      ...inner,
    ];
    const missing = [...new Set(round)].filter((scope) => !open.has(scope));
    if (missing.length > 0) go({ tree: [...place.value.tree, ...missing] });
  }, [place.value.op, opScope.value]);

  const rows = visibleRows(branches.value, open);
  const cursor = useSignal(place.value.op);
  useEffect(() => {
    cursor.value = place.value.op;
  }, [place.value.op]);
  const at = rows.findIndex((row) => row.entry !== null && row.entry.path === cursor.value);
  const moveTo = (to: number): void => {
    const entry = rows[to]?.entry;
    if (entry != null) cursor.value = entry.path;
  };
  useSelectNext((by) => {
    const selected = rows.findIndex(
      (row) => row.entry?.path === place.value.op && place.value.op !== "",
    );
    const entry =
      rows[nextPlace(rows.length, selected, by, (to) => rows[to]?.entry?.is_scope === false)]
        ?.entry;
    if (entry != null) selectOp(entry.path);
  });
  if (problem.value !== null) return <p class="error-line">{problem.value}</p>;
  return (
    <Rows
      subject={`tree ${subject} ${place.value.op}`}
      count={rows.length}
      height={ROW_HEIGHT}
      label="Scopes and ops"
      role="tree"
      show={at}
      active={at === -1 ? undefined : `node-${at}`}
      onKeyDown={(event) => runListKey(event, treeKeys(rows, at, open, moveTo))}
      row={(row_) => {
        const row = rows[row_];
        if (row === undefined) return <span />;
        if (row.entry === null) {
          return (
            <More
              row={row}
              onLoad={() =>
                load(
                  row.scope,
                  branches.value.get(row.scope)?.entries.length ?? 0,
                  aborting.current.signal,
                )
              }
            />
          );
        }
        return (
          <TreeLine
            id={`node-${row_}`}
            entry={row.entry}
            scope={row.scope}
            depth={row.depth}
            isOpen={open.has(row.entry.path)}
            isAt={row_ === at}
          />
        );
      }}
    />
  );
}

/** What the keys do in a tree whose cursor is at row `at`. */
function treeKeys(
  rows: readonly TreeRow[],
  at: number,
  open: ReadonlySet<string>,
  onMove: (to: number) => void,
): ListKeys {
  const entry = rows[at]?.entry ?? null;
  const isEntry = (row_: number): boolean => rows[row_]?.entry != null;
  const isOpen = entry !== null && entry.is_scope && open.has(entry.path);
  return {
    move: (by) => onMove(nextPlace(rows.length, at, by, isEntry)),
    jump: (to) =>
      onMove(
        to === "first"
          ? nextPlace(rows.length, -1, 1, isEntry)
          : nextPlace(rows.length, -1, -1, isEntry),
      ),
    choose: () => {
      if (entry === null) return;
      chooseEntry(entry, isOpen);
    },
    tick: () => {
      if (entry !== null) toggleTick(entry.path, rows[at]?.scope ?? "");
    },
    menu: () => {
      if (entry !== null) openMenuBeside(entry.path, entry.kind === "op");
    },
    open: () => {
      if (entry === null) return;
      if (isOpen) onMove(nextPlace(rows.length, at, 1, isEntry));
      else if (entry.is_scope) toggleTree(entry.path);
    },
    close: () => {
      if (entry === null) return;
      if (isOpen) toggleTree(entry.path);
      else onMove(rows.findIndex((row) => row.entry?.path === rows[at]?.scope));
    },
  };
}

function More({ row, onLoad }: { row: TreeRow; onLoad: () => void }): JSX.Element {
  useEffect(onLoad, [row.scope, row.missing]);
  return (
    <div class="tree-line quiet" style={{ paddingLeft: `${row.depth * 14 + 26}px` }}>
      {grouped(row.missing)} more…
    </div>
  );
}

export function toggleTree(path: string): void {
  const now = place.value.tree;
  const closes = now.includes(path);
  go({
    tree: closes ? now.filter((each) => each !== path && !each.startsWith(path)) : [...now, path],
  });
}

/** Selects a node; a scope that is closed is opened. Only the triangle closes a scope. */
function chooseEntry(entry: TreeEntry, isOpen: boolean): void {
  if (entry.is_scope && !isOpen) toggleTree(entry.path);
  selectOp(entry.path);
}

interface TreeLineProps {
  readonly id: string;
  readonly entry: TreeEntry;
  readonly scope: string;
  readonly depth: number;
  readonly isOpen: boolean;
  readonly isAt: boolean;
}

function TreeLine({ id, entry, scope, depth, isOpen, isAt }: TreeLineProps): JSX.Element {
  const isSelected = entry.path === place.value.op;
  const isCurrent = rank.value?.op === entry.path;
  return (
    <div
      id={id}
      class={`tree-line line ${isSelected ? "selected" : ""} ${isAt ? "cursor" : ""}`}
      style={{ paddingLeft: `${depth * 14 + 4}px` }}
      role="treeitem"
      data-path={entry.path}
      aria-selected={isSelected}
      aria-expanded={entry.is_scope ? isOpen : undefined}
      aria-level={depth + 1}
      title={entry.path}
      onClick={() => chooseEntry(entry, isOpen)}
      onContextMenu={(event) => openMenuAtPointer(event, entry.path, entry.kind === "op")}
    >
      <span
        class={`twist ${isOpen ? "open" : ""}`}
        onClick={(event) => {
          if (!entry.is_scope) return;
          event.stopPropagation();
          toggleTree(entry.path);
        }}
      >
        {entry.is_scope ? "›" : ""}
      </span>
      <TickBox path={entry.path} scope={scope} />
      <span class={`name ${entry.is_scope ? "scope" : `kind-${entry.kind}`}`}>{entry.label}</span>
      {isCurrent && <Icon name="here" />}
      {entry.is_scope && <span class="count">{grouped(entry.ops)}</span>}
      {entry.hits > 0 && <span class="hit-count">{grouped(entry.hits)}</span>}
    </div>
  );
}
