import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Chart } from "../Chart";
import type { Dot, Rule } from "../marks";
import { error, extent, toNumber } from "../numbers";
import { cosineText } from "../../src/text/numbers";
import { numbers, Table, type Column } from "../Table";
import {
  isLeaf,
  short,
  sourceText,
  STATUSES,
  statusColor,
  tensorText,
  type Choice,
  type ComparisonData,
  type Pair,
  type Value,
} from "./document";

export function Status({ status }: { readonly status: string }): JSX.Element {
  return (
    <span>
      <i class="dot" style={{ background: `var(${statusColor(status)})` }} />
      {status}
    </span>
  );
}

interface StepProps {
  readonly data: ComparisonData;
  readonly value: number | null;
  readonly all?: string;
  readonly onChoice: (step: number | null) => void;
}

function StepChoice({ data, value, all, onChoice }: StepProps): JSX.Element {
  return (
    <select
      aria-label="step"
      value={value ?? ""}
      onChange={({ currentTarget }) =>
        onChoice(currentTarget.value === "" ? null : Number(currentTarget.value))
      }
    >
      {all !== undefined && <option value="">{all}</option>}
      {[...new Set(data.pairs.map((pair) => pair.step))].map((step) => (
        <option key={step} value={step}>
          step {step}
        </option>
      ))}
    </select>
  );
}

interface ErrorChartProps {
  readonly data: ComparisonData;
  readonly chosen: number | null;
  readonly choose: (pair: Pair) => void;
}

/** The error of every computing op of one step in their order, and what each may have. */
export function ErrorChart({ data, chosen, choose }: ErrorChartProps): JSX.Element {
  const [step, setStep] = useState(data.first_divergence?.step ?? data.pairs[0]?.step ?? 0);
  const shown = data.pairs.filter(
    (pair) => pair.step === step && pair.tensors.length > 0 && !isLeaf(pair) && !pair.is_plumbing,
  );
  const usable = (value: number): boolean => value > 0 && Number.isFinite(value);
  const values = shown
    .flatMap((pair) => [toNumber(pair.error), Math.min(toNumber(pair.allowed), 1)])
    .filter(usable);
  const [least, largest] = extent([1e-6, ...values]);
  const low = 10 ** Math.floor(Math.log10(Math.max(least, 1e-16)));
  const high = Math.max(10 ** Math.ceil(Math.log10(largest)), 10 * low);
  const onScale = (value: number): number =>
    Math.max(low, Math.min(high, Number.isNaN(value) ? low : value));
  const dots = shown.map((pair, x): Dot => {
    const tip = `${short(pair.a)}  ${pair.status}, error ${error(pair.error)}, allowed ${error(pair.allowed)}`;
    const isLarge = pair.status === "diverged" || pair.order === chosen;
    const outline = pair.order === chosen ? { outline: "--strong" } : {};
    return {
      x,
      y: onScale(toNumber(pair.error)),
      radius: isLarge ? 5 : 2.4,
      color: statusColor(pair.status),
      tip,
      onClick: () => choose(pair),
      ...outline,
    };
  });
  const rules = shown.flatMap((pair, x): readonly Rule[] =>
    pair.phase === shown[x - 1]?.phase ? [] : [{ x, color: "--quiet", label: pair.phase }],
  );
  const allowed = shown.map((pair) =>
    usable(toNumber(pair.allowed)) ? onScale(toNumber(pair.allowed)) : null,
  );
  return (
    <div class="card">
      <div class="tools">
        <StepChoice data={data} value={step} onChoice={(chosenStep) => setStep(chosenStep ?? 0)} />
        {STATUSES.slice(0, 5).map((status) => (
          <Status key={status} status={status} />
        ))}
        <span class="quiet">relative L2; the line is what each op may have</span>
      </div>
      <Chart
        label="errors of the ops in their order"
        height={300}
        x={{ low: -0.5, high: Math.max(shown.length, 1) - 0.5, ticks: [], size: 6 }}
        y={{ low, high, isLog: true }}
        lines={[
          {
            x: shown.map((_, place) => place),
            y: allowed,
            color: "--quiet",
            width: 1,
            opacity: 0.7,
          },
        ]}
        dots={dots}
        rules={rules}
        zoom="select"
      />
    </div>
  );
}

function errors(name: string, value: (pair: Pair) => Value | undefined): Column<Pair> {
  return {
    name,
    isNumber: true,
    value: (pair) => toNumber(value(pair)),
    show: (pair) => error(value(pair)),
  };
}

const COLUMNS: readonly Column<Pair>[] = [
  numbers("#", (pair) => pair.order, String),
  numbers("step", (pair) => pair.step, String),
  { name: "status", value: (pair) => pair.status, show: (pair) => <Status status={pair.status} /> },
  {
    name: "op",
    look: "name",
    value: (pair) => pair.a,
    show: (pair) => (
      <>
        {pair.a}
        {pair.b !== pair.a && <div class="quiet">{pair.b}</div>}
      </>
    ),
  },
  errors("rel. L2", (pair) => pair.error),
  errors("inputs'", (pair) => pair.input_error),
  errors("allowed", (pair) => pair.allowed),
  errors("max abs", (pair) => pair.distances?.max_abs_error),
  errors("max rel", (pair) => pair.distances?.max_relative_error),
  errors("mean rel", (pair) => pair.distances?.mean_relative_error),
  {
    ...errors("cosine", (pair) => pair.distances?.cosine),
    show: ({ distances }) =>
      typeof distances?.cosine === "number"
        ? cosineText(distances.cosine)
        : (distances?.cosine ?? ""),
  },
  errors("≤1/1000", (pair) => pair.distances?.within_1_permille),
  errors("ULP", ({ distances }) => (distances?.max_ulp === "NaN" ? null : distances?.max_ulp)),
];

function detailsOf(pair: Pair): ComponentChildren {
  const lines = [
    `${pair.type_a} in a, ${pair.type_b} in b; ${pair.phase}; paired by ${pair.how}`,
    pair.members_a.length > 0 ? `a also: ${pair.members_a.join(", ")}` : "",
    pair.members_b.length > 0 ? `b also: ${pair.members_b.join(", ")}` : "",
    pair.source_a === null ? "" : `a ${sourceText(pair.source_a)}`,
    pair.source_b === null ? "" : `b ${sourceText(pair.source_b)}`,
    ...pair.tensors.map(({ a, b, problem, error: found, layout }) => {
      const described = [a, b].map(
        (each) => `${tensorText(each)} ${each.dtype}[${each.shape.join(",")}]`,
      );
      return `${described.join(" and ")}: ${problem ?? `error ${error(found)}`}${layout === null ? "" : `, ${layout}`}`;
    }),
    ...pair.notes,
  ];
  return lines.filter(Boolean).map((line) => <div key={line}>{line}</div>);
}

interface PairTableProps {
  readonly data: ComparisonData;
  readonly choice: Choice;
  readonly toggle: (pair: Pair) => void;
}

/** Every pair; a click on one shows its details. */
export function PairTable({ data, choice, toggle }: PairTableProps): JSX.Element {
  const [status, setStatus] = useState("");
  const [step, setStep] = useState<number | null>(null);
  const isShown = (pair: Pair): boolean => {
    if (step !== null && pair.step !== step) return false;
    if (status === "computing") return !isLeaf(pair) && pair.tensors.length > 0;
    return status === "" || pair.status === status;
  };
  const chosen = choice.order;
  const chosenPair = data.pairs.find((pair) => pair.order === chosen);
  useEffect(() => {
    // A pair chosen in the chart is shown, whatever was filtered.
    if (chosenPair === undefined || isShown(chosenPair)) return;
    setStatus("");
    setStep(null);
  }, [choice]);
  const tools = (
    <>
      <select
        aria-label="status"
        value={status}
        onChange={({ currentTarget }) => setStatus(currentTarget.value)}
      >
        <option value="">every status</option>
        <option value="computing">computing ops only</option>
        {STATUSES.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
      <StepChoice data={data} value={step} all="every step" onChoice={setStep} />
    </>
  );
  return (
    <Table
      rows={data.pairs.filter(isShown)}
      columns={COLUMNS}
      most={200}
      chosen={chosenPair}
      searched={(pair) =>
        [pair.a, pair.b, pair.kind, sourceText(pair.source_a), sourceText(pair.source_b)].join(" ")
      }
      placeholder="name, kind or source line"
      tools={tools}
      rowClass={(pair) => (pair.order === chosen ? "row chosen" : "row")}
      onRow={toggle}
      details={(pair) => (pair.order === chosen ? detailsOf(pair) : null)}
    />
  );
}
