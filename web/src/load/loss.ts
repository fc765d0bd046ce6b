import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LossPoint } from "../wire";
import { api } from "./api";
import { rank, run, topicVersion } from "../state/store";
import { isAborted } from "../state/toasts";

interface Held {
  readonly subject: string;
  readonly points: readonly LossPoint[];
}

const held = signal<Held>({ subject: "", points: [] });

/** The loss of the rank on the screen, step by step; only what is new is fetched. */
export function useLoss(): readonly LossPoint[] {
  const subject =
    run.value === null || rank.value === null ? "" : `${run.value.id} ${rank.value.rank}`;
  const version = topicVersion("loss");
  useEffect(() => {
    const [currentRun, currentRank] = [run.value, rank.value];
    if (currentRun === null || currentRank === null) return undefined;
    const abort = new AbortController();
    const known = held.value.subject === subject ? held.value.points : [];
    const after = known.at(-1)?.step ?? null;
    api
      .loss({ run: currentRun.id, rank: currentRank.rank, after }, abort.signal)
      .then((curve) => {
        const fresh = curve.points.filter((point) => after === null || point.step > after);
        held.value = { subject, points: [...known, ...fresh] };
      })
      .catch((error: unknown) => {
        // No message: a banner shows when the server is gone.
        if (!isAborted(error)) held.value = { subject, points: known };
      });
    return () => abort.abort();
  }, [subject, version]);
  return held.value.subject === subject ? held.value.points : [];
}
