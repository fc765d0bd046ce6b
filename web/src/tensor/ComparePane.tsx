import type { JSX } from "preact";
import type { Compared, DistanceNumbers, StatisticNumbers, Table } from "../wire";
import { api, type TensorAt } from "../load/api";
import { lastPart, runTitle } from "../text/names";
import { brief, cosineText, grouped, toNumber, typeText, type NumberFormat } from "../text/numbers";
import type { Against, ComparedPart } from "../state/place";
import { useResource } from "../load/resource";
import { useTensorVersion } from "../load/tensorVersion";
import { go, place, run, runs } from "../state/store";
import { Empty } from "../parts/Empty";
import { TextField } from "../parts/TextField";
import { KeepButton } from "../panels/KeepButton";
import { StatisticPair } from "../panels/Statistics";
import { Grid } from "./Grid";
import { HeatMap } from "./HeatMap";
import { parseIndex, windowIndex, type Plane } from "./slices";

const MOST_COLUMNS = 1000;
const MOST_CELLS = 100_000;

interface ComparePaneProps {
  readonly at: TensorAt;
  readonly against: Against;
  readonly plane: Plane;
  readonly format: NumberFormat;
  readonly statistics: StatisticNumbers | null;
}

type Shown = Exclude<ComparedPart, "">;

/** This tensor, another one and their difference, in one plane; distances of the whole tensors. */
export function ComparePane({
  at,
  against,
  plane,
  format,
  statistics,
}: ComparePaneProps): JSX.Element {
  const { tolerance, mode, compared, comparedRow } = place.value;
  const shown: Shown = compared !== "" ? compared : against.run === null ? "difference" : "both";
  const columns = Math.min(plane.columns, MOST_COLUMNS);
  const rows = Math.max(Math.min(plane.rows, Math.floor(MOST_CELLS / Math.max(columns, 1))), 1);
  const first = Math.min(comparedRow, Math.max(plane.rows - rows, 0));
  // A picture shows the whole plane, a table as many rows as fit into one answer.
  const index =
    mode === "heat"
      ? windowIndex(plane, 0, plane.rows, 0, plane.columns)
      : windowIndex(plane, first, rows, 0, columns);
  const tensorVersion = useTensorVersion();
  // Rows and tolerance are part of the version: the old table stays visible while they change.
  const { data, error, loading } = useResource(
    { ...at, against },
    `${index} ${tolerance} ${tensorVersion}`,
    (request, signal) => api.compare({ ...request, index, tolerance }, signal),
  );
  if (error !== null)
    return (
      <Incomparable
        error={error}
        op={at.op}
        other={against.run === null && against.rank === null ? against.op : null}
        isStep={against.step !== null && against.run === null}
      />
    );
  if (data === null) {
    const other = run.value?.ranks.find((each) => each.rank === (against.rank ?? at.rank));
    return (
      <Empty title={loading ? "Comparing…" : "Nothing to compare"}>
        {other?.state === "running" &&
          `Rank ${other.rank} is running; it answers when its step ends.`}
      </Empty>
    );
  }
  return (
    <div class="compare">
      <div class="toolbar">
        <Choice
          data={data}
          names={sideNames(data, at, against)}
          shown={shown}
          onShown={(value) => go({ compared: value })}
        />
        <span class="spacer" />
        {plane.rows > rows && mode !== "heat" && (
          <Pager first={first} rows={rows} of={plane.rows} />
        )}
        <ToleranceField boundary={data.boundary} />
      </div>
      <Distances
        of={data.distances}
        what={sideNames(data, at, against).join(" − ")}
        isUpdate={isUpdate(data, against)}
        title={`${name(data.a)} − ${name(data.b)}`}
      />
      <div class="tensor-body">
        <div class="tensor-main">
          <Panes
            data={data}
            shown={mode === "heat" ? "heat" : shown}
            plane={parseIndex(index, data.a.type.shape)}
            format={format}
          />
        </div>
        {(shown !== "both" || mode === "heat") && (
          <BothStatistics
            at={at}
            against={against}
            version={tensorVersion}
            of={statistics}
            names={sideNames(data, at, against)}
          />
        )}
      </div>
    </div>
  );
}

function Pager({ first, rows, of }: { first: number; rows: number; of: number }): JSX.Element {
  return (
    <span class="pager">
      <button
        type="button"
        class="small"
        aria-label="Rows before"
        disabled={first === 0}
        onClick={() => go({ comparedRow: Math.max(first - rows, 0) })}
      >
        ‹
      </button>
      rows {grouped(first)}–{grouped(first + rows - 1)} of {grouped(of)}
      <button
        type="button"
        class="small"
        aria-label="Rows after"
        disabled={first + rows >= of}
        onClick={() => go({ comparedRow: first + rows })}
      >
        ›
      </button>
    </span>
  );
}

function Incomparable({
  error,
  op,
  other,
  isStep,
}: {
  error: string;
  op: string;
  /** The other op, if the comparison is with one of the same rank. */
  other: string | null;
  isStep: boolean;
}): JSX.Element {
  const current = run.value;
  return (
    <Empty title="These tensors cannot be compared">
      <p class="error-line">{error}</p>
      <p class="actions">
        {isStep && current?.kind === "live" && <KeepButton run={current.id} op={op} />}
        {other !== null && current?.kind === "live" && (
          <span title={other}>
            {lastPart(other)}: <KeepButton run={current.id} op={other} />
          </span>
        )}
        <button type="button" class="small" onClick={() => go({ against: null })}>
          Stop comparing
        </button>
      </p>
    </Empty>
  );
}

interface BothStatisticsProps {
  readonly at: TensorAt;
  readonly against: Against;
  readonly version: string;
  readonly of: StatisticNumbers | null;
  readonly names: readonly [string, string];
}

function BothStatistics({
  at,
  against,
  version,
  of,
  names,
}: BothStatisticsProps): JSX.Element | null {
  const other: TensorAt = {
    run: against.run ?? at.run,
    rank: against.rank ?? at.rank,
    op: against.op ?? at.op,
    io: against.io ?? at.io,
    slot: against.slot ?? at.slot,
    step: against.step ?? at.step,
  };
  const { data } = useResource(other, version, api.summary);
  if (of === null || data?.statistics == null) return null;
  return (
    <aside class="tensor-side pair" aria-label="Statistics">
      <StatisticPair one={of} other={data.statistics} names={names} />
    </aside>
  );
}

interface PanesProps {
  readonly data: Compared;
  readonly shown: Shown | "heat";
  readonly plane: Plane;
  readonly format: NumberFormat;
}

function Panes({ data, shown, plane, format }: PanesProps): JSX.Element {
  if (shown === "heat")
    return areSame(data.distances) ? (
      <Empty title="Identical">No element differs.</Empty>
    ) : (
      <HeatMap heat={data.heat} plane={plane} label="Difference as a heat map" by="largest" />
    );
  if (shown === "both") {
    return (
      <div class="sides">
        <Side table={data.a} boundary={0} isDifference={false} format={format} />
        <Side table={data.b} boundary={0} isDifference={false} format={format} />
        <div class="sides-difference">
          {areSame(data.distances) ? (
            <Empty title="Identical">No element differs.</Empty>
          ) : (
            <HeatMap heat={data.heat} plane={plane} label="Difference as a heat map" by="largest" />
          )}
        </div>
      </div>
    );
  }
  const isDifference = shown === "difference";
  return (
    <Side
      table={data[shown]}
      boundary={isDifference ? data.boundary : 0}
      isDifference={isDifference}
      format={format}
    />
  );
}

function name(table: Table): string {
  const { op, io, slot, step } = table.tensor;
  return `${lastPart(op)} ${io} ${slot}${step === null ? "" : `, step ${step}`}`;
}

function isSameTensor({ a, b }: Compared): boolean {
  return (
    a.tensor.op === b.tensor.op && a.tensor.io === b.tensor.io && a.tensor.slot === b.tensor.slot
  );
}

/** The names of the two tensors, by what differs: the runs, the ranks, the steps, or the ops. */
function sideNames(data: Compared, at: TensorAt, against: Against): readonly [string, string] {
  const { a, b } = data;
  if (against.run !== null)
    return [runTitle(runs.value, at.run), runTitle(runs.value, against.run)];
  if (against.rank !== null) return [`rank ${at.rank}`, `rank ${against.rank}`];
  if (isSameTensor(data)) return [`step ${a.tensor.step ?? "?"}`, `step ${b.tensor.step ?? "?"}`];
  return [name(a), name(b)];
}

/** Whether the comparison is of one tensor in two steps: then its change has a ratio. */
function isUpdate(data: Compared, against: Against): boolean {
  return against.run === null && against.rank === null && isSameTensor(data);
}

/** NaN does not equal NaN; here an element that is NaN in both tensors counts as equal. */
function areSame({ non_finite_disagreed: bad, max_abs_error: error }: DistanceNumbers): boolean {
  return bad === 0 && error === 0;
}

interface ChoiceProps {
  readonly data: Compared;
  readonly names: readonly [string, string];
  readonly shown: Shown;
  readonly onShown: (value: Shown) => void;
}

function Choice({ data, names, shown, onShown }: ChoiceProps): JSX.Element {
  const texts: readonly (readonly [Shown, string, string])[] = [
    ["both", "side by side", "Both tensors, and their difference as an image"],
    ["difference", "difference", names.join(" − ")],
    ["a", names[0], `${name(data.a)} ${typeText(data.a.type)}`],
    ["b", names[1], `${name(data.b)} ${typeText(data.b.type)}`],
  ];
  return (
    <div class="segments" role="tablist" aria-label="What the table shows">
      {texts.map(([value, text, title]) => (
        <button
          key={value}
          type="button"
          role="tab"
          aria-selected={shown === value}
          title={title}
          onClick={() => onShown(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

function percent(share: number): string {
  return String(Number((share * 100).toPrecision(4)));
}

function ToleranceField({ boundary }: { boundary: number }): JSX.Element {
  const { tolerance } = place.value;
  const put = (text: string): void => {
    const given = Number(text);
    if (text !== "" && Number.isFinite(given))
      go({ tolerance: Math.min(Math.max(given / 100, 0), 1) });
  };
  return (
    <span
      class="tolerance"
      title="Differences up to this share of the largest difference count as equal"
    >
      tolerance
      <input
        type="range"
        min="0"
        max="100"
        step="1"
        aria-label="Tolerance in per cent of the largest difference"
        value={Math.round(tolerance * 100)}
        onChange={(event) => put(event.currentTarget.value)}
      />
      <TextField
        label="Tolerance"
        class="percent"
        numeric
        value={percent(tolerance)}
        onDone={put}
      />
      % <span class="quiet">|d| ≤ {brief(boundary)}</span>
    </span>
  );
}

function Distances({
  of,
  what,
  isUpdate: hasRatio,
  title,
}: {
  of: DistanceNumbers;
  what: string;
  isUpdate: boolean;
  title: string;
}): JSX.Element {
  const rest = of.count - of.equal_count;
  const isSame = areSame(of);
  return (
    <p class="distances" role="status">
      <span class="quiet versus" title={title}>
        {what}
      </span>
      {isSame ? (
        <b>the same{rest > 0 && `, ${grouped(rest)} NaN in both`}</b>
      ) : (
        <b>
          {grouped(rest)} of {grouped(of.count)} differ
        </b>
      )}
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
        <i>cosine</i> {cosineText(of.cosine)}
      </span>
      <span title="The norm of the difference by the norm of the second tensor">
        <i>{hasRatio ? "|Δ|/|w|" : "relative L2"}</i> {brief(of.relative_l2)}
      </span>
      {of.max_ulp !== "nan" && (
        <span>
          <i>max ulp</i> {brief(of.max_ulp)}
        </span>
      )}
      {of.non_finite_disagreed > 0 && (
        <b class="mark-nan">{grouped(of.non_finite_disagreed)} finite in one only</b>
      )}
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
  const largest = isDifference
    ? Math.max(0, ...table.values.map((value) => Math.abs(toNumber(value))).filter(Number.isFinite))
    : 0;
  const weight = (value: number): number =>
    largest === 0 || Math.abs(value) <= boundary ? 0 : value / largest;
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
      subject={table.index}
      {...(isDifference ? { weight } : {})}
    />
  );
}
