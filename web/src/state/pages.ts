import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isAborted, messageOf } from "./toasts";

export interface Paged<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly loading: boolean;
  readonly error: string | null;
  /** Loads the next page when `last` is near the end of what is here. */
  readonly reach: (last: number) => void;
}

const PAGE = 100;
const NEAR = 30;

type Loader<T> = (
  offset: number,
  limit: number,
  signal: AbortSignal,
) => Promise<{ readonly total: number; readonly items: readonly T[] }>;

/** A long list the server gives in pages; a new `version` loads again as much as was there. */
export function usePages<T>(subject: string | null, version: string | number, load: Loader<T>): Paged<T> {
  const state = useSignal<Omit<Paged<T>, "reach">>({ items: [], total: 0, loading: true, error: null });
  const abort = useRef(new AbortController());
  const latest = useRef(load);
  const shown = useRef<string | null>(null);
  const busy = useRef(false);
  latest.current = load;

  const fetchPage = (offset: number, limit: number): void => {
    const { signal } = abort.current;
    busy.current = true;
    latest
      .current(offset, limit, signal)
      .then((page) => {
        if (signal.aborted) return;
        const before = offset === 0 ? [] : state.value.items.slice(0, offset);
        state.value = { items: [...before, ...page.items], total: page.total, loading: false, error: null };
        busy.current = false;
      })
      .catch((error: unknown) => {
        if (signal.aborted || isAborted(error)) return;
        state.value = { ...state.value, loading: false, error: messageOf(error) };
        busy.current = false;
      });
  };

  useEffect(() => {
    abort.current = new AbortController();
    if (shown.current !== subject) state.value = { items: [], total: 0, loading: true, error: null };
    shown.current = subject;
    if (subject !== null) fetchPage(0, Math.max(PAGE, state.value.items.length));
    return () => abort.current.abort();
  }, [subject, version]);

  const reach = (last: number): void => {
    const { items, total } = state.value;
    if (!busy.current && items.length < total && last >= items.length - NEAR) fetchPage(items.length, PAGE);
  };
  return { ...state.value, reach };
}
