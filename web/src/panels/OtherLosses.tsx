import type { JSX } from "preact";
import type { LossPoint } from "../wire";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { runTitle } from "../text/names";
import { toNumber } from "../text/numbers";
import { go, place, rank, run, runs, throttledVersion } from "../state/store";
import { COLOURS, colourOf, type Series } from "../parts/Chart";

/** The losses of other runs and ranks, in the same chart. */

export interface OtherLoss {
  readonly name: string;
  readonly points: readonly LossPoint[];
}

function keyOf(id: string, number: number): string {
  return `${number} ${id}`;
}

function parseKey(text: string): { readonly run: string; readonly rank: number } | null {
  const [number, ...id] = text.split(" ");
  const found = Number(number);
  return Number.isInteger(found) && id.length > 0 ? { rank: found, run: id.join(" ") } : null;
}

function nameOf(at: { readonly run: string; readonly rank: number }): string {
  if (at.run === run.value?.id) return `rank ${at.rank}`;
  const ranks = runs.value.find((each) => each.id === at.run)?.ranks.length ?? 1;
  return `${runTitle(runs.value, at.run)}${ranks > 1 ? `, rank ${at.rank}` : ""}`;
}

/** The runs and ranks that the user has chosen besides the one on the screen, with their names. */
export function chosenRuns(): readonly {
  readonly run: string;
  readonly rank: number;
  readonly name: string;
}[] {
  return place.value.lossOf
    .map(parseKey)
    .filter((each) => each !== null)
    .map((at) => ({ ...at, name: nameOf(at) }));
}

export function useOtherLosses(): readonly OtherLoss[] {
  const chosen = chosenRuns();
  const key = place.value.lossOf.join("\n");
  const { data } = useResource(
    chosen.length === 0 ? null : { key },
    throttledVersion("loss"),
    (_request, signal) =>
      Promise.all(
        chosen.map(async ({ name, ...at }) => ({
          name,
          points: (await api.loss({ ...at, after: null }, signal)).points,
        })),
      ),
  );
  return data ?? NONE;
}

const NONE: readonly OtherLoss[] = [];

/** The lines of the run and those of the others, over the steps of all of them. */
export function withOthers(
  own: readonly LossPoint[],
  lines: readonly Series[],
  others: readonly OtherLoss[],
): { readonly steps: readonly number[]; readonly series: readonly Series[] } {
  const ownSteps = own.map((point) => point.step);
  if (others.length === 0) return { steps: ownSteps, series: lines };
  const all = [...own, ...others.flatMap(({ points }) => points)];
  const steps = [...new Set(all.map((point) => point.step))].sort((a, b) => a - b);
  const places = new Map(ownSteps.map((step, at) => [step, at]));
  const spread = lines.map((line) => ({
    ...line,
    values: steps.map((step) => line.values[places.get(step) ?? -1]),
    words: steps.map((step) => line.words?.[places.get(step) ?? -1] ?? null),
  }));
  const more = others.map(({ name, points }, number): Series => {
    const byStep = new Map(points.map((point) => [point.step, point.loss]));
    return {
      label: name,
      colour: colourOf(lines.length + number),
      isDashed: lines.length + number >= COLOURS.length,
      values: steps.map((step) => {
        const loss = byStep.get(step);
        if (loss == null) return undefined;
        const value = toNumber(loss);
        return Number.isFinite(value) ? value : null;
      }),
    };
  });
  return { steps, series: [...spread, ...more] };
}

/** Chooses whose losses are drawn, too. */
export function OtherLosses(): JSX.Element | null {
  const { lossOf } = place.value;
  const candidates = runs.value.flatMap((each) =>
    each.ranks
      .filter((one) => each.id !== run.value?.id || one.rank !== rank.value?.rank)
      .map((one) => ({ run: each.id, rank: one.rank })),
  );
  if (candidates.length === 0) return null;
  return (
    <>
      {candidates.slice(0, MOST_OFFERED).map((at) => {
        const key = keyOf(at.run, at.rank);
        return (
          <label key={key} class="check">
            <input
              type="checkbox"
              checked={lossOf.includes(key)}
              onChange={(event) =>
                go({
                  lossOf: event.currentTarget.checked
                    ? [...lossOf, key]
                    : lossOf.filter((each) => each !== key),
                })
              }
            />{" "}
            {nameOf(at)}
          </label>
        );
      })}
    </>
  );
}

const MOST_OFFERED = 16;
