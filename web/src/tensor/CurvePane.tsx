import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { StatisticCurve } from "../wire";
import { api, type TensorAt } from "../load/api";
import { counted } from "../text/numbers";
import { useResource } from "../load/resource";
import { useTensorVersion } from "../load/tensorVersion";
import { curveStatistic, logCurve, smoothing } from "../state/preferences";
import { go, isOver, place, run, throttledVersion } from "../state/store";
import { attempt, isAborted, messageOf } from "../state/toasts";
import { Chart, COLOURS, colourOf, type Series } from "../parts/Chart";
import { Empty } from "../parts/Empty";
import { SmoothingField } from "../parts/SmoothingField";
import { AddCurve, CurveList, curveName, type ShownCurve } from "./CurveList";
import {
  allSteps,
  badSteps,
  curveKey,
  knownStatistics,
  parseCurveKey,
  RANGE,
  smoothed,
  valuesAt,
  type CurveAt,
  type StatisticChoice,
} from "./curves";

/** Statistics over the steps, of one tensor or of several together; a click opens the step. */
export function CurvePane({ at }: { readonly at: TensorAt }): JSX.Element {
  const tensorVersion = useTensorVersion();
  const { step: _, ...tensor } = at;
  const others = place.value.curves
    .map(parseCurveKey)
    .filter((each) => each !== null)
    .filter((each) => curveKey(each) !== curveKey(tensor));
  const all: readonly CurveAt[] = [tensor, ...others];
  const request = { keys: all.map(curveKey).join("\n") };
  const version = `${tensorVersion} ${throttledVersion("loss")}`;
  const { data, error, loading } = useResource(request, version, (_request, signal) =>
    Promise.all([api.curve(tensor, signal), ...others.map((each) => otherCurve(each, signal))]),
  );
  useRecording(all, data);
  if (error !== null) return <Empty title="No curve">{error}</Empty>;
  if (data === null) return <Empty title={loading ? "Loading…" : "No curve"} />;
  return (
    <div class="charts scroll">
      {data.every(({ points }) => points.length === 0) ? (
        <Empty title="No steps yet">
          Statistics of this tensor are recorded from the next step on.
        </Empty>
      ) : (
        <Curves all={all} data={data} />
      )}
      <CurveList all={all} data={data} />
      <AddCurve at={tensor} />
    </div>
  );
}

/** The curve of a further tensor: one that cannot be read leaves the others in the chart. */
async function otherCurve(at: CurveAt, signal: AbortSignal): Promise<ShownCurve> {
  try {
    return await api.curve(at, signal);
  } catch (error) {
    if (isAborted(error)) throw error;
    const { op, io, slot } = at;
    const type = { dtype: "", shape: [] };
    return { op, io, slot, type, points: [], is_recorded: true, problem: messageOf(error) };
  }
}

/** Has the statistics of what is shown recorded in every step, from the moment it is opened. */
function useRecording(all: readonly CurveAt[], data: readonly StatisticCurve[] | null): void {
  const missing =
    run.value?.kind === "live" && !isOver.value && data?.length === all.length
      ? all.filter((each, at) => each.run === run.value?.id && data[at]?.is_recorded === false)
      : [];
  const key = missing.map(curveKey).join("\n");
  useEffect(() => {
    for (const { run: id, rank, op, io, slot } of missing)
      void attempt(() => api.record(id, { op, io, slot, rank, is_on: true }));
  }, [key]);
}

function chosenStatistics(data: readonly StatisticCurve[]): {
  readonly known: readonly StatisticChoice[];
  readonly shown: readonly StatisticChoice[];
  readonly id: string;
} {
  const known = knownStatistics(data);
  const range = known.filter(({ id }) => id === "max" || id === "mean" || id === "min");
  const points = data[0]?.points ?? [];
  const ranged = points.filter((point) => range.some(({ of }) => of(point) !== null)).length;
  const canRange = data.length === 1 && 2 * ranged > points.length;
  const wanted = known.find(({ id }) => id === curveStatistic.value);
  if (wanted !== undefined) return { known, shown: [wanted], id: wanted.id };
  if (canRange) return { known, shown: range, id: RANGE };
  const one = known.find(({ id }) => id === "norm") ?? known[0];
  return { known, shown: one === undefined ? [] : [one], id: one?.id ?? "" };
}

function Curves({
  all,
  data,
}: {
  readonly all: readonly CurveAt[];
  readonly data: readonly StatisticCurve[];
}): JSX.Element {
  const { known, shown, id } = chosenStatistics(data);
  const share = smoothing.value;
  const { steps, series, bad } = useMemo(() => {
    const at = allSteps(data);
    const lines = data.flatMap((curve, number) =>
      shown.map((statistic, place): Series => {
        const line = data.length === 1 ? place : number;
        const name = all[number];
        return {
          label: data.length === 1 || name === undefined ? statistic.label : curveName(name, all),
          colour: colourOf(line),
          isDashed: line >= COLOURS.length,
          values: smoothed(valuesAt(curve, at, statistic), share),
        };
      }),
    );
    return { steps: at, series: lines, bad: badSteps(data) };
  }, [data, id, share]);
  return (
    <>
      <div class="chart-head">
        <select
          aria-label="Statistic"
          value={id}
          onChange={(event) => curveStatistic.set(event.currentTarget.value)}
        >
          {data.length === 1 && known.some((each) => each.id === "mean") && (
            <option value={RANGE}>min, mean, max</option>
          )}
          {known.map((each) => (
            <option key={each.id} value={each.id}>
              {each.label}
            </option>
          ))}
        </select>
        <label class="check">
          <input
            type="checkbox"
            checked={logCurve.value}
            onChange={(event) => logCurve.set(event.currentTarget.checked)}
          />{" "}
          log scale
        </label>
        <SmoothingField />
        {bad.length > 0 && (
          <span class="bad-text">
            not finite in {counted(bad.length, "step")}, first in step {bad[0]}
          </span>
        )}
      </div>
      <Chart
        steps={steps}
        series={series}
        bad={bad}
        height={280}
        label="Statistics by step"
        isLog={logCurve.value}
        onStep={(step) => go({ step, mode: "table" })}
      />
    </>
  );
}
