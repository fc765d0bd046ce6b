import type { JSX } from "preact";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { Empty } from "../parts/Empty";
import { StatusShape } from "../parts/StatusShape";
import { go, run, selectOp, shownGraphAt } from "../state/store";
import { fileName } from "../text/names";
import { counted } from "../text/numbers";
import type { DiagnosisView, FindingView, SourceLine } from "../wire";
import { openDialog } from "./dialogs";

/** What the diagnosis says about the training: causes first, their symptoms folded under them. */
export function Findings(): JSX.Element {
  const current = run.value;
  const diagnosis = current?.diagnosis ?? null;
  if (current === null || diagnosis === null)
    return <NotDiagnosed isDump={current?.kind === "dump"} />;
  if (diagnosis.findings.length === 0) return <Nothing diagnosis={diagnosis} />;
  return <List diagnosis={diagnosis} />;
}

function NotDiagnosed({ isDump }: { readonly isDump: boolean }): JSX.Element {
  return (
    <Empty title="Not diagnosed">
      {isDump ? (
        <>
          To see why a training fails beside its dump, make the dump with{" "}
          <code>sonde run --diagnose --dump-to DIR train.py</code>.
        </>
      ) : (
        <>
          A diagnosis begins with the first step. It is off with{" "}
          <code>sonde debug --no-diagnose</code>, and in a training that was started without{" "}
          <code>sonde debug</code>.
        </>
      )}
    </Empty>
  );
}

function Nothing({ diagnosis }: { readonly diagnosis: DiagnosisView }): JSX.Element {
  const steps = counted(diagnosis.steps, "step");
  return (
    <Empty title="No finding">
      {diagnosis.is_over
        ? `The diagnosis found nothing wrong in ${steps}.`
        : `The diagnosis has found nothing wrong in the first ${steps}.`}
    </Empty>
  );
}

function List({ diagnosis }: { readonly diagnosis: DiagnosisView }): JSX.Element {
  const kinds = diagnosis.findings.map(({ kind }) => kind).join(" ");
  const { data } = useResource(shownGraphAt.value, kinds, api.findingPlaces);
  const pathsOf = (kind: string): readonly string[] =>
    data?.places.find((each) => each.kind === kind)?.paths ?? [];
  return (
    <div class="findings scroll">
      <ol aria-label="Findings">
        {diagnosis.findings.map((finding, at) => (
          <Finding
            key={finding.kind}
            number={at + 1}
            finding={finding}
            paths={pathsOf(finding.kind)}
          />
        ))}
      </ol>
      {!diagnosis.is_over && (
        <p class="quiet note">
          After {counted(diagnosis.steps, "step")}; hypotheses follow when the training ends.
        </p>
      )}
    </div>
  );
}

interface FindingProps {
  readonly number: number;
  readonly finding: FindingView;
  /** What of the graph on the screen it names. */
  readonly paths: readonly string[];
}

function Finding({ number, finding, paths }: FindingProps): JSX.Element {
  const { kind, status, message, step, advice, evidence, explains } = finding;
  return (
    <li class={`finding ${status}`}>
      <div class="finding-head">
        <StatusShape status={status} />
        <b>{status}</b>
        {step !== null && <span class="quiet">from step {step} on</span>}
        <span class="spacer" />
        <button
          type="button"
          class="link"
          title="The documentation of this rule"
          onClick={() => openDialog({ kind: "rule", rule: kind })}
        >
          {kind}
        </button>
      </div>
      <p class="finding-text">
        {number}. {message}
      </p>
      {advice !== "" && (
        <p class="finding-advice">
          <b>Do:</b> {advice}
        </p>
      )}
      <Places finding={finding} paths={paths} />
      {evidence.length > 0 && (
        <table class="finding-evidence" aria-label={`Evidence of ${kind}`}>
          <tbody>
            {evidence.map(({ name, value }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {explains.length > 0 && (
        <details>
          <summary>Explains {counted(explains.length, "symptom")}</summary>
          <ul>
            {explains.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </details>
      )}
    </li>
  );
}

/** The lines and names that a finding has; those of the graph lead there. */
function Places({ finding, paths }: Omit<FindingProps, "number">): JSX.Element | null {
  const lines = new Map(finding.lines.map((line) => [placeOf(line), line]));
  const first = paths[0];
  if (finding.where.length === 0 && first === undefined) return null;
  return (
    <p class="finding-places">
      {finding.where.map((text) => {
        const line = lines.get(text);
        if (line === undefined) return <code key={text}>{text}</code>;
        return (
          <button
            key={text}
            type="button"
            class="link"
            title={`${line.code.trim()}: its ops`}
            onClick={() => go({ listing: "ops", file: line.file, line: line.line })}
          >
            {text}
          </button>
        );
      })}
      {first !== undefined && (
        <button
          type="button"
          class="small"
          title={first}
          onClick={() => selectOp(first, { tab: "graph" })}
        >
          In the graph
        </button>
      )}
    </p>
  );
}

function placeOf({ file, line }: SourceLine): string {
  return `${fileName(file)}:${line}`;
}
