/** Numbers of a report as text. Times are seconds, sizes bytes; a missing number is an empty text. */

type Maybe = number | null | undefined;

function threeDigits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A duration with three digits and a unit that fits: "31.4 ms". */
export function time(seconds: Maybe): string {
  if (seconds == null) return "";
  const size = Math.abs(seconds);
  if (size >= 0.9995) return `${threeDigits(seconds)} s`;
  return size >= 0.0009995
    ? `${threeDigits(seconds * 1e3)} ms`
    : `${threeDigits(seconds * 1e6)} µs`;
}

/** The duration of a trial: "9.0 s", "1m24s", "2h05m". */
export function duration(seconds: Maybe): string {
  if (seconds == null) return "";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  return minutes < 60
    ? `${minutes}m${two(seconds % 60)}s`
    : `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
}

function scaled(value: Maybe, base: number, units: readonly string[]): string {
  if (value == null) return "";
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  return threeDigits(value) + (units[unit] ?? "");
}

export function bytes(value: Maybe): string {
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}

/** A count with a decimal prefix: "41.6 G". */
export function rate(value: Maybe): string {
  return scaled(value, 1000, ["", " k", " M", " G", " T", " P"]);
}

export function percent(share: Maybe): string {
  return share == null ? "" : `${(100 * share).toFixed(Math.abs(share) < 0.0995 ? 1 : 0)} %`;
}

/** A value of a study as text: a string as it is, anything but a number as JSON. */
export function plainText(given: unknown): string {
  if (typeof given === "string") return given;
  return typeof given === "number" ? String(given) : JSON.stringify(given);
}

/** A value of any size: whole numbers stay whole, others have five digits; texts stay as they are. */
export function value(given: unknown): string {
  if (given == null) return "";
  if (typeof given !== "number") return plainText(given);
  if (Number.isInteger(given) && Math.abs(given) < 1e7) return String(given);
  const size = Math.abs(given);
  if (size < 1e-3 || size >= 1e6)
    return given
      .toExponential(3)
      .replace(/\.?0+e/, "e")
      .replace("e+", "e");
  return String(Number(given.toPrecision(5)));
}

/** An error: four digits, or two and a power of ten; texts ("Infinity") stay as they are. */
export function error(given: number | string | null | undefined): string {
  if (typeof given !== "number") return given ?? "";
  if (given === 0) return "0";
  const size = Math.abs(given);
  return size < 1e-3 || size >= 1e4 ? given.toExponential(2) : given.toPrecision(4);
}

/** A number, or its text in JSON ("NaN", "Infinity", "-Infinity"), as a number; NaN if missing. */
export function toNumber(given: number | string | null | undefined): number {
  return given == null ? Number.NaN : Number(given);
}

export function extent(values: readonly number[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const each of values) {
    if (each < low) low = each;
    if (each > high) high = each;
  }
  return [low, high];
}

/** The powers of ten between two positive numbers, at most nine; the ends where there is no more than one. */
export function powersOfTen(low: number, high: number): readonly number[] {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.max(1, Math.ceil((last - first) / 8));
  const powers = [...Array(Math.max(0, Math.floor((last - first) / every) + 1)).keys()].map(
    (each) => Number(`1e${first + each * every}`),
  );
  return powers.length > 1 ? powers : [low, Math.sqrt(low * high), high];
}

export function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
