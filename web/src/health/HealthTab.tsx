import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { FindingSteps } from "../panels/FindingSteps";
import { OtherLosses } from "../panels/OtherLosses";
import { Empty } from "../parts/Empty";
import { SmoothingField } from "../parts/SmoothingField";
import { logLoss } from "../state/preferences";
import { rank, run, throttledVersion } from "../state/store";
import { useGrowth } from "./growth";
import { LayerMap } from "./LayerMap";
import { Lineage } from "./Lineage";
import { EventLogs, useLogs } from "./logs/EventLogs";
import { SignalCharts } from "./SignalCharts";

const POINTS = 1500;

/** The first screen of a run: its signals over the steps, and all its layers by steps. */
export function HealthTab(): JSX.Element {
  const [current, currentRank] = [run.value, rank.value];
  const request =
    current === null || currentRank === null
      ? null
      : { run: current.id, rank: currentRank.rank, points: POINTS };
  const [last, setLast] = useState<number | null>(null);
  const growth = useGrowth(current?.kind === "dump", last);
  const version = `${throttledVersion("loss")} ${growth}`;
  const { data, error } = useResource(request, version, api.health);
  const logs = useLogs() ?? [];
  useEffect(() => setLast(data?.last ?? null), [data?.last]);
  if (error !== null && data === null) return <p class="error-line">{error}</p>;
  if (data === null || request === null) return <p class="quiet note">…</p>;
  const isEmpty = data.curves.length === 0 && data.statistics.length === 0;
  if (isEmpty && logs.length === 0)
    return (
      <Empty title="Nothing to see over steps yet">
        {current?.kind === "dump"
          ? data.missing
          : "Curves and the map of layers appear after the first step."}
      </Empty>
    );
  return (
    <section class="scroll charts health" aria-label="Health">
      <div class="health-tools">
        <label class="check">
          <input
            type="checkbox"
            checked={logLoss.value}
            onChange={(event) => logLoss.set(event.currentTarget.checked)}
          />{" "}
          log scale
        </label>
        <SmoothingField />
        <OtherLosses />
      </div>
      <SignalCharts view={data} />
      <FindingSteps />
      {data.statistics.length === 0 ? (
        <p class="quiet note">No map of layers: {data.missing}</p>
      ) : (
        <LayerMap
          at={request}
          statistics={data.statistics}
          version={`${version} ${data.last ?? 0}`}
        />
      )}
      {currentRank?.metadata != null && <Lineage of={currentRank.metadata} />}
      <EventLogs logs={logs} />
    </section>
  );
}
