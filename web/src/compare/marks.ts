import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LevelMark } from "../wire";
import { api, type ShownGraphAt } from "../load/api";
import { groupScope } from "../text/names";
import { place, run, topicVersion } from "../state/store";

/** The comparison of each box of the graph with the other dump, by path. */
const shown = signal<ReadonlyMap<string, LevelMark>>(new Map());
export const pairMarks: ReadonlySignal<ReadonlyMap<string, LevelMark>> = shown;

/** Fetches the marks of the levels that are open, where there is a comparison. */
export function usePairMarks(graph: ShownGraphAt): void {
  const isCompared = run.value?.peer != null;
  const { open } = place.value;
  const subject = `${graph.run} ${graph.rank} ${graph.graph} ${graph.view} ${open.join("\n")}`;
  useEffect(() => {
    if (!isCompared) {
      if (shown.value.size > 0) shown.value = new Map();
      return undefined;
    }
    const abort = new AbortController();
    const load = async (path: string): Promise<readonly LevelMark[]> => {
      const scope = groupScope(path);
      const level = { ...graph, scope: scope ?? path, group: scope === null ? "" : path };
      const found = await api.pairMarks(level, abort.signal);
      return found.marks;
    };
    // Before the comparison is finished, and for a level that no longer exists, there are no marks.
    void Promise.all(["", ...open].map((path) => load(path).catch(() => []))).then((levels) => {
      if (!abort.signal.aborted)
        shown.value = new Map(levels.flat().map((mark) => [mark.path, mark]));
    });
    return () => abort.abort();
  }, [isCompared, subject, topicVersion("status")]);
}

/** The CSS classes of a box by its comparison. */
export function markClasses(path: string): string[] {
  const found = pairMarks.value.get(path);
  if (found === undefined) return [];
  const classes = [found.status === null ? "pair-none" : `pair-${found.status.replace(" ", "-")}`];
  if (found.first) classes.push("pair-first");
  return classes;
}

/** The comparison of a box in words. */
export function markText(path: string): string {
  const found = pairMarks.value.get(path);
  if (found === undefined) return "";
  if (found.first) return "first divergence of the two dumps";
  return found.status === null ? "no counterpart in the other dump" : `compared: ${found.status}`;
}
