import { useRef } from "preact/hooks";
import { place, rank, tensorRefreshes } from "../state/store";

/**
 * What decides whether tensors on the screen are still the right ones: it changes when the training
 * pauses elsewhere, and when the reader asks. While it runs it does not: a training answers between
 * its ops, and a page that asked all the time would slow it down.
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
