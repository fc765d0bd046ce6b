import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { useLoss } from "../state/loss";
import { brief, counted, toNumber } from "../state/numbers";
import { peakFree } from "../state/peaks";
import { logLoss } from "../state/preferences";
import { run } from "../state/store";
import { Chart, type Series } from "../parts/Chart";
import { Empty } from "../parts/Empty";

/** The loss of the run so far, and what its steps took. */
export function LossPanel(): JSX.Element {
  const points = useLoss();
  const { steps, loss, seconds, bad, hasLoss, most } = useMemo(() => {
    const values = points.map((point) => (point.loss === null ? null : toNumber(point.loss)));
    const finite = values.map((value) => (value !== null && Number.isFinite(value) ? value : null));
    const lossSeries: readonly Series[] = [{ label: "loss", colour: "one", values: finite, words: points.map((point) => (point.loss === null ? null : brief(point.loss))) }];
    const secondSeries: readonly Series[] = [
      { label: "without Sonde", colour: "two", values: points.map((point) => point.bare_seconds * 1e3) },
      { label: "with Sonde", colour: "three", values: points.map((point) => point.seconds * 1e3) },
    ];
    return {
      steps: points.map((point) => point.step),
      loss: lossSeries,
      seconds: secondSeries,
      bad: points.filter((_, at) => values[at] !== null && finite[at] === null).map((point) => point.step),
      most: peakFree(points.map((point) => point.seconds * 1e3)),
      hasLoss: values.some((value) => value !== null),
    };
  }, [points]);
  if (points.length === 0 && run.value?.kind === "dump") {
    return <Empty title="No loss">A dump holds no loss. Statistics of a tensor over the steps: open it, then “over steps”.</Empty>;
  }
  if (points.length === 0) return <Empty title="No step has ended yet">The curve grows with each step.</Empty>;
  return (
    <section class="scroll charts" aria-label="Loss">
      {hasLoss ? (
        <>
          <h4 class="with-choice">
            <span>
              Loss{bad.length > 0 && <span class="bad-text"> · not finite in {counted(bad.length, "step")}, first in step {bad[0]}</span>}
            </span>
            <label class="check">
              <input type="checkbox" checked={logLoss.value} onChange={(event) => (logLoss.value = event.currentTarget.checked)} /> log scale
            </label>
          </h4>
          <Chart steps={steps} series={loss} bad={bad} height={300} label="Loss by step" isLog={logLoss.value} />
        </>
      ) : (
        <p class="quiet">No loss was seen: Sonde takes the scalar whose backward() is called.</p>
      )}
      <h4>Milliseconds of a step{most !== undefined && <span class="quiet"> · above {brief(most)} cut off</span>}</h4>
      <Chart steps={steps} series={seconds} bad={[]} height={180} label="Milliseconds by step" most={most} />
    </section>
  );
}
