import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Compared, DistanceNumbers, Table } from "../wire";
import { api, type TensorAt } from "../state/api";
import { lastPart, runTitle } from "../state/names";
import { brief, grouped, toNumber, typeText, type NumberFormat } from "../state/numbers";
import type { Against } from "../state/place";
import { useResource } from "../state/resource";
import { useFreshness } from "../state/freshness";
import { go, place, runs } from "../state/store";
import { Empty } from "../parts/Empty";
import { Grid } from "./Grid";
import { HeatMap } from "./HeatMap";
import { windowIndex, type Plane } from "./slices";

const MOST_COLUMNS = 1000;
const MOST_CELLS = 100_000;

interface ComparePaneProps {
  readonly run: string;
  readonly at: TensorAt;
  readonly against: Against;
  readonly plane: Plane;
  readonly format: NumberFormat;
}

type Shown = "both" | "difference" | "a" | "b";

/** This tensor and another, and their difference, over one plane; numbers over the whole. */
export function ComparePane({ run, at, against, plane, format }: ComparePaneProps): JSX.Element {
  const shown = useSignal<Shown>(against.run === null ? "difference" : "both");
  const top = useSignal(0);
  const columns = Math.min(plane.columns, MOST_COLUMNS);
  const rows = Math.max(Math.min(plane.rows, Math.floor(MOST_CELLS / Math.max(columns, 1))), 1);
  const first = Math.min(top.value, Math.max(plane.rows - rows, 0));
  const index = windowIndex(plane, first, rows, 0, columns);
  const freshness = useFreshness();
  const { tolerance, mode } = place.value;
  const subject = JSON.stringify([run, at, against]);
  const { data, error, loading } = useResource(subject, `${index} ${tolerance} ${freshness}`, (signal) =>
    api.compare(run, at, against, index, tolerance, signal),
  );
  if (error !== null) {
    return (
      <Empty title="These two cannot be compared">
        <p class="error-line">{error}</p>
        <button type="button" onClick={() => go({ against: null })}>
          Stop comparing
        </button>
      </Empty>
    );
  }
  if (data === null) return <Empty title={loading ? "Comparing…" : "Nothing to compare"} />;
  return (
    <div class="compare">
      <div class="toolbar">
        <Choice data={data} against={against} shown={shown.value} onShown={(value) => (shown.value = value)} />
        {plane.rows > rows && (
          <span class="pager">
            <button type="button" class="small" disabled={first === 0} onClick={() => (top.value = Math.max(first - rows, 0))}>
              ‹
            </button>
            rows {grouped(first)}–{grouped(first + rows - 1)} of {grouped(plane.rows)}
            <button type="button" class="small" disabled={first + rows >= plane.rows} onClick={() => (top.value = first + rows)}>
              ›
            </button>
          </span>
        )}
        <span class="spacer" />
        <ToleranceField boundary={data.boundary} />
      </div>
      <Distances of={data.distances} />
      <Panes data={data} shown={mode === "heat" ? "heat" : shown.value} plane={plane} format={format} />
    </div>
  );
}

interface PanesProps {
  readonly data: Compared;
  readonly shown: Shown | "heat";
  readonly plane: Plane;
  readonly format: NumberFormat;
}

function Panes({ data, shown, plane, format }: PanesProps): JSX.Element {
  if (shown === "heat") return <HeatMap heat={data.heat} plane={plane} label="Difference as a picture" />;
  if (shown === "both") {
    return (
      <div class="sides">
        <Side table={data.a} boundary={0} isDifference={false} format={format} />
        <Side table={data.b} boundary={0} isDifference={false} format={format} />
        <div class="sides-difference">
          <HeatMap heat={data.heat} plane={plane} label="Difference as a picture" />
        </div>
      </div>
    );
  }
  const isDifference = shown === "difference";
  return <Side table={data[shown]} boundary={isDifference ? data.boundary : 0} isDifference={isDifference} format={format} />;
}

function name(table: Table): string {
  const { op, io, slot, step } = table.tensor;
  return `${lastPart(op)} ${io} ${slot}${step === null ? "" : `, step ${step}`}`;
}

interface ChoiceProps {
  readonly data: Compared;
  readonly against: Against;
  readonly shown: Shown;
  readonly onShown: (value: Shown) => void;
}

function Choice({ data, against, shown, onShown }: ChoiceProps): JSX.Element {
  const run = against.run === null ? null : runTitle(runs.value, against.run);
  const elsewhere = run !== null ? ` of ${run}` : against.rank !== null ? ` of rank ${against.rank}` : "";
  const texts: readonly (readonly [Shown, string, string])[] = [
    ["both", "side by side", "Both, and a picture of the difference"],
    ["difference", "difference", "This minus the other"],
    ["a", "this", `${name(data.a)} ${typeText(data.a.type)}`],
    ["b", "other", `${name(data.b)} ${typeText(data.b.type)}`],
  ];
  return (
    <>
      <div class="segments" role="tablist" aria-label="What the table shows">
        {texts.map(([value, text, title]) => (
          <button key={value} type="button" role="tab" aria-selected={shown === value} title={title} onClick={() => onShown(value)}>
            {text}
          </button>
        ))}
      </div>
      <span class="quiet versus">
        {name(data.a)} − {name(data.b)}
        {elsewhere}
      </span>
    </>
  );
}

function ToleranceField({ boundary }: { boundary: number }): JSX.Element {
  return (
    <label class="tolerance" title="Differences up to this share of the largest count as none">
      tolerance
      <input
        type="range"
        min="0"
        max="100"
        step="1"
        aria-label="Tolerance in per cent of the largest difference"
        value={Math.round(place.value.tolerance * 100)}
        onChange={(event) => go({ tolerance: Number(event.currentTarget.value) / 100 })}
      />
      <span class="fixed">{Math.round(place.value.tolerance * 100)} %</span>
      <span class="quiet">|d| ≤ {brief(boundary)}</span>
    </label>
  );
}

function Distances({ of }: { of: DistanceNumbers }): JSX.Element {
  const rest = of.count - of.equal_count;
  // NaN equals nothing, itself included: what is NaN in both counts as the same here.
  const isSame = of.non_finite_disagreed === 0 && of.max_abs_error === 0;
  return (
    <p class="distances" role="status">
      {isSame ? <b>the same{rest > 0 && `, ${grouped(rest)} NaN in both`}</b> : <b>{grouped(rest)} of {grouped(of.count)} differ</b>}
      <span>
        <i>max |d|</i> {brief(of.max_abs_error)}
      </span>
      <span>
        <i>mean |d|</i> {brief(of.mean_abs_error)}
      </span>
      <span>
        <i>max relative</i> {brief(of.max_relative_error)}
      </span>
      <span>
        <i>cosine</i> {brief(of.cosine)}
      </span>
      <span>
        <i>max ulp</i> {brief(of.max_ulp)}
      </span>
      {of.non_finite_disagreed > 0 && <b class="mark-nan">{grouped(of.non_finite_disagreed)} finite in one only</b>}
    </p>
  );
}

interface SideProps {
  readonly table: Table;
  readonly boundary: number;
  readonly isDifference: boolean;
  readonly format: NumberFormat;
}

function Side({ table, boundary, isDifference, format }: SideProps): JSX.Element {
  const largest = isDifference ? Math.max(0, ...table.values.map((value) => Math.abs(toNumber(value))).filter(Number.isFinite)) : 0;
  const weight = (value: number): number => (largest === 0 || Math.abs(value) <= boundary ? 0 : value / largest);
  return (
    <Grid
      rows={table.rows}
      columns={table.columns}
      rowLabel={(row) => String(table.row_start + row * table.row_step)}
      columnLabel={(column) => String(table.column_start + column * table.column_step)}
      at={(row, column) => table.values[row * table.columns + column] ?? null}
      onVisible={() => undefined}
      format={format}
      label={isDifference ? "Difference" : name(table)}
      {...(isDifference ? { weight } : {})}
    />
  );
}
