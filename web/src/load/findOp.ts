import type { GraphInfo, OpView } from "../wire";
import { api, ApiError, type ShownGraphAt } from "./api";

const MOST_SEARCHED = 8;

/**
 * An op of the graph that is named or, if that has no such op, of the newest of `graphs` that has:
 * steps differ, and the current op may be one that the graph on the screen does not have.
 */
export async function findOp(
  at: ShownGraphAt & { readonly name: string },
  graphs: readonly GraphInfo[],
  signal: AbortSignal,
): Promise<OpView> {
  try {
    return await api.op(at, signal);
  } catch (problem) {
    if (!isUnknownOp(problem)) throw problem;
    const others = graphs.filter((each) => each.id !== at.graph).slice(-MOST_SEARCHED);
    for (const other of others.reverse()) {
      try {
        return await api.op({ ...at, graph: other.id }, signal);
      } catch (next) {
        if (!isUnknownOp(next)) throw next;
      }
    }
    throw problem;
  }
}

function isUnknownOp(problem: unknown): boolean {
  return problem instanceof ApiError && problem.slug === "no-such-op";
}
