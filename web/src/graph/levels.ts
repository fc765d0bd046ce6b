import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Level } from "../wire";
import { api, type ShownGraphAt } from "../load/api";
import { groupScope } from "../text/names";
import { isAborted, messageOf } from "../state/toasts";
import type { OpenLevel } from "./scene";

interface Shown {
  readonly levels: readonly OpenLevel[];
  readonly error: string | null;
  readonly loading: boolean;
}

export interface Levels extends Shown {
  /** Loads the root and the levels of `open`, so that they can be opened without delay. */
  readonly preload: (open: readonly string[]) => Promise<readonly OpenLevel[]>;
}

/** The levels of one graph that are loaded, and those that are requested, by version. */
class LevelCache {
  readonly held = new Map<string, { readonly level: Level; readonly version: string }>();
  readonly asked = new Map<string, string>();
  readonly abort = new AbortController();
  pending = 0;
  private shown: readonly OpenLevel[] = [];
  error: string | null = null;

  constructor(
    readonly key: ShownGraphAt,
    readonly name: string,
  ) {}

  /** Loads a level unless this version of it is loaded or requested; whether a request was sent. */
  async load(path: string, version: string): Promise<boolean> {
    if (this.asked.get(path) === version) return false;
    this.asked.set(path, version);
    this.pending += 1;
    const scope = groupScope(path);
    try {
      const at = { ...this.key, scope: scope ?? path, group: scope === null ? "" : path };
      const level = await api.level(at, this.abort.signal);
      if (this.asked.get(path) === version) this.held.set(path, { level, version });
      if (path === "") this.error = null;
    } catch (problem) {
      if (this.asked.get(path) === version) this.asked.delete(path);
      if (path === "" && !isAborted(problem)) this.error = messageOf(problem);
    } finally {
      this.pending -= 1;
    }
    return true;
  }

  /** Those levels of `open` that are loaded. */
  have(open: readonly string[]): readonly OpenLevel[] {
    return ["", ...open].flatMap((path): OpenLevel[] => {
      const found = this.held.get(path);
      return found === undefined
        ? []
        : [{ path, key: `${this.name} ${path} ${found.version}`, level: found.level }];
    });
  }

  /** Those levels of `open` that are loaded; the same array as before while nothing has changed. */
  show(open: readonly string[]): Shown {
    const levels = this.have(open);
    const isSame =
      levels.length === this.shown.length &&
      levels.every((each, place) => each.key === this.shown[place]?.key);
    if (!isSame) this.shown = levels;
    return { levels: this.shown, error: this.error, loading: this.pending > 0 };
  }
}

/**
 * The open levels of a graph: the root and the levels of `open`. Each is loaded once, and again
 * when `version` changes (the graph has grown, or there are new hits); until then the old one is
 * shown.
 */
export function useLevels(graph: ShownGraphAt, open: readonly string[], version: string): Levels {
  const [state, setState] = useState<Shown>({ levels: [], error: null, loading: true });
  const name = `${graph.run} ${graph.rank} ${graph.graph} ${graph.view}`;
  const cache = useRef<LevelCache | null>(null);
  const latest = useRef(open);
  latest.current = open;
  // Layout effects, because other effects run only after the screen has been painted.
  useLayoutEffect(() => {
    const made = new LevelCache(graph, name);
    cache.current = made;
    return () => made.abort.abort();
  }, [name]);
  const publish = (current: LevelCache): void => {
    if (cache.current === current) setState(current.show(latest.current));
  };
  useLayoutEffect(() => {
    const current = cache.current;
    if (current === null) return;
    for (const path of ["", ...open]) {
      void current.load(path, version).then((isAsked) => {
        if (isAsked) publish(current);
      });
    }
    publish(current);
  }, [name, open.join("\n"), version]);
  const preload = async (wanted: readonly string[]): Promise<readonly OpenLevel[]> => {
    const current = cache.current;
    if (current === null) return [];
    await Promise.all(wanted.map((path) => current.load(path, version)));
    publish(current); // It loads no longer.
    return current.have(wanted);
  };
  return { ...state, preload };
}
