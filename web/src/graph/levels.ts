import { useEffect, useRef, useState } from "preact/hooks";
import type { Level } from "../wire";
import { api } from "../state/api";
import { isAborted, messageOf } from "../state/toasts";
import { groupScope } from "../state/names";
import type { OpenLevel } from "./scene";

export interface GraphKey {
  readonly run: string;
  readonly rank: number;
  readonly graph: number;
}

export interface Levels {
  readonly levels: readonly OpenLevel[];
  readonly error: string | null;
  readonly loading: boolean;
}

interface Held {
  readonly level: Level;
  readonly version: string;
}

/**
 * What is open of a graph: the root and the levels of `open`. Loaded once each, again when `version`
 * changes (more of the graph is known, hits came); until then the old ones stay.
 */
export function useLevels(graph: GraphKey | null, open: readonly string[], version: string): Levels {
  const held = useRef(new Map<string, Held>());
  const asked = useRef(new Map<string, string>());
  const subject = useRef("");
  const [state, setState] = useState<Levels>({ levels: [], error: null, loading: true });
  const now = graph === null ? "" : `${graph.run} ${graph.rank} ${graph.graph}`;
  if (subject.current !== now) {
    subject.current = now;
    held.current = new Map();
    asked.current = new Map();
  }

  useEffect(() => {
    if (graph === null) return undefined;
    const abort = new AbortController();
    let error: string | null = null;
    let pending = 0;
    const publish = (): void => {
      const levels = ["", ...open].flatMap((path): OpenLevel[] => {
        const found = held.current.get(path);
        return found === undefined ? [] : [{ path, key: `${now} ${path} ${found.version}`, level: found.level }];
      });
      setState({ levels, error, loading: pending > 0 });
    };
    const load = async (path: string): Promise<void> => {
      if (asked.current.get(path) === version) return;
      asked.current.set(path, version);
      pending += 1;
      const scope = groupScope(path);
      try {
        const level = await api.level(graph.run, graph.rank, graph.graph, scope ?? path, scope === null ? "" : path, abort.signal);
        held.current.set(path, { level, version });
      } catch (problem) {
        asked.current.delete(path);
        if (isAborted(problem)) return;
        if (path === "") error = messageOf(problem);
      } finally {
        pending -= 1;
      }
      if (!abort.signal.aborted) publish();
    };
    publish();
    for (const path of ["", ...open]) void load(path);
    return () => abort.abort();
  }, [now, open.join("\n"), version]);
  return state;
}
