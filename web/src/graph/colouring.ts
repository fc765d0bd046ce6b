import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type ShownGraphAt } from "../load/api";
import { place, run, throttledVersion } from "../state/store";
import { messageOf, isAborted } from "../state/toasts";
import { BOX_STATISTIC_NAMES, type ColourBy } from "../state/place";
import { groupScope } from "../text/names";
import { brief, seconds } from "../text/numbers";
import type { BoxStatistic, LevelValues } from "../wire";

interface Coloured {
  readonly by: ColourBy;
  readonly values: ReadonlyMap<string, number>;
  readonly least: number;
  readonly most: number;
  readonly step: number | null;
  readonly problem: string;
}

const PLAIN: Coloured = {
  by: "",
  values: new Map(),
  least: 0,
  most: 0,
  step: null,
  problem: "",
};
const found = signal<Coloured>(PLAIN);
export const coloured = computed(() => (place.value.colourBy === "" ? PLAIN : found.value));

/** Loads the values of the levels that are open, while the graph is coloured by a statistic. */
export function useBoxValues(at: ShownGraphAt): void {
  const { open, colourBy, step } = place.value;
  const version = run.value?.kind === "live" ? throttledVersion("status") : 0;
  const subject = [at.run, at.rank, at.graph, at.view, colourBy, step, version, ...open].join("\n");
  useEffect(() => {
    if (colourBy === "") {
      found.value = PLAIN;
      return undefined;
    }
    const abort = new AbortController();
    const load = (path: string): Promise<LevelValues> => {
      const scope = groupScope(path);
      const level = { ...at, scope: scope ?? path, group: scope === null ? "" : path };
      return api.levelValues({ ...level, statistic: colourBy, step }, abort.signal);
    };
    void load("").then(
      async (root) => {
        const inner = await Promise.all(open.map((path) => load(path).catch(() => null)));
        if (!abort.signal.aborted) found.value = joined(colourBy, root, inner);
      },
      (problem: unknown) => {
        if (!isAborted(problem))
          found.value = { ...PLAIN, by: colourBy, problem: messageOf(problem) };
      },
    );
    return () => abort.abort();
  }, [subject]);
}

function joined(
  by: BoxStatistic,
  root: LevelValues,
  inner: readonly (LevelValues | null)[],
): Coloured {
  const values = new Map<string, number>();
  for (const each of [root, ...inner])
    for (const box of each?.boxes ?? []) values.set(box.path, wireNumber(box.value));
  const problem = root.known === 0 ? "no values of this step are known" : "";
  return {
    by,
    values,
    least: wireNumber(root.least),
    most: wireNumber(root.most),
    step: root.step,
    problem,
  };
}

function wireNumber(value: number | string): number {
  return value === "inf" ? Infinity : Number(value);
}

/** The least value that has a colour of its own, as a share of the largest. */
const SCALE = 1e-4;

/** Where a value is between the least and the largest one, from 0 to 1. */
export function shareOf(value: number, { by, least, most }: Coloured): number {
  if (!Number.isFinite(value)) return 1;
  if (by === "non-finite") return value > 0 ? 1 : 0;
  if (by === "zeros") return Math.min(Math.max(value, 0), 1);
  const log = (number: number): number => Math.log10(Math.max(Math.abs(number), 1e-30));
  // States of an optimizer are many decades below the rest, which would all have one colour.
  const [low, high] = [log(Math.max(least, most * SCALE)), log(most)];
  return high <= low ? 0.5 : Math.min(Math.max((log(value) - low) / (high - low), 0), 1);
}

const MOST_MIXED = 62;

/** The colour of a box by its value; null: it has none, or boxes are not coloured by a value. */
export function boxColour(path: string): string | null {
  const value = coloured.value.values.get(path);
  if (value === undefined) return null;
  if (!Number.isFinite(value)) return "color-mix(in srgb, var(--nan) 45%, var(--surface))";
  return mixed(shareOf(value, coloured.value));
}

export function mixed(share: number): string {
  return `color-mix(in srgb, var(--heat) ${Math.round(share * MOST_MIXED)}%, var(--surface))`;
}

/** A value of the statistic that the boxes are coloured by. */
export function valueText(value: number): string {
  if (!Number.isFinite(value)) return "not finite";
  return coloured.value.by === "time" ? seconds(value) : brief(value);
}

/** The value of a box in words; empty without one. */
export function boxValueText(path: string): string {
  const value = coloured.value.values.get(path);
  if (value === undefined) return "";
  const { by } = coloured.value;
  const name = by === "" ? "" : BOX_STATISTIC_NAMES[by];
  return `${name} ${valueText(value)}`;
}
