import type { JSX } from "preact";
import type { StatisticCurve } from "../wire";
import { api } from "../load/api";
import { runTitle, shortName } from "../text/names";
import { counted } from "../text/numbers";
import { go, isOver, place, rank, run, runs } from "../state/store";
import { attempt } from "../state/toasts";
import { Icon } from "../parts/Icon";
import { curveKey, type CurveAt } from "./curves";
import { OpNameField } from "./OpNameField";

/** A tensor's name; its rank and run where they differ among those shown. */
export function curveName(at: CurveAt, all: readonly CurveAt[]): string {
  const isOneOp = all.every(({ op, io, slot }) => op === at.op && io === at.io && slot === at.slot);
  const parts = [
    ...(isOneOp && all.length > 1
      ? []
      : [`${shortName(at.op)}${at.slot > 0 || at.io === "input" ? ` ${at.io} ${at.slot}` : ""}`]),
    ...(all.some((each) => each.rank !== at.rank) ? [`rank ${at.rank}`] : []),
    ...(all.some((each) => each.run !== at.run) ? [runTitle(runs.value, at.run)] : []),
  ];
  return parts.join(", ");
}

/** `problem`: why the tensor has no curve. */
export interface ShownCurve extends StatisticCurve {
  readonly problem?: string;
}

interface CurveListProps {
  readonly all: readonly CurveAt[];
  readonly data: readonly ShownCurve[];
}

/** The tensors of the chart: since when each is recorded, and buttons to remove them. */
export function CurveList({ all, data }: CurveListProps): JSX.Element {
  return (
    <ul class="curve-list" aria-label="Tensors in the chart">
      {all.map((at, number) => {
        const curve = data[number];
        return curve === undefined ? null : (
          <li key={curveKey(at)}>
            <span class="name" title={at.op}>
              {curveName(at, all.length === 1 ? [] : all) || shortName(at.op)}
            </span>
            <span class={curve.problem === undefined ? "quiet" : "bad-text"} role="status">
              {curve.problem ??
                recordedText({ ...curve, is_recorded: curve.is_recorded || canStop(at) })}
            </span>
            {canStop(at) && (
              <button
                type="button"
                class="small"
                title="Do not record its statistics in every step any more"
                onClick={() => {
                  void attempt(() => api.record(at.run, { ...requestOf(at), is_on: false }));
                  go({ mode: "table" });
                }}
              >
                stop recording
              </button>
            )}
            {number > 0 && (
              <button
                type="button"
                class="icon"
                aria-label={`Remove ${curveName(at, all)}`}
                onClick={() =>
                  go({ curves: place.value.curves.filter((each) => each !== curveKey(at)) })
                }
              >
                <Icon name="close" />
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function requestOf({ op, io, slot, rank }: CurveAt): {
  op: string;
  io: CurveAt["io"];
  slot: number;
  rank: number;
} {
  return { op, io, slot, rank };
}

function canStop(at: CurveAt): boolean {
  return at.run === run.value?.id && rank.value?.recorded.includes(at.op) === true;
}

/** Which steps the curve has. */
export function recordedText({ points, is_recorded: isRecorded }: StatisticCurve): string {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined)
    return isRecorded && !isOver.value ? "recording from the next step on" : "not recorded";
  const steps = `${counted(points.length, "step")}, ${first.step} to ${last.step}`;
  return isRecorded && !isOver.value && run.value?.kind === "live"
    ? `recording, since step ${first.step} (${counted(points.length, "step")})`
    : steps;
}

/** Adds the same tensor of other ranks and runs, or another tensor, to the chart. */
export function AddCurve({ at }: { readonly at: CurveAt }): JSX.Element {
  const add = (more: readonly CurveAt[]): void =>
    go({ curves: [...new Set([...place.value.curves, ...more.map(curveKey)])] });
  const otherRanks = (run.value?.ranks ?? [])
    .filter((each) => each.rank !== at.rank)
    .map((each) => ({ ...at, rank: each.rank }));
  const otherRuns = runs.value.filter((each) => each.id !== at.run);
  return (
    <p class="toolbar">
      <OpNameField
        label="Another tensor"
        class="wide"
        title="The name of an op or weight; that of a gradient ends with .grad"
        value=""
        run={null}
        placeholder="add another op or weight"
        onDone={(op) => {
          if (op !== "") add([{ ...at, op, io: "output", slot: 0 }]);
        }}
      />
      {otherRanks.length > 0 && (
        <button type="button" class="small" onClick={() => add(otherRanks)}>
          all ranks
        </button>
      )}
      {otherRuns.map((each) => (
        <button
          key={each.id}
          type="button"
          class="small"
          title={`The same tensor in ${each.title}`}
          onClick={() => add([{ ...at, run: each.id, rank: each.ranks[0]?.rank ?? 0 }])}
        >
          + {each.title}
        </button>
      ))}
    </p>
  );
}
