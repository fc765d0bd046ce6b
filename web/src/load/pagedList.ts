import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isAborted, messageOf } from "../state/toasts";

export interface PagedList<T> {
  readonly total: number;
  readonly loading: boolean;
  readonly error: string | null;
  /**
   * The item at an index, or null while its page is not loaded (the call then loads it). Null at
   * -1.
   */
  readonly at: (index: number) => T | null;
  /** The last index, among the loaded items, of an item for which `isWanted` holds; -1: none. */
  readonly find: (isWanted: (item: T) => boolean) => number;
}

const PAGE_LENGTH = 100;

type PageLoader<R, T> = (
  request: R & { readonly offset: number; readonly limit: number },
  signal: AbortSignal,
) => Promise<{ readonly total: number; readonly items: readonly T[] }>;

interface State<T> {
  readonly pages: ReadonlyMap<number, readonly T[]>;
  readonly total: number;
  readonly loading: boolean;
  readonly error: string | null;
}

function emptyState<T>(): State<T> {
  return { pages: new Map(), total: 0, loading: true, error: null };
}

/**
 * A long list of the server, of which only the pages that are shown are loaded.
 *
 * A different `request` is a different list. A different `version` means that the same list has
 * changed: the old items stay visible until their pages are loaded again.
 */
export function usePagedList<R extends object, T>(
  request: R | null,
  version: string | number,
  load: PageLoader<R, T>,
): PagedList<T> {
  const subject = request === null ? null : JSON.stringify(request);
  const state = useSignal<State<T>>(emptyState());
  const requested = useRef(new Set<number>());
  const abort = useRef(new AbortController());
  const latest = useRef({ request, load });
  const shown = useRef<string | null>(null);
  latest.current = { request, load };

  const fetchPage = (page: number): void => {
    const wanted = latest.current;
    if (wanted.request === null || requested.current.has(page)) return;
    requested.current.add(page);
    const { signal } = abort.current;
    wanted
      .load({ ...wanted.request, offset: page * PAGE_LENGTH, limit: PAGE_LENGTH }, signal)
      .then(({ total, items }) => {
        if (signal.aborted) return;
        const pages = new Map(state.value.pages).set(page, items);
        state.value = { pages, total, loading: false, error: null };
      })
      .catch((error: unknown) => {
        if (signal.aborted || isAborted(error)) return;
        requested.current.delete(page);
        state.value = { ...state.value, loading: false, error: messageOf(error) };
      });
  };

  useEffect(() => {
    abort.current = new AbortController();
    requested.current = new Set();
    if (shown.current !== subject) state.value = emptyState();
    shown.current = subject;
    fetchPage(0);
    return () => abort.current.abort();
  }, [subject, version]);

  const at = (index: number): T | null => {
    if (index < 0) return null;
    const page = Math.floor(index / PAGE_LENGTH);
    if (!requested.current.has(page)) queueMicrotask(() => fetchPage(page));
    return state.value.pages.get(page)?.[index % PAGE_LENGTH] ?? null;
  };
  const find = (isWanted: (item: T) => boolean): number => {
    let last = -1;
    for (const [page, items] of state.value.pages) {
      const index = items.findLastIndex(isWanted);
      if (index !== -1) last = Math.max(last, page * PAGE_LENGTH + index);
    }
    return last;
  };
  const { total, loading, error } = state.value;
  return { total, loading, error, at, find };
}
