/** A number in a message (`wire/numbers.py`): NaN, infinities and large integers are text. */
export type WireNumber = number | string;

export type Notation = "fixed" | "scientific" | "short";

export interface NumberFormat {
  readonly notation: Notation;
  readonly digits: number;
}

/** The kinds of numbers that a table marks. */
export type Mark = "nan" | "inf" | "-inf" | "finite";

export function mark(value: WireNumber | null): Mark {
  if (value === "nan" || value === "inf" || value === "-inf") return value;
  return "finite";
}

/** The number itself; integers beyond 2^53 come as text and are rounded here. */
export function toNumber(value: WireNumber): number {
  if (typeof value === "number") return value;
  switch (value) {
    case "nan":
      return Number.NaN;
    case "inf":
      return Number.POSITIVE_INFINITY;
    case "-inf":
      return Number.NEGATIVE_INFINITY;
    default:
      return Number(value);
  }
}

const MINUS = "−";

function withMinus(text: string): string {
  return text.startsWith("-") ? MINUS + text.slice(1) : text;
}

/** `value` for a cell of a table. Whole numbers in "short" stay whole; text for non-finite ones. */
export function formatNumber(value: WireNumber | null, format: NumberFormat): string {
  if (value === null) return "";
  switch (mark(value)) {
    case "nan":
      return "nan";
    case "inf":
      return "+inf";
    case "-inf":
      return `${MINUS}inf`;
    case "finite":
      break;
  }
  if (typeof value === "string") return withMinus(value);
  switch (format.notation) {
    case "fixed":
      return withMinus(value.toFixed(format.digits));
    case "scientific":
      return withMinus(value.toExponential(format.digits));
    case "short":
      return withMinus(shortNumber(value, format.digits));
  }
}

function shortNumber(value: number, digits: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) {
    return value
      .toExponential(Math.max(digits - 1, 0))
      .replace(/\.?0+e/, "e")
      .replace("e+", "e");
  }
  const text = value.toPrecision(Math.max(digits, 1));
  if (text.includes("e")) return String(Number(text));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Four significant digits, for statistics and labels. */
export function brief(value: WireNumber | null | undefined): string {
  return formatNumber(value ?? null, { notation: "short", digits: 4 });
}

/** 12345 as 12,345. */
export function grouped(count: number): string {
  return count.toLocaleString("en-US");
}

/** "1 step", "3 steps". */
export function counted(count: number, word: string): string {
  return `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** "1st", "22nd", "13th". */
export function ordinal(count: number): string {
  const last = count % 100 >= 11 && count % 100 <= 13 ? 0 : count % 10;
  return `${grouped(count)}${["th", "st", "nd", "rd"][last] ?? "th"}`;
}

export function seconds(value: number | null): string {
  if (value === null) return "–";
  if (value < 1e-3) return `${brief(value * 1e6)} µs`;
  if (value < 1) return `${brief(value * 1e3)} ms`;
  return `${brief(value)} s`;
}

/** float32[8,128] */
export function typeText(type: {
  readonly dtype: string;
  readonly shape: readonly number[];
}): string {
  return `${type.dtype}[${type.shape.join(",")}]`;
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** A size of memory, such as "3.1 MB". */
export function bytesText(bytes: number): string {
  let [size, unit] = [bytes, 0];
  while (size >= 1000 && unit < BYTE_UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : Number(size.toPrecision(2))} ${BYTE_UNITS[unit] ?? ""}`;
}

const NEAR_ONE = 0.999;

/** A cosine; one that rounds to 1 is told by its distance from 1: "1 − 1.9e-5". */
export function cosineText(value: WireNumber): string {
  const number = toNumber(value);
  if (!(number > NEAR_ONE) || number >= 1) return brief(value);
  return `1 − ${brief(Number((1 - number).toPrecision(2)))}`;
}
