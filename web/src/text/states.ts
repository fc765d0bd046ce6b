import type { RankView } from "../wire";

type Ending = Pick<RankView, "exit_code" | "error" | "is_terminated">;

/** How a training ended. */
export function endText({ exit_code: code, error, is_terminated: isTerminated }: Ending): string {
  if (isTerminated) return "terminated by you";
  return error === "" ? `ended with exit code ${code ?? "?"}` : `ended: ${error}`;
}

/** Exit codes of a program that ended normally, or by Ctrl-C. */
const ORDERLY: readonly number[] = [0, 130];

/** Whether the program ended with an error. */
export function hasFailed(one: Pick<RankView, "state" | "exit_code" | "is_terminated">): boolean {
  return one.state === "ended" && !one.is_terminated && !ORDERLY.includes(one.exit_code ?? 0);
}

/** The state of a rank, with its reason where there is one. */
export function stateText(rank: RankView): string {
  if (rank.state === "ended") return endText(rank);
  return rank.message === "" ? rank.state : `${rank.state}: ${rank.message}`;
}
