import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { api } from "../../load/api";
import { useResource } from "../../load/resource";
import { Chart } from "../../parts/Chart";
import { logLoss, smoothing } from "../../state/preferences";
import { signalLines } from "../signalLines";
import type { TaggedLogs } from "./tags";

const HEIGHT = 150;

/** One scalar of all logs that have it. */
export function ScalarChart({
  of: { tag, logs },
  version,
}: {
  readonly of: TaggedLogs;
  readonly version: number;
}): JSX.Element {
  const numbers = logs.map(({ number }) => number);
  const { data, error } = useResource({ tag, numbers }, version, (_request, signal) =>
    Promise.all(
      logs.map(async ({ number, name }) => ({
        name: logs.length === 1 ? "" : name,
        curve: await api.logScalar({ log: number, tag }, signal),
      })),
    ),
  );
  const share = smoothing.value;
  const lines = useMemo(
    () => (data === null ? null : signalLines(tag, data, share)),
    [data, share, tag],
  );
  if (error !== null) return <p class="error-line">{error}</p>;
  if (lines === null) return <p class="quiet note">…</p>;
  return (
    <Chart
      steps={lines.steps}
      series={lines.series}
      bad={lines.bad}
      height={HEIGHT}
      label={`${tag} by step`}
      isLog={logLoss.value}
    />
  );
}
