import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { chosenRuns } from "../panels/OtherLosses";
import { findingMarks } from "../panels/FindingSteps";
import { Chart } from "../parts/Chart";
import { outlierLimit } from "../parts/outliers";
import { logLoss, smoothing } from "../state/preferences";
import { place, throttledVersion } from "../state/store";
import { brief, counted } from "../text/numbers";
import type { HealthView } from "../wire";
import { signalLines, type RunCurve } from "./signalLines";

const POINTS = 1500;

/** The signals in the order of the page; a step time is shown in milliseconds. */
const SIGNALS: readonly (readonly [string, string])[] = [
  ["loss", "Loss"],
  ["learning_rate", "Learning rate"],
  ["grad_norm", "Gradient norm"],
  ["update_ratio", "Update ratio"],
  ["step_seconds", "Step time, seconds"],
];

/** The health of the other runs whose curves are drawn, too. */
function useOthers(): readonly { readonly name: string; readonly view: HealthView }[] {
  const chosen = chosenRuns();
  const key = place.value.lossOf.join("\n");
  const { data } = useResource(
    chosen.length === 0 ? null : { key },
    throttledVersion("loss"),
    (_request, signal) =>
      Promise.all(
        chosen.map(async ({ name, ...at }) => ({
          name,
          view: await api.health({ ...at, points: POINTS }, signal),
        })),
      ),
  );
  return data ?? NONE;
}

const NONE: readonly { readonly name: string; readonly view: HealthView }[] = [];

/** Loss, learning rate, norms and step times, each a chart. */
export function SignalCharts({ view }: { readonly view: HealthView }): JSX.Element {
  const others = useOthers();
  const share = smoothing.value;
  const shown = useMemo(
    () =>
      SIGNALS.map(([name, title]) => {
        const curves: RunCurve[] = [{ name: "", view }, ...others].flatMap((each) =>
          each.view.curves
            .filter((curve) => curve.name === name)
            .map((curve) => ({ name: each.name, curve })),
        );
        return { name, title, ...signalLines(title.toLowerCase(), curves, share) };
      }).filter(({ steps }) => steps.length > 0),
    [view, others, share],
  );
  return (
    <div class="signal-charts">
      {shown.map(({ name, title, steps, series, bad }) => {
        const limit =
          name === "step_seconds"
            ? outlierLimit(series[0]?.values.map((v) => v ?? 0) ?? [])
            : undefined;
        return (
          <section key={name} class={name === "loss" ? "wide" : ""} aria-label={title}>
            <h4>
              {title}
              {bad.length > 0 && (
                <span class="bad-text">
                  {" "}
                  · not finite in {counted(bad.length, "step")}, first in step {bad[0]}
                </span>
              )}
              {limit !== undefined && (
                <span class="quiet"> · values above {brief(limit)} are cut off</span>
              )}
            </h4>
            <Chart
              steps={steps}
              series={series}
              bad={bad}
              marks={findingMarks()}
              height={name === "loss" ? 160 : 110}
              label={`${title} by step`}
              isLog={logLoss.value && name !== "step_seconds"}
              most={limit}
            />
          </section>
        );
      })}
    </div>
  );
}
