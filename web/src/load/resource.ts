import { useEffect, useRef, useState } from "preact/hooks";
import { isAborted, messageOf } from "../state/toasts";

/** Data of the server that is shown, or being loaded. */
export interface Resource<T> {
  readonly data: T | null;
  readonly error: string | null;
  readonly loading: boolean;
}

/**
 * Loads what `request` describes; nothing while `request` is null.
 *
 * A different request drops the old data at once. A different `version` means that the same data
 * has changed on the server: the old data stays visible until the new data has arrived.
 */
export function useResource<R, T>(
  request: R | null,
  version: string | number,
  load: (request: R, signal: AbortSignal) => Promise<T>,
): Resource<T> {
  const subject = request === null ? null : JSON.stringify(request);
  const [state, setState] = useState<Resource<T> & { readonly subject: string | null }>({
    data: null,
    error: null,
    loading: subject !== null,
    subject,
  });
  const latest = useRef({ request, load });
  latest.current = { request, load };
  useEffect(() => {
    const wanted = latest.current;
    if (wanted.request === null) {
      setState({ data: null, error: null, loading: false, subject });
      return undefined;
    }
    const abort = new AbortController();
    setState((before) =>
      before.subject === subject
        ? { ...before, loading: true }
        : { data: null, error: null, loading: true, subject },
    );
    wanted
      .load(wanted.request, abort.signal)
      .then((data) => {
        if (!abort.signal.aborted) setState({ data, error: null, loading: false, subject });
      })
      .catch((error: unknown) => {
        if (abort.signal.aborted || isAborted(error)) return;
        setState((before) => ({
          data: before.subject === subject ? before.data : null,
          error: messageOf(error),
          loading: false,
          subject,
        }));
      });
    return () => abort.abort();
  }, [subject, version]);
  if (state.subject !== subject) return { data: null, error: null, loading: subject !== null };
  return state;
}
