import { useEffect, useRef, useState } from "preact/hooks";
import { isAborted, messageOf } from "./toasts";

/** Something of the server that is on the screen. */
export interface Resource<T> {
  readonly data: T | null;
  readonly error: string | null;
  readonly loading: boolean;
}

/**
 * Loads while `subject` is not null. Another `subject` is another thing: what was there is gone.
 * Another `version` is the same thing, changed: the old stays on the screen until the new is here.
 */
export function useResource<T>(
  subject: string | null,
  version: string | number,
  load: (signal: AbortSignal) => Promise<T>,
): Resource<T> {
  const [state, setState] = useState<Resource<T> & { readonly subject: string | null }>({
    data: null,
    error: null,
    loading: subject !== null,
    subject,
  });
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (subject === null) {
      setState({ data: null, error: null, loading: false, subject });
      return undefined;
    }
    const abort = new AbortController();
    setState((before) =>
      before.subject === subject ? { ...before, loading: true } : { data: null, error: null, loading: true, subject },
    );
    latest
      .current(abort.signal)
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
