import type { JSX } from "preact";
import { Chart } from "./Chart";
import { extent } from "./numbers";

type Value = number | string | boolean | null | readonly Value[];

interface CodeLine {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

interface Finding {
  readonly kind: string;
  readonly detail: string;
  readonly status: "established" | "supported" | "hypothesis";
  readonly message: string;
  readonly where: readonly string[];
  readonly step: number | null;
  readonly evidence: Readonly<Record<string, Value>>;
  readonly advice: string;
  readonly code: readonly CodeLine[];
}

/** A diagnosis as src/sonde/diagnosis/report_page.py gives it. */
export interface DiagnosisData {
  readonly program: string;
  readonly steps: number;
  readonly findings: readonly Finding[];
  readonly loss_steps: readonly number[];
  readonly losses: readonly (number | null)[];
}

const COLOURS = { established: "--bad", supported: "--status-inherited", hypothesis: "--quiet" };

function shown(value: Value): string {
  if (Array.isArray(value)) return value.map(shown).join("; ");
  if (typeof value === "number" && !Number.isInteger(value))
    return String(Number(value.toPrecision(4)));
  return String(value);
}

/** The page of `sonde diagnose`: what is wrong, where, since when, and what to change. */
export function Diagnosis({ data }: { readonly data: DiagnosisData }): JSX.Element {
  const certain = data.findings.filter((found) => found.status !== "hypothesis").length;
  return (
    <>
      <h1>Diagnosis of {data.program}</h1>
      <p class={certain > 0 ? "bad-text" : ""}>
        <b>{data.findings[0]?.message ?? "No finding"}</b>
      </p>
      <p class="quiet">
        {data.steps} steps, {data.findings.length} findings, {certain} of them established or
        supported
      </p>
      {data.loss_steps.length > 1 && <LossCurve data={data} />}
      {data.findings.map((found, number) => (
        <FindingSection key={found.kind} found={found} number={number + 1} />
      ))}
    </>
  );
}

function FindingSection({
  found,
  number,
}: {
  readonly found: Finding;
  readonly number: number;
}): JSX.Element {
  const numbers = Object.entries(found.evidence);
  return (
    <section class="finding" aria-label={found.kind}>
      <h2>
        {number}. {found.message} <small>{found.status}</small>
      </h2>
      <p>
        <code>{found.kind}</code>
        {found.detail !== "" && <> · {found.detail}</>}
        {found.step !== null && <> · from step {found.step} on</>}
      </p>
      {found.where.length > 0 && <p>Where: {found.where.join(", ")}</p>}
      {found.code.map((line) => (
        <pre key={`${line.file}:${line.line}`} title={line.file}>
          {line.line} {line.text}
        </pre>
      ))}
      {numbers.length > 0 && (
        <dl>
          {numbers.map(([name, value]) => (
            <>
              <dt>{name.replaceAll("_", " ")}</dt>
              <dd>{shown(value)}</dd>
            </>
          ))}
        </dl>
      )}
      <p>
        <b>Do:</b> {found.advice}
      </p>
    </section>
  );
}

function LossCurve({ data }: { readonly data: DiagnosisData }): JSX.Element {
  const known = data.losses.filter((value) => value !== null);
  const [low, high] = known.length > 0 ? extent(known) : [0, 1];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  const rules = data.findings.flatMap((found) =>
    found.step === null
      ? []
      : [{ x: found.step, color: COLOURS[found.status], isAtTop: true, label: found.kind }],
  );
  return (
    <>
      <h2>
        Loss <small>lines: the steps from which on findings hold</small>
      </h2>
      <Chart
        label="loss"
        height={260}
        x={{
          low: data.loss_steps[0] ?? 0,
          high: data.loss_steps.at(-1) ?? 1,
          isWhole: true,
          label: "step",
        }}
        y={{ low: low - room, high: high + room }}
        lines={[{ x: data.loss_steps, y: data.losses, color: "--series-one", label: "loss" }]}
        rules={rules}
        zoom="select"
      />
    </>
  );
}
