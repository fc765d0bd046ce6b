import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { OpTensor, RankView, RunView, Summary, TensorType } from "../wire";
import { api, type TensorAt } from "../load/api";
import { elementCount, grouped, type NumberFormat } from "../text/numbers";
import { cellBy, digits, notation, sliceStatistics, stored } from "../state/preferences";
import { useResource } from "../load/resource";
import { useTensorVersion } from "../load/tensorVersion";
import { go, opTensors, place, rank, run } from "../state/store";
import { attempt, messageOf, toast } from "../state/toasts";
import { Empty } from "../parts/Empty";
import { KeepButton } from "../panels/KeepButton";
import { canObtainValues, ObtainValues } from "../panels/ObtainValues";
import { StatisticTable } from "../panels/Statistics";
import { isComparing } from "./CompareChoice";
import { ComparePane } from "./ComparePane";
import { CurvePane } from "./CurvePane";
import { Grid, MOST_ROWS } from "./Grid";
import { HeatMap } from "./HeatMap";
import { HistogramChart } from "./HistogramChart";
import { findNext, isFoundMark, type Bit, type Cell, type FoundMark } from "./find";
import { parseIndex, placeOf, planeIndex, windowIndex, type Plane } from "./slices";
import { TensorTools } from "./TensorTools";
import { TilesPane } from "./TilesPane";
import { useTiles } from "./tiles";

const TILE = { rows: 64, columns: 64 };
// A vector is wrapped into lines; 40 lines of 16 are one request.
const WRAP = 16;
const WRAPPED_TILE = { rows: 40, columns: WRAP };
const HEAT_CELLS = 320;

/** Stored in the tab, so that it is still marked after a reload. */
const lastFound = stored<FoundMark | null>(sessionStorage, "sonde.found", null, isFoundMark);

export function TensorView(): JSX.Element {
  const [currentRun, currentRank] = [run.value, rank.value];
  if (place.value.op === "" || currentRun === null || currentRank === null) {
    return (
      <Empty title="No tensor open">Select an op, then open one of its inputs or outputs.</Empty>
    );
  }
  return <OneTensor run={currentRun} rank={currentRank} />;
}

function OneTensor({
  run: currentRun,
  rank: currentRank,
}: {
  run: RunView;
  rank: RankView;
}): JSX.Element {
  const { op, io, slot, step } = place.value;
  const at: TensorAt = { run: currentRun.id, rank: currentRank.rank, op, io, slot, step };
  const version = useTensorVersion();
  const tensors = opTensors.value?.op === op ? opTensors.value.tensors : [];
  const summary = useResource(at, version, api.summary);
  const listed = tensors.find((each) => each.io === io && each.slot === slot) ?? null;
  const type = summary.data?.type ?? null;
  const { plane, problem } = usePlane(type);
  return (
    <section class="tensor" aria-label="Tensor">
      <TensorTools
        at={at}
        shown={summary.data?.tensor.step ?? null}
        type={type}
        tensors={tensors}
        steps={listed?.steps ?? []}
        plane={plane}
        indexProblem={problem}
      />
      {place.value.mode === "curve" ? (
        <CurvePane at={at} />
      ) : summary.error !== null ? (
        <Unavailable error={summary.error} tensor={listed} run={currentRun} />
      ) : (
        <Body
          key={`${op} ${io} ${slot}`}
          at={at}
          summary={summary.data}
          plane={plane}
          version={version}
        />
      )}
    </section>
  );
}

/** The plane that the address names; while the typed index is invalid, the last valid one. */
function usePlane(type: TensorType | null): {
  readonly plane: Plane | null;
  readonly problem: string | null;
} {
  const last = useRef<{ readonly shape: string; readonly plane: Plane } | null>(null);
  if (type === null || elementCount(type.shape) === 0) return { plane: null, problem: null };
  const shape = type.shape.join(",");
  try {
    const plane = parseIndex(place.value.index, type.shape);
    last.current = { shape, plane };
    return { plane, problem: null };
  } catch (error) {
    const before = last.current?.shape === shape ? last.current.plane : parseIndex("", type.shape);
    return { plane: before, problem: messageOf(error) };
  }
}

function Unavailable({
  error,
  tensor,
  run: current,
}: {
  error: string;
  tensor: OpTensor | null;
  run: RunView;
}): JSX.Element {
  const { op, step } = place.value;
  const statistics = tensor?.statistics ?? null;
  const why = tensor !== null && tensor.why !== "" && tensor.why !== error && <p>{tensor.why}</p>;
  if (step === null && canObtainValues(op))
    return (
      <Empty
        title={
          statistics === null
            ? "No values yet"
            : `No values yet, only the statistics of step ${tensor?.statistics_step ?? "?"}`
        }
      >
        {why}
        <p>
          <ObtainValues op={op} />
        </p>
        {statistics !== null && <StatisticTable of={statistics} />}
      </Empty>
    );
  return (
    <Empty title={statistics === null ? "No values available" : "Only statistics"}>
      <p>{error}</p>
      {statistics === null && why}
      {current.kind === "live" && (
        <p>
          <KeepButton run={current.id} op={op} />
        </p>
      )}
      {statistics !== null && (
        <>
          <p>
            <button type="button" class="small" onClick={() => go({ mode: "curve" })}>
              Over steps
            </button>
          </p>
          <StatisticTable of={statistics} />
        </>
      )}
    </Empty>
  );
}

interface BodyProps {
  readonly at: TensorAt;
  readonly summary: Summary | null;
  readonly plane: Plane | null;
  readonly version: string;
}

function Body({ at, summary, plane, version }: BodyProps): JSX.Element {
  const isFresh = useRef(false);
  const tensor = JSON.stringify([at.run, at.rank, at.op, at.io, at.slot]);
  const format: NumberFormat = { notation: notation.value, digits: digits.value };
  if (summary === null)
    return (
      <Empty title="Loading…">
        {rank.value?.state === "running" &&
          "The training is running; it answers when its step ends."}
      </Empty>
    );
  if (plane === null) return <Empty title="The tensor is empty">It has no elements.</Empty>;
  const { against, mode } = place.value;
  const mark =
    lastFound.value?.tensor === tensor && lastFound.value.axes === JSON.stringify(plane.axes)
      ? lastFound.value
      : null;
  const find = (bit: Bit): void => {
    void attempt(async () => {
      const after = mark !== null && mark.bit === bit ? mark : null;
      const next = await findNext({ at, shape: summary.type.shape, plane, bit, after });
      if (next === null) {
        toast("None found: the statistics are out of date. Refresh them.");
        return;
      }
      isFresh.current = true;
      lastFound.set({
        tensor,
        axes: JSON.stringify(parseIndex(next.index, summary.type.shape).axes),
        bit,
        ...next.cell,
      });
      go({
        mode: "table",
        against: null,
        index:
          after === null &&
          place.value.index === "" &&
          next.index === planeIndex(plane.axes, summary.type.shape)
            ? ""
            : next.index,
      });
    });
  };
  if (isComparing(against)) {
    return (
      <ComparePane
        at={at}
        against={against}
        plane={plane}
        format={format}
        statistics={summary.statistics}
      />
    );
  }
  return (
    <div class="tensor-body">
      <div class="tensor-main">
        {mode === "heat" ? (
          <HeatPane at={at} plane={plane} version={version} />
        ) : mode === "tiles" ? (
          <TilesPane at={at} shape={summary.type.shape} version={version} />
        ) : (
          <TablePane
            at={at}
            plane={plane}
            version={version}
            format={format}
            target={mark}
            isRevealed={isFresh.current}
          />
        )}
      </div>
      <SideStatistics at={at} summary={summary} plane={plane} version={version} onFind={find} />
    </div>
  );
}

interface SideStatisticsProps extends PaneProps {
  readonly summary: Summary;
  readonly onFind: (bit: Bit) => void;
}

/** The statistics and the histogram of the whole tensor, or of the slice on the screen. */
function SideStatistics({ at, summary, plane, version, onFind }: SideStatisticsProps): JSX.Element {
  const { shape } = summary.type;
  const isPart = elementCount(shape) > plane.rows * plane.columns;
  const isSlice = isPart && sliceStatistics.value;
  const index = planeIndex(plane.axes, shape);
  const slice = useResource(isSlice ? { ...at, index } : null, version, api.summary);
  const shown = isSlice ? slice.data : summary;
  return (
    <aside class="tensor-side" aria-label="Statistics">
      {isPart ? (
        <div class="segments" role="radiogroup" aria-label="Statistics of">
          {[false, true].map((each) => (
            <button
              key={String(each)}
              type="button"
              role="radio"
              aria-checked={isSlice === each}
              onClick={() => sliceStatistics.set(each)}
            >
              {each ? "this slice" : "whole tensor"}
            </button>
          ))}
        </div>
      ) : (
        <p class="quiet side-of">whole tensor</p>
      )}
      {slice.error !== null && <p class="error-line">{slice.error}</p>}
      {shown?.statistics != null && (
        <StatisticTable
          of={shown.statistics}
          isBool={summary.type.dtype === "bool"}
          onFind={onFind}
        />
      )}
      {shown?.histogram != null && <HistogramChart of={shown.histogram} />}
    </aside>
  );
}

interface PaneProps {
  readonly at: TensorAt;
  readonly plane: Plane;
  readonly version: string;
}

interface TableProps extends PaneProps {
  readonly format: NumberFormat;
  readonly target: Cell | null;
  /** Whether to scroll to the target, because it was just found. */
  readonly isRevealed: boolean;
}

function TablePane({ at, plane, version, format, target, isRevealed }: TableProps): JSX.Element {
  const isWrapped = plane.sliced.length === 1 && plane.columns > WRAP;
  const rows = isWrapped ? Math.ceil(plane.columns / WRAP) : plane.rows;
  const columns = isWrapped ? WRAP : plane.columns;
  const subject = JSON.stringify([at, version, plane.axes]);
  const cells = useTiles(
    subject,
    { rows, columns },
    isWrapped ? WRAPPED_TILE : TILE,
    async (tile, signal) => {
      const index = isWrapped
        ? windowIndex(plane, 0, 1, tile.row * WRAP, tile.rows * WRAP)
        : windowIndex(plane, tile.row, tile.rows, tile.column, tile.columns);
      return (await api.table({ ...at, index }, signal)).values;
    },
  );
  return (
    <>
      {cells.error !== null && <p class="error-line">{cells.error}</p>}
      <Grid
        rows={rows}
        columns={columns}
        rowLabel={(row) =>
          String(
            isWrapped
              ? placeOf(plane, "column", row * WRAP)
              : plane.sliced.length === 2
                ? placeOf(plane, "row", row)
                : "",
          )
        }
        columnLabel={(column) =>
          isWrapped
            ? `+${column}`
            : plane.sliced.length === 0
              ? "value"
              : String(placeOf(plane, "column", column))
        }
        at={cells.at}
        onVisible={cells.want}
        format={format}
        isRevealed={isRevealed}
        target={
          target !== null && isWrapped
            ? { row: Math.floor(target.column / WRAP), column: target.column % WRAP }
            : target
        }
        label="Values"
        subject={JSON.stringify([at.run, at.op, at.io, at.slot, plane.axes])}
      />
      {rows > MOST_ROWS && (
        <p class="quiet">
          Only the first {grouped(MOST_ROWS)} rows are shown. Change the index to see others.
        </p>
      )}
    </>
  );
}

function HeatPane({ at, plane, version }: PaneProps): JSX.Element {
  const index = windowIndex(plane, 0, plane.rows, 0, plane.columns);
  const { data, error, loading } = useResource(
    { ...at, index, rows: HEAT_CELLS, columns: HEAT_CELLS, by: cellBy.value },
    version,
    api.heat,
  );
  if (error !== null) return <Empty title="No heat map">{error}</Empty>;
  if (data === null) return <Empty title={loading ? "Loading…" : "No heat map"} />;
  return (
    <HeatMap
      heat={data}
      plane={plane}
      label="Values as a heat map"
      by={cellBy.value}
      onBy={cellBy.set}
      onArea={(row, rows, column, columns) =>
        go({
          index: windowIndex(
            plane,
            Math.max(row - 8, 0),
            rows + 16,
            Math.max(column - 4, 0),
            columns + 8,
          ),
          mode: "table",
        })
      }
    />
  );
}
