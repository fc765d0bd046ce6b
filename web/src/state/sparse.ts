import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isAborted, messageOf } from "./toasts";

export interface Sparse<T> {
  readonly total: number;
  readonly loading: boolean;
  readonly error: string | null;
  /** The item at a place, or null until its page is here; asking for it loads the page. Null at -1. */
  readonly at: (place: number) => T | null;
  /** The last place, of those that are here, whose item is looked for; -1: none. */
  readonly find: (isWanted: (item: T) => boolean) => number;
}

const PAGE = 100;

type Loader<T> = (
  offset: number,
  limit: number,
  signal: AbortSignal,
) => Promise<{ readonly total: number; readonly items: readonly T[] }>;

interface State<T> {
  readonly pages: ReadonlyMap<number, readonly T[]>;
  readonly total: number;
  readonly loading: boolean;
  readonly error: string | null;
}

/**
 * A long list of which the pages that are looked at are loaded, wherever they are. Another `version`
 * is the same list, changed: what is on the screen stays until it is loaded again.
 */
export function useSparse<T>(subject: string | null, version: string | number, load: Loader<T>): Sparse<T> {
  const state = useSignal<State<T>>({ pages: new Map(), total: 0, loading: true, error: null });
  const asked = useRef(new Set<number>());
  const abort = useRef(new AbortController());
  const latest = useRef(load);
  const shown = useRef<string | null>(null);
  latest.current = load;

  const fetchPage = (page: number): void => {
    if (asked.current.has(page)) return;
    asked.current.add(page);
    const { signal } = abort.current;
    latest
      .current(page * PAGE, PAGE, signal)
      .then(({ total, items }) => {
        if (signal.aborted) return;
        state.value = { pages: new Map(state.value.pages).set(page, items), total, loading: false, error: null };
      })
      .catch((error: unknown) => {
        if (signal.aborted || isAborted(error)) return;
        asked.current.delete(page);
        state.value = { ...state.value, loading: false, error: messageOf(error) };
      });
  };

  useEffect(() => {
    abort.current = new AbortController();
    asked.current = new Set();
    if (shown.current !== subject) state.value = { pages: new Map(), total: 0, loading: true, error: null };
    shown.current = subject;
    if (subject !== null) fetchPage(0);
    return () => abort.current.abort();
  }, [subject, version]);

  const at = (place: number): T | null => {
    if (place < 0) return null;
    const page = Math.floor(place / PAGE);
    if (!asked.current.has(page)) queueMicrotask(() => fetchPage(page));
    return state.value.pages.get(page)?.[place % PAGE] ?? null;
  };
  const find = (isWanted: (item: T) => boolean): number => {
    let last = -1;
    for (const [page, items] of state.value.pages) {
      const place = items.findLastIndex(isWanted);
      if (place !== -1) last = Math.max(last, page * PAGE + place);
    }
    return last;
  };
  return { total: state.value.total, loading: state.value.loading, error: state.value.error, at, find };
}
