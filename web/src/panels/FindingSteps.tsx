import type { JSX } from "preact";
import { StatusShape } from "../parts/StatusShape";
import type { StepMark } from "../parts/stepMarks";
import { go, run } from "../state/store";
import type { FindingView } from "../wire";

/** The findings of the run that hold from a step on, as marks of a chart. */
export function findingMarks(): readonly StepMark[] {
  return listed().map(([finding, number]) => ({
    step: finding.step ?? 0,
    text: String(number),
    isStrong: finding.status === "established",
  }));
}

function listed(): readonly (readonly [FindingView, number])[] {
  const findings = run.value?.diagnosis?.findings ?? [];
  return findings
    .map((finding, at) => [finding, at + 1] as const)
    .filter(([finding]) => finding.step !== null);
}

/** What the numbers of the marks mean. */
export function FindingSteps(): JSX.Element | null {
  const found = listed();
  if (found.length === 0) return null;
  return (
    <ul class="finding-steps" aria-label="Findings by step">
      {found.map(([finding, number]) => (
        <li key={finding.kind}>
          <StatusShape status={finding.status} /> <b>{number}</b> from step {finding.step} on:{" "}
          <button
            type="button"
            class="link"
            title={finding.message}
            onClick={() => go({ side: "findings" })}
          >
            {finding.kind}
          </button>{" "}
          <span class="quiet">({finding.status})</span>
        </li>
      ))}
    </ul>
  );
}
