/** Colours of heat maps: blue for low, orange for high values, also for colour-blind users. */
export type Colour = readonly [number, number, number];

export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly isDiverging: boolean;
}

const NEGATIVE: Colour = [48, 120, 208];
const POSITIVE: Colour = [226, 118, 28];
const MIDDLE_DARK: Colour = [30, 34, 40];
const MIDDLE_LIGHT: Colour = [248, 248, 246];
export const NAN_COLOUR: Colour = [214, 39, 180];
export const POSITIVE_INF_COLOUR: Colour = [245, 214, 40];
export const NEGATIVE_INF_COLOUR: Colour = [20, 165, 90];
const ABSENT_SHARE = 0.5;

/** The scale of a heat map; symmetric around zero if there are values on both sides of it. */
export function scaleFor(low: number | null, high: number | null): Scale {
  if (low === null || high === null) return { low: 0, high: 1, isDiverging: false };
  if (low < 0 && high > 0) {
    const size = Math.max(-low, high);
    return { low: -size, high: size, isDiverging: true };
  }
  return { low, high: high === low ? low + 1 : high, isDiverging: false };
}

const EDGE_SHARE = 0.02;

/** The scale without the lowest and highest 2 % of the cells, which get the end colours. */
export function stretchedScale(cells: readonly (number | null)[]): Scale {
  const finite = cells.filter((cell): cell is number => cell !== null).sort((a, b) => a - b);
  const edge = Math.floor(finite.length * EDGE_SHARE);
  return scaleFor(finite[edge] ?? null, finite[finite.length - 1 - edge] ?? null);
}

function mixed(from: Colour, to: Colour, share: number): Colour {
  const part = Math.min(Math.max(share, 0), 1);
  return [0, 1, 2].map((at) =>
    Math.round((from[at] ?? 0) + ((to[at] ?? 0) - (from[at] ?? 0)) * part),
  ) as unknown as Colour;
}

/** The colour of a cell: of its marks (1 NaN, 2 +Inf, 4 -Inf) first, then of its mean. */
export function colourOf(
  value: number | null,
  marks: number,
  scale: Scale,
  isDark: boolean,
): Colour {
  if ((marks & 1) !== 0) return NAN_COLOUR;
  if ((marks & 2) !== 0) return POSITIVE_INF_COLOUR;
  if ((marks & 4) !== 0) return NEGATIVE_INF_COLOUR;
  const middle = isDark ? MIDDLE_DARK : MIDDLE_LIGHT;
  if (value === null) return mixed(middle, [128, 128, 128], ABSENT_SHARE);
  if (scale.isDiverging) {
    return value < 0
      ? mixed(middle, NEGATIVE, value / scale.low)
      : mixed(middle, POSITIVE, value / scale.high);
  }
  const share = (value - scale.low) / (scale.high - scale.low);
  return scale.high <= 0 ? mixed(NEGATIVE, middle, share) : mixed(middle, POSITIVE, share);
}

export function cssColour(colour: Colour): string {
  return `rgb(${colour.join(" ")})`;
}
