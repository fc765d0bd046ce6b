import { useRef } from "preact/hooks";
import { place, rank, tensorRefreshes } from "../state/store";

/**
 * Changes when tensors on the screen must be loaded again: when the training pauses at another
 * place, and on request of the user. It does not change while the training runs: a training answers
 * between its ops, so constant requests would slow it down.
 */
export function useTensorVersion(): string {
  const held = useRef("");
  const current = rank.value;
  const { step } = place.value;
  const asked = tensorRefreshes.value;
  const now =
    current === null ? "" : `${current.state} ${step ?? `${current.step} ${current.order ?? ""}`}`;
  if (current?.state !== "running" || held.current === "") held.current = now;
  return `${held.current} ${asked} ${step ?? ""}`;
}
