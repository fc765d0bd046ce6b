import type { LossPoint } from "../wire";
import { brief, toNumber } from "../text/numbers";

/**
 * One line of a chart: undefined for a step of another line, null for a value that is not finite.
 */
export interface Line {
  /** The optimizer whose steps these are; empty where there is only one line. */
  readonly optimizer: string;
  readonly values: readonly (number | null | undefined)[];
  /** The text of a value that is not finite, such as "nan". */
  readonly words: readonly (string | null)[];
}

const MOST_LINES = 6;
const OTHERS = "others";

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/**
 * Which line each point belongs to, by its optimizer; of very many optimizers the last ones share a
 * line.
 */
function groupOf(points: readonly LossPoint[]): (point: LossPoint) => string {
  const names = [...new Set(points.map((point) => point.optimizer))];
  const own = new Set(names.length > MOST_LINES ? names.slice(0, MOST_LINES - 1) : names);
  return (point) => (own.has(point.optimizer) ? point.optimizer : OTHERS);
}

function linesOf(
  counted: readonly LossPoint[],
  line: (name: string, isOwn: (point: LossPoint) => boolean) => Line,
): readonly Line[] {
  const group = groupOf(counted);
  const names = [...new Set(counted.map(group))];
  if (names.length <= 1) return [line("", () => true)];
  return names.map((name) => line(name, (point) => group(point) === name));
}

/** The losses, one line per optimizer: those of a GAN cannot be compared with each other. */
export function lossLines(points: readonly LossPoint[]): readonly Line[] {
  return linesOf(
    points.filter((point) => point.loss !== null),
    (optimizer, isOwn) => ({
      optimizer,
      values: points.map((point) =>
        point.loss === null || !isOwn(point) ? undefined : finite(toNumber(point.loss)),
      ),
      words: points.map((point) =>
        point.loss === null || !isOwn(point) ? null : brief(point.loss),
      ),
    }),
  );
}

/** Milliseconds of the steps, a line for each optimizer. */
export function timeLines(
  points: readonly LossPoint[],
  seconds: (point: LossPoint) => number | null,
): readonly Line[] {
  return linesOf(points, (optimizer, isOwn) => ({
    optimizer,
    values: points.map((point) => {
      const value = isOwn(point) ? seconds(point) : null;
      return value === null ? undefined : value * 1e3;
    }),
    words: points.map(() => null),
  }));
}

/** The index of the last value of a line at `at` or before; -1 if there is none. */
export function lastPlace(values: readonly (number | null | undefined)[], at: number): number {
  let place = at;
  while (place >= 0 && values[place] === undefined) place -= 1;
  return place;
}
