import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { StatisticCurve } from "../wire";
import { api, type TensorAt } from "../load/api";
import { counted, toNumber, type WireNumber } from "../text/numbers";
import { useResource } from "../load/resource";
import { useTensorVersion } from "../load/tensorVersion";
import { go } from "../state/store";
import { Chart, type Series } from "../parts/Chart";
import { Empty } from "../parts/Empty";

/** One tensor's statistics over the steps; a click opens the step. */
export function CurvePane({ at }: { readonly at: TensorAt }): JSX.Element {
  const tensorVersion = useTensorVersion();
  const { step: _, ...tensor } = at;
  const { data, error, loading } = useResource(tensor, tensorVersion, api.curve);
  if (error !== null) return <Empty title="No curve">{error}</Empty>;
  if (data === null) return <Empty title={loading ? "Loading…" : "No curve"} />;
  if (data.points.length === 0)
    return (
      <Empty title="No steps yet">
        Statistics of this tensor are recorded from the next step on.
      </Empty>
    );
  return <Curves data={data} />;
}

function finite(value: WireNumber | null): number | null {
  if (value === null) return null;
  const number = toNumber(value);
  return Number.isFinite(number) ? number : null;
}

function Curves({ data }: { data: StatisticCurve }): JSX.Element {
  const { steps, values, spread, bad } = useMemo(() => {
    const { points } = data;
    const valueSeries: readonly Series[] = [
      {
        label: "max",
        colour: "three",
        values: points.map((point) => finite(point.statistics.finite_max)),
      },
      { label: "mean", colour: "one", values: points.map((point) => finite(point.statistics.avg)) },
      {
        label: "min",
        colour: "two",
        values: points.map((point) => finite(point.statistics.finite_min)),
      },
    ];
    const spreadSeries: readonly Series[] = [
      { label: "std", colour: "four", values: points.map((point) => finite(point.statistics.std)) },
      {
        label: "mean |x|",
        colour: "one",
        values: points.map((point) => finite(point.statistics.abs_mean)),
      },
    ];
    return {
      steps: points.map((point) => point.step),
      values: valueSeries,
      spread: spreadSeries,
      bad: points
        .filter(
          ({ statistics: of }) => of.nan_count + of.positive_inf_count + of.negative_inf_count > 0,
        )
        .map((point) => point.step),
    };
  }, [data]);
  const open = (step: number): void => go({ step, mode: "table" });
  return (
    <div class="charts">
      <h4>
        Min, mean, max
        {bad.length > 0 && (
          <span class="bad-text">
            {" "}
            · not finite in {counted(bad.length, "step")}, first in step {bad[0]}
          </span>
        )}
      </h4>
      <Chart
        steps={steps}
        series={values}
        bad={bad}
        height={240}
        label="Values by step"
        onStep={open}
      />
      <h4>Standard deviation, mean of |x|</h4>
      <Chart
        steps={steps}
        series={spread}
        bad={bad}
        height={170}
        label="Standard deviation by step"
        onStep={open}
      />
    </div>
  );
}
