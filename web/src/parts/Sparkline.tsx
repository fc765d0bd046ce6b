import type { JSX } from "preact";

const WIDTH = 84;
const HEIGHT = 24;

/** A small curve without axes; gaps and a mark where a value is not finite. */
export function Sparkline({ values, label }: { readonly values: readonly (number | null)[]; readonly label: string }): JSX.Element {
  const finite = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const x = (place: number): number => (values.length < 2 ? WIDTH / 2 : (place / (values.length - 1)) * (WIDTH - 4) + 2);
  const y = (value: number): number => (high === low ? HEIGHT / 2 : HEIGHT - 3 - ((value - low) / (high - low)) * (HEIGHT - 6));
  let path = "";
  let isDrawing = false;
  values.forEach((value, place) => {
    if (value === null || !Number.isFinite(value)) {
      isDrawing = false;
      return;
    }
    path += `${isDrawing ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    isDrawing = true;
  });
  const firstBad = values.findIndex((value) => value === null || !Number.isFinite(value));
  return (
    <svg class="sparkline" width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      {firstBad >= 0 && <rect class="bad" x={x(firstBad) - 1} y="2" width={Math.max(WIDTH - 2 - x(firstBad), 2)} height={HEIGHT - 4} />}
      <path d={path} />
    </svg>
  );
}
