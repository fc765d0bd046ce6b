import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { LossPoint } from "../wire";
import { lossLines, timeLines, type Line } from "../parts/chartLines";
import { useLoss } from "../load/loss";
import { brief, counted } from "../text/numbers";
import { outlierLimit } from "../parts/outliers";
import { logLoss, smoothing } from "../state/preferences";
import { run } from "../state/store";
import { smoothed } from "../tensor/curves";
import { Chart, COLOURS, colourOf, type Series } from "../parts/Chart";
import { Empty } from "../parts/Empty";
import { SmoothingField } from "../parts/SmoothingField";
import { FindingSteps, findingMarks } from "./FindingSteps";
import { OtherLosses, useOtherLosses, withOthers } from "./OtherLosses";

function lossSeries({ optimizer, values, words }: Line, number: number): Series {
  return {
    label: optimizer || "loss",
    colour: colourOf(number),
    values,
    words,
    isDashed: number >= COLOURS.length,
  };
}

/** Step times with and without Sonde; of several optimizers each has a solid and a dashed line. */
function secondSeries(points: readonly LossPoint[]): readonly Series[] {
  const [by, bare] = [
    timeLines(points, (point) => point.seconds),
    timeLines(points, (point) => point.bare_seconds),
  ];
  if (by.length === 1) {
    return [
      { label: "without Sonde", colour: "two", values: bare[0]?.values ?? [] },
      { label: "with Sonde", colour: "three", values: by[0]?.values ?? [] },
    ];
  }
  return by.flatMap(({ optimizer, values }, number) => [
    {
      label: `${optimizer || "no optimizer"}, without Sonde`,
      colour: colourOf(number),
      values: bare[number]?.values ?? [],
      isDashed: true,
    },
    { label: "with", colour: colourOf(number), values },
  ]);
}

/** The loss of the run so far, with those of other runs and ranks, and the durations of steps. */
export function LossPanel(): JSX.Element {
  const points = useLoss();
  const others = useOtherLosses();
  const share = smoothing.value;
  const { steps, loss, lossSteps, seconds, bad, hasLoss, most } = useMemo(() => {
    const lines = lossLines(points);
    const joined = withOthers(points, lines.map(lossSeries), others);
    return {
      steps: points.map((point) => point.step),
      lossSteps: joined.steps,
      loss: joined.series.map((each) => ({ ...each, values: smoothed(each.values, share) })),
      seconds: secondSeries(points),
      bad: points
        .filter((_, at) => lines.some(({ values }) => values[at] === null))
        .map((point) => point.step),
      most: outlierLimit(points.map((point) => point.seconds * 1e3)),
      hasLoss: points.some((point) => point.loss !== null),
    };
  }, [points, others, share]);
  if (points.length === 0 && run.value?.kind === "dump") {
    return (
      <Empty title="No loss">
        No loss was found in this dump. To see a tensor's statistics over the steps, open the tensor
        and choose “over steps”.
      </Empty>
    );
  }
  if (points.length === 0)
    return <Empty title="No step has ended yet">The curve appears after the first step.</Empty>;
  return (
    <section class="scroll charts" aria-label="Loss">
      {hasLoss ? (
        <>
          <h4 class="with-choice">
            <span>
              Loss
              {bad.length > 0 && (
                <span class="bad-text">
                  {" "}
                  · not finite in {counted(bad.length, "step")}, first in step {bad[0]}
                </span>
              )}
            </span>
            <span class="chart-head">
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
            </span>
          </h4>
          <Chart
            steps={lossSteps}
            series={loss}
            bad={bad}
            marks={findingMarks()}
            height={300}
            label="Loss by step"
            isLog={logLoss.value}
          />
          <FindingSteps />
        </>
      ) : (
        <p class="quiet">
          No loss was recorded. Sonde records the scalar on which backward() is called.
        </p>
      )}
      {run.value?.kind === "live" && (
        <>
          <h4>
            Milliseconds per step
            {most !== undefined && (
              <span class="quiet"> · values above {brief(most)} are cut off</span>
            )}
          </h4>
          <Chart
            steps={steps}
            series={seconds}
            bad={[]}
            height={180}
            label="Milliseconds by step"
            most={most}
          />
        </>
      )}
    </section>
  );
}
