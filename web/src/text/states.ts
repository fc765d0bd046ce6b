import type { HitRef, RankView } from "../wire";
import { shortName } from "./names";

/** Where a training stopped, in one line: "watchpoint: condition at op". */
export function hitText({ name, condition, op }: HitRef): string {
  const isNamedAfterCondition = name.toLowerCase().replaceAll(" ", "_") === condition;
  return `${name}${isNamedAfterCondition ? "" : `: ${condition}`} at ${shortName(op)}`;
}

type Ending = Pick<RankView, "exit_code" | "error" | "is_terminated">;

/** How a training ended. */
export function endText({ exit_code: code, error, is_terminated: isTerminated }: Ending): string {
  if (isTerminated) return "terminated from the debugger";
  return error === "" ? `ended with exit code ${code ?? "?"}` : `ended: ${error}`;
}

/** The state of a rank, with its reason where there is one. */
export function stateText(rank: RankView): string {
  if (rank.state === "ended") return endText(rank);
  return rank.message === "" ? rank.state : `${rank.state}: ${rank.message}`;
}
