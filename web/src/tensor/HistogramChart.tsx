import type { JSX } from "preact";
import type { Histogram } from "../wire";
import { brief, grouped } from "../text/numbers";

const WIDTH = 240;
const HEIGHT = 96;

/**
 * A histogram of the finite elements; heights are square roots, so that rare values stay visible.
 */
export function HistogramChart({ of }: { readonly of: Histogram }): JSX.Element {
  const most = Math.max(1, ...of.counts);
  const bar = WIDTH / Math.max(of.counts.length, 1);
  const [low, high] = [of.edges[0] ?? 0, of.edges.at(-1) ?? 0];
  const zero = low < 0 && high > 0 ? (-low / (high - low)) * WIDTH : null;
  return (
    <figure class="histogram">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label="Histogram of the finite elements"
      >
        {zero !== null && <line x1={zero} x2={zero} y1="0" y2={HEIGHT} />}
        {of.counts.map((count, at) => {
          const height = count === 0 ? 0 : Math.max(Math.sqrt(count / most) * (HEIGHT - 4), 1);
          return (
            <rect
              key={at}
              x={at * bar}
              width={Math.max(bar - 0.6, 0.4)}
              y={HEIGHT - height}
              height={height}
            >
              <title>
                {`${brief(of.edges[at] ?? 0)} to ${brief(of.edges[at + 1] ?? 0)}: ${grouped(count)}`}
              </title>
            </rect>
          );
        })}
      </svg>
      <figcaption>
        <span>{brief(low)}</span>
        <span class="quiet">√ count, at most {grouped(most)}</span>
        <span>{brief(high)}</span>
      </figcaption>
    </figure>
  );
}
