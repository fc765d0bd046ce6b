import type { JSX } from "preact";
import { colourOf } from "./Chart";

const WIDTH = 84;
const HEIGHT = 24;

type Values = readonly (number | null | undefined)[];

/**
 * Small curves without axes. A value that is not finite (null) is a gap with a mark; a missing
 * value (undefined) is not drawn.
 */
export function Sparkline({
  lines,
  label,
}: {
  readonly lines: readonly Values[];
  readonly label: string;
}): JSX.Element {
  const finite = lines.flat().filter((value) => value != null);
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const length = lines[0]?.length ?? 0;
  const x = (place: number): number =>
    length < 2 ? WIDTH / 2 : (place / (length - 1)) * (WIDTH - 4) + 2;
  const y = (value: number): number =>
    high === low ? HEIGHT / 2 : HEIGHT - 3 - ((value - low) / (high - low)) * (HEIGHT - 6);
  const drawn = (values: Values): string => {
    let path = "";
    let isDrawing = false;
    values.forEach((value, place) => {
      if (value === undefined) return;
      if (value !== null)
        path += `${isDrawing ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
      isDrawing = value !== null;
    });
    return path;
  };
  const bad = lines.map((values) => values.indexOf(null)).filter((place) => place >= 0);
  const firstBad = bad.length === 0 ? -1 : Math.min(...bad);
  return (
    <svg class="sparkline" width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      {firstBad >= 0 && (
        <rect
          class="bad"
          x={x(firstBad) - 1}
          y="2"
          width={Math.max(WIDTH - 2 - x(firstBad), 2)}
          height={HEIGHT - 4}
        />
      )}
      {lines.map((values, number) => (
        <path key={number} class={`line-${colourOf(number)}`} d={drawn(values)} />
      ))}
    </svg>
  );
}
