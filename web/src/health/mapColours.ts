import { brief } from "../text/numbers";
import {
  colourOf,
  cssColour,
  NAN_COLOUR,
  POSITIVE_INF_COLOUR,
  type Colour,
  type Scale,
} from "../tensor/colours";

/** How the numbers of a map become colours; a number becomes a place from 0 to 1. */
export interface MapScale {
  readonly placeOf: (value: number) => number;
  readonly colours: Scale;
  /** The numbers at the ends of the legend. */
  readonly ends: readonly [string, string];
}

/** Statistics that are shares or counts: zero is the normal value, and more is worse. */
const LINEAR: ReadonlySet<string> = new Set(["zero_fraction", "non_finite_count"]);
const DIVERGING: Scale = { low: -1, high: 1, isDiverging: true };
const RISING: Scale = { low: 0, high: 1, isDiverging: false };
const SHADES = 256;
/** What a cell without a value is on the wire. */
const ABSENT = -Infinity;

export function isLinear(statistic: string): boolean {
  return LINEAR.has(statistic);
}

/** Norms: logarithmic, blue below the middle and orange above it. Shares and counts: from zero. */
export function scaleOf(
  statistic: string,
  least: number | null,
  greatest: number | null,
): MapScale {
  if (isLinear(statistic)) {
    const most = statistic === "zero_fraction" ? 1 : Math.max(greatest ?? 1, 1);
    return {
      placeOf: (value) => value / most,
      colours: RISING,
      ends: ["0", atLeast(statistic, most)],
    };
  }
  const low = Math.log(least ?? 1);
  const high = Math.max(Math.log(greatest ?? 1), low + 1e-9);
  return {
    placeOf: (value) => (Math.log(value) - low) / (high - low),
    colours: DIVERGING,
    ends: [`≤ ${brief(least ?? 0)}`, `≥ ${brief(greatest ?? 0)}`],
  };
}

/** A share is at most 1; a scale for counts ends before their greatest value. */
function atLeast(statistic: string, most: number): string {
  return statistic === "zero_fraction" ? brief(most) : `≥ ${brief(most)}`;
}

/** Differences from another run: of norms the factor, of shares and counts the difference. */
export function differenceScale(statistic: string, most: number): MapScale {
  const size = Math.max(most, 1e-6);
  const end = isLinear(statistic) ? brief(size) : `× ${brief(2 ** size)}`;
  const start = isLinear(statistic) ? brief(-size) : `÷ ${brief(2 ** size)}`;
  return {
    placeOf: (value) => (value / size + 1) / 2,
    colours: DIVERGING,
    ends: [start, end],
  };
}

/** Cell by cell the difference of two runs: the binary logarithm of the factor, or a - b. */
export function differences(
  statistic: string,
  a: Float32Array,
  b: Float32Array,
): { readonly values: Float32Array; readonly most: number } {
  const values = new Float32Array(a.length);
  let most = 0;
  a.forEach((own, at) => {
    const other = b[at] ?? ABSENT;
    const value = differenceOf(statistic, own, other);
    values[at] = value;
    if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  });
  return { values, most };
}

/** NaN where only one of the two is finite, absent where one is. */
export function differenceOf(statistic: string, own: number, other: number): number {
  if (own === ABSENT || other === ABSENT) return ABSENT;
  if (Object.is(own, other)) return 0;
  if (!Number.isFinite(own) || !Number.isFinite(other)) return NaN;
  if (isLinear(statistic)) return own - other;
  if (own === other) return 0;
  if (own === 0 || other === 0) return own === 0 ? -64 : 64;
  return Math.log2(own / other);
}

/** Cells as pixels, row by row. A cell without a value is transparent. */
export function pixels(cells: Float32Array, scale: MapScale, isDark: boolean): Uint8ClampedArray {
  const shades = Array.from({ length: SHADES }, (_, at) => shade(scale, at / (SHADES - 1), isDark));
  const found = new Uint8ClampedArray(cells.length * 4);
  cells.forEach((cell, at) => {
    if (cell === ABSENT) return;
    let colour: Colour | undefined;
    if (Number.isNaN(cell)) colour = NAN_COLOUR;
    else if (cell === Infinity) colour = POSITIVE_INF_COLOUR;
    else {
      const place = Math.min(Math.max(scale.placeOf(cell), 0), 1);
      colour = shades[Math.round((Number.isNaN(place) ? 0 : place) * (SHADES - 1))];
    }
    if (colour === undefined) return;
    found[at * 4] = colour[0];
    found[at * 4 + 1] = colour[1];
    found[at * 4 + 2] = colour[2];
    found[at * 4 + 3] = 255;
  });
  return found;
}

function shade({ colours }: MapScale, place: number, isDark: boolean): Colour {
  return colourOf(colours.low + (colours.high - colours.low) * place, 0, colours, isDark);
}

/** The ramp of the legend. */
export function gradient(scale: MapScale, isDark: boolean): string {
  const stops = [0, 0.25, 0.5, 0.75, 1].map((place) => cssColour(shade(scale, place, isDark)));
  return `linear-gradient(90deg, ${stops.join(",")})`;
}

/** The cells of an answer. */
export function decoded(text: string): Float32Array {
  const bytes = atob(text);
  const found = new Uint8Array(bytes.length);
  for (let at = 0; at < bytes.length; at += 1) found[at] = bytes.charCodeAt(at);
  return new Float32Array(found.buffer);
}

/** A cell in words. */
export function cellText(value: number | undefined): string {
  if (value === undefined || value === ABSENT) return "no value";
  return brief(Number.isFinite(value) ? value : Number.isNaN(value) ? "nan" : "inf");
}

/** A difference in words. */
export function differenceText(statistic: string, value: number): string {
  if (value === ABSENT) return "in one run only";
  if (Number.isNaN(value)) return "finite in one run only";
  if (isLinear(statistic)) return `${value < 0 ? "" : "+"}${brief(value)}`;
  if (value === 0) return "equal";
  return value < 0 ? `÷ ${brief(2 ** -value)}` : `× ${brief(2 ** value)}`;
}
