import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lastPart } from "../src/text/names";
import { counted } from "../src/text/numbers";
import { Chart, type Line } from "./Chart";
import { error, extent, toNumber } from "./numbers";
import { numbers, Table, type Column } from "./Table";

type Value = number | string;

interface Point {
  readonly step: number;
  readonly a: Value;
  readonly b: Value;
  readonly relative_error: Value;
  readonly out: boolean;
}

/** Two loss curves as src/sonde/compare/losses/report.py gives them. */
export interface LossData {
  readonly a: string;
  readonly b: string;
  readonly headline: string;
  readonly reasoning: readonly string[];
  readonly notes: readonly string[];
  readonly rtol: number;
  readonly aligned: boolean;
  readonly first_out_of_tolerance: { readonly step: number } | null;
  readonly steps: readonly number[];
  readonly values_a: readonly Value[];
  readonly values_b: readonly Value[];
  readonly errors: readonly Value[];
  readonly table_title: string;
  readonly table: readonly Point[];
}

const LEAST_ERROR = 1e-9;

function finite(values: readonly Value[]): readonly (number | null)[] {
  return values.map((value) => (typeof value === "number" ? value : null));
}

/** The page of `sonde loss`: the result, what it means, both curves and their error. */
export function Losses({ data }: { readonly data: LossData }): JSX.Element {
  const steps = { low: data.steps[0] ?? 0, high: data.steps.at(-1) ?? 0 };
  if (steps.low === steps.high) [steps.low, steps.high] = [steps.low - 0.5, steps.high + 0.5];
  const first = data.first_out_of_tolerance;
  const rules =
    first === null
      ? []
      : [
          {
            x: first.step,
            color: "--bad",
            isAtTop: true,
            label: `first out of tolerance: step ${first.step}`,
          },
        ];
  return (
    <>
      <h1>Two loss curves</h1>
      <p>
        a: <code>{data.a}</code>
        <br />
        b: <code>{data.b}</code>
      </p>
      <p class={data.aligned ? "" : "bad-text"}>
        <b>{data.headline}</b>
      </p>
      {data.reasoning.map((line) => (
        <p>{line}</p>
      ))}
      {data.notes.map((note) => (
        <p class="quiet">{note}</p>
      ))}
      <h2>Loss</h2>
      <LossChart data={data} steps={steps} rules={rules} />
      <h2>
        Relative error <small>dashed: the tolerance</small>
      </h2>
      <ErrorChart data={data} steps={steps} rules={rules} />
      <h2>{data.table_title}</h2>
      <Points points={data.table} />
    </>
  );
}

interface CurveProps {
  readonly data: LossData;
  readonly steps: { readonly low: number; readonly high: number };
  readonly rules: readonly { readonly x: number; readonly color: string }[];
}

function LossChart({ data, steps, rules }: CurveProps): JSX.Element {
  const line = (label: string, values: readonly Value[], color: string): Line => ({
    x: data.steps,
    y: finite(values),
    gap: (step) => String(values[data.steps.indexOf(step)] ?? "–"),
    color,
    label,
  });
  const known = [...finite(data.values_a), ...finite(data.values_b)].filter(
    (value) => value !== null,
  );
  const [low, high] = known.length > 0 ? extent(known) : [0, 1];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  const lines = [
    { ...line(`a: ${lastPart(data.a)}`, data.values_a, "--series-one"), width: 2.5 },
    { ...line(`b: ${lastPart(data.b)}`, data.values_b, "--series-three"), isDashed: true },
  ];
  return (
    <Chart
      label="both loss curves"
      height={320}
      x={{ ...steps, isWhole: true, label: "step" }}
      y={{ low: low - room, high: high + room }}
      lines={lines}
      rules={rules}
      hasLegend
      zoom="select"
    />
  );
}

/** The errors by powers of ten; those below the axis are drawn on its foot. */
function ErrorChart({ data, steps, rules }: CurveProps): JSX.Element {
  const known = finite(data.errors).filter((value) => value !== null);
  const positive = known.filter((value) => value > 0);
  const largest = Math.max(extent([0, ...known])[1], data.rtol, 10 * LEAST_ERROR);
  const least = positive.length > 0 ? extent(positive)[0] : data.rtol / 100;
  const power = Math.floor(Math.log10(Math.max(Math.min(least, data.rtol / 10 || 1), LEAST_ERROR)));
  const [low, high] = [
    10 ** power,
    10 ** Math.max(Math.ceil(Math.log10(largest) + 1e-9), power + 1),
  ];
  const errors = finite(data.errors).map((value) => (value === null ? null : Math.max(value, low)));
  const lines: Line[] = [{ x: data.steps, y: errors, color: "--quiet", label: "relative error" }];
  if (data.rtol > 0)
    lines.push({
      x: [steps.low, steps.high],
      y: [data.rtol, data.rtol],
      color: "--bad",
      isDashed: true,
      label: "tolerance",
    });
  return (
    <Chart
      label="relative error"
      height={220}
      x={{ ...steps, isWhole: true, label: "step" }}
      y={{ low, high, isLog: true }}
      lines={lines}
      rules={rules.map(({ x, color }) => ({ x, color }))}
      hasLegend
      zoom="select"
    />
  );
}

/** The steps with different losses; those with equal losses are folded. */
function Points({ points }: { readonly points: readonly Point[] }): JSX.Element {
  const [isUnfolded, unfold] = useState(false);
  const different = points.filter((point) => point.relative_error !== 0);
  const equal = points.length - different.length;
  return (
    <>
      {(isUnfolded || different.length > 0) && (
        <PointTable points={isUnfolded ? points : different} />
      )}
      {equal > 0 && (
        <p>
          {different.length === 0 ? "The losses are equal in all steps." : ""}{" "}
          <button type="button" aria-expanded={isUnfolded} onClick={() => unfold(!isUnfolded)}>
            {isUnfolded ? "hide" : "show"} {counted(equal, "step")} with equal losses
          </button>
        </p>
      )}
    </>
  );
}

function PointTable({ points }: { readonly points: readonly Point[] }): JSX.Element {
  const loss = (name: string, value: (point: Point) => Value): Column<Point> => ({
    name,
    isNumber: true,
    value: (point) => toNumber(value(point)),
    show: (point) =>
      typeof value(point) === "number"
        ? String(Number(Number(value(point)).toPrecision(9)))
        : value(point),
  });
  const columns: readonly Column<Point>[] = [
    numbers("step", (point) => point.step, String),
    loss("a", (point) => point.a),
    loss("b", (point) => point.b),
    {
      name: "relative error",
      isNumber: true,
      value: (point) => toNumber(point.relative_error),
      show: (point) => error(point.relative_error),
    },
  ];
  return (
    <Table rows={points} columns={columns} rowClass={(point) => (point.out ? "bad-text" : "")} />
  );
}
