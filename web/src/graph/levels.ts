import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Level } from "../wire";
import { api, type GraphAt } from "../load/api";
import { groupScope } from "../text/names";
import { isAborted, messageOf } from "../state/toasts";
import type { OpenLevel } from "./scene";

interface Shown {
  readonly levels: readonly OpenLevel[];
  readonly error: string | null;
  readonly loading: boolean;
}

export interface Levels extends Shown {
  /** The root and the levels of `open`, as far as they can be had; opened later they are there at once. */
  readonly preload: (open: readonly string[]) => Promise<readonly OpenLevel[]>;
}

/** What is known of one graph: levels that came, and those that were asked for, by version. */
class LevelCache {
  readonly held = new Map<string, { readonly level: Level; readonly version: string }>();
  readonly asked = new Map<string, string>();
  readonly abort = new AbortController();
  pending = 0;
  private shown: readonly OpenLevel[] = [];
  error: string | null = null;

  constructor(
    readonly key: GraphAt,
    readonly name: string,
  ) {}

  /** Loads a level unless it is there, or on its way, in this version; whether it was asked for. */
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

  /** What is here of that. */
  have(open: readonly string[]): readonly OpenLevel[] {
    return ["", ...open].flatMap((path): OpenLevel[] => {
      const found = this.held.get(path);
      return found === undefined
        ? []
        : [{ path, key: `${this.name} ${path} ${found.version}`, level: found.level }];
    });
  }

  /** What is here of that; the same array as before as long as nothing new is to be drawn. */
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
 * What is open of a graph: the root and the levels of `open`. Loaded once each, again when `version`
 * changes (more of the graph is known, hits came); until then the old ones stay.
 */
export function useLevels(graph: GraphAt, open: readonly string[], version: string): Levels {
  const [state, setState] = useState<Shown>({ levels: [], error: null, loading: true });
  const name = `${graph.run} ${graph.rank} ${graph.graph}`;
  const cache = useRef<LevelCache | null>(null);
  const latest = useRef(open);
  latest.current = open;
  // Layout effects, because the others wait for the screen to be painted, and the reader for them.
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
