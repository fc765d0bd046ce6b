import uPlot from "uplot";
import { brief, formatNumber } from "../text/numbers";

/** Relative differences below this are those of float32 roundings. */
const ROUNDING = 1e-6;

/**
 * The ends of a linear axis of values from `low` to `high`. uPlot gives values that are almost
 * equal, such as the norms of clipped gradients (0.99999926 and 0.99999928), one end twice, and
 * then never stops making ticks.
 */
export function valueRange(low: number, high: number): uPlot.Range.MinMax {
  const room = ROUNDING * Math.max(Math.abs(low), Math.abs(high));
  if (low !== high && high - low < room) return [low - room, high + room];
  const [first, last] = uPlot.rangeNum(low, high, 0.1, true);
  return [Math.min(first ?? low, low), Math.max(last ?? high, high)];
}

/** The texts of ticks, with as many digits as distinguish them. */
export function tickTexts(ticks: readonly (number | null)[]): string[] {
  const shown = ticks.filter((each) => each !== null);
  let text: (tick: number) => string = brief;
  for (let digits = 5; new Set(shown.map(text)).size < shown.length && digits <= 12; digits++)
    text = (tick) => formatNumber(tick, { notation: "short", digits });
  return ticks.map((each) => (each === null ? "" : text(each)));
}
