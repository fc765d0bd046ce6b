import { Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ErrorChart, PairTable, Status } from "./Pairs";
import {
  flowThrough,
  short,
  sourceText,
  statusColor,
  type Choice,
  type ComparisonData,
  type Pair,
  type Source,
} from "./document";
import { error } from "../numbers";
import { cosineText } from "../../src/text/numbers";
import { numbers, Table } from "../Table";

const MANY = 400;

/** The page of `sonde compare`: the first divergence, the errors along the run, every pair. */
export function Comparison({ data }: { readonly data: ComparisonData }): JSX.Element {
  const first = data.first_divergence;
  // A new object for every choice: a pair chosen again is shown again.
  const [choice, setChoice] = useState<Choice>({ order: first?.order ?? null, isMoving: false });
  useEffect(() => {
    if (choice.isMoving) document.querySelector("tr.chosen")?.scrollIntoView({ block: "center" });
  }, [choice]);
  const choose = (pair: Pair): void => setChoice({ order: pair.order, isMoving: true });
  const toggle = (pair: Pair): void =>
    setChoice({ order: pair.order === choice.order ? null : pair.order, isMoving: false });
  return (
    <>
      <Head data={data} />
      {first !== null && <FirstDivergence data={data} choose={choose} />}
      <Reasons data={data} />
      <h2>Error along the run</h2>
      <ErrorChart data={data} chosen={choice.order} choose={choose} />
      <Losses data={data} />
      <Parts data={data} />
      <h2>Pairs</h2>
      <PairTable data={data} choice={choice} toggle={toggle} />
      <Unpaired data={data} />
    </>
  );
}

function Head({ data }: { readonly data: ComparisonData }): JSX.Element {
  const compared = data.pairs.filter((pair) => pair.tensors.length > 0).length;
  const by = { values: "", statistics: ", by statistics", both: ", partly by statistics" }[data.by];
  return (
    <>
      <h1>
        <span class={`verdict ${data.verdict}`}>{data.verdict}</span>
      </h1>
      <div class="quiet">
        {(["a", "b"] as const).map((side) => (
          <div key={side}>
            {side} <code>{data[side].path}</code> ({data[side].writer ?? "unknown"},{" "}
            {data[side].ops} ops)
          </div>
        ))}
        {compared} pairs compared{by}; steps {data.steps.slice(0, 12).join(", ")}
      </div>
    </>
  );
}

interface ChoosingProps {
  readonly data: ComparisonData;
  readonly choose: (pair: Pair) => void;
}

function FirstDivergence({ data, choose }: ChoosingProps): JSX.Element | null {
  const first = data.first_divergence;
  const here = data.pairs.find((pair) => pair.order === first?.order);
  if (first === null || here === undefined) return null;
  const found = first.distances;
  const measured: (readonly [string, string])[] = [
    ["relative L2", error(first.error)],
    ["allowed", error(first.allowed)],
    ["its inputs'", error(first.input_error)],
  ];
  if (found !== null) {
    measured.push(
      ["max abs", error(found.max_abs_error)],
      ["max rel", error(found.max_relative_error)],
      ["mean rel", error(found.mean_relative_error)],
    );
    measured.push([
      "cosine",
      typeof found.cosine === "number" ? cosineText(found.cosine) : (found.cosine ?? ""),
    ]);
    if (found.max_ulp !== "NaN") measured.push(["ULP", error(found.max_ulp)]);
  }
  return (
    <>
      <div class="card">
        <b>First divergence{first.confidence === "high" ? "" : " (low confidence)"}</b>: step{" "}
        {first.step}, {first.phase}. {first.cause}
        <div class="sides">
          <Side label="a" name={first.a} tensor={first.tensor_a} source={first.source_a} />
          <Side label="b" name={first.b} tensor={first.tensor_b} source={first.source_b} />
        </div>
        <div class="legend">
          {measured.map(([name, text]) => (
            <span key={name}>
              {name} <b>{text}</b>
            </span>
          ))}
        </div>
      </div>
      <h2>The path to it</h2>
      <div class="path">
        {flowThrough(data, here).map((pair, place) => (
          <Fragment key={pair.order}>
            {place > 0 && <span class="quiet">→</span>}
            <button
              type="button"
              class={pair === here ? "here" : ""}
              style={{ borderLeftColor: `var(${statusColor(pair.status)})` }}
              title={`${pair.a}\n${pair.b}`}
              onClick={() => choose(pair)}
            >
              {short(pair.a)}
              <small>
                {pair.status}, error {error(pair.error)}
              </small>
            </button>
          </Fragment>
        ))}
      </div>
    </>
  );
}

interface SideProps {
  readonly label: string;
  readonly name: string;
  readonly tensor: string;
  readonly source: Source | null;
}

function Side({ label, name, tensor, source }: SideProps): JSX.Element {
  return (
    <div>
      {label} <b class="mono">{name}</b>
      {/* An op's own output is called "op:output.0": only the name of a parameter says more. */}
      {tensor !== name && !tensor.startsWith(`${name}:`) && <div>tensor {tensor}</div>}
      {source !== null && <div class="quiet">{sourceText({ ...source, code: "" })}</div>}
      {source !== null && <pre>{source.code.trim() || sourceText(source)}</pre>}
    </div>
  );
}

function Reasons({ data }: { readonly data: ComparisonData }): JSX.Element | null {
  const lines = [...data.reasons, ...data.notes.map((note) => `note: ${note}`)];
  if (lines.length === 0) return null;
  return (
    <>
      <h2>From rough to fine</h2>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </>
  );
}

function Losses({ data }: { readonly data: ComparisonData }): JSX.Element | null {
  const known = data.losses.filter((loss) => loss.a !== null && loss.b !== null).slice(0, MANY);
  if (known.length === 0) return null;
  const text = (value: number | string | null): string =>
    typeof value === "number" ? String(Number(value.toPrecision(8))) : (value ?? "");
  return (
    <>
      <h2>Losses</h2>
      <Table
        rows={known}
        columns={[
          numbers("step", (loss: (typeof known)[number]) => loss.step, String),
          { name: "a", isNumber: true, value: (loss) => loss.a, show: (loss) => text(loss.a) },
          { name: "b", isNumber: true, value: (loss) => loss.b, show: (loss) => text(loss.b) },
          { name: "result", value: (loss) => (loss.agrees ? "agree" : "differ") },
        ]}
      />
    </>
  );
}

function Parts({ data }: { readonly data: ComparisonData }): JSX.Element | null {
  if (data.parts.length === 0) return null;
  return (
    <>
      <h2>Subnets and layers</h2>
      <details>
        <summary>{data.parts.length} in the forward pass</summary>
        <Table
          rows={data.parts}
          most={MANY}
          columns={[
            numbers("step", (part: (typeof data.parts)[number]) => part.step, String),
            { name: "level", value: (part) => part.level },
            { name: "name", value: (part) => part.name, look: "name" },
            numbers("pairs", (part: (typeof data.parts)[number]) => part.pairs, String),
            {
              name: "worst error",
              isNumber: true,
              value: (part) => Number(part.error),
              show: (part) => error(part.error),
            },
            {
              name: "worst status",
              value: (part) => part.status,
              show: (part) => <Status status={part.status} />,
            },
          ]}
        />
      </details>
    </>
  );
}

function Unpaired({ data }: { readonly data: ComparisonData }): JSX.Element | null {
  const once = [
    ...new Map(
      [...data.unpaired].reverse().map((each) => [`${each.side} ${each.op}`, each]),
    ).values(),
  ];
  if (once.length === 0) return null;
  return (
    <>
      <h2>Unpaired</h2>
      <details>
        <summary>{once.length} ops without a counterpart</summary>
        <Table
          rows={once}
          columns={[
            { name: "side", value: (each) => each.side },
            { name: "op", value: (each) => each.op, look: "name" },
            { name: "type", value: (each) => each.type },
            { name: "reason", value: (each) => each.reason, look: "wrap" },
          ]}
        />
      </details>
    </>
  );
}
