import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { api, type TagRequest } from "../../load/api";
import { useResource } from "../../load/resource";
import { isDark } from "../../state/preferences";
import { colourOf } from "../../tensor/colours";
import { brief, grouped } from "../../text/numbers";
import type { TagHistograms } from "../../wire";

const HEIGHT = 120;

/** The distribution of a tag over steps: a column for each step, darker where more values are. */
export function HistogramSteps({
  version,
  ...request
}: TagRequest & { readonly version: number }): JSX.Element {
  const { data, error } = useResource(request, version, api.logHistograms);
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  useEffect(() => {
    if (canvas.current !== null && data !== null) paint(canvas.current, data, dark);
  }, [data, dark]);
  if (error !== null) return <p class="error-line">{error}</p>;
  if (data === null) return <p class="quiet note">…</p>;
  const [low, high] = [data.edges[0] ?? 0, data.edges.at(-1) ?? 0];
  const [first, last] = [data.steps[0] ?? 0, data.steps.at(-1) ?? 0];
  return (
    <figure class="histogram-steps">
      <div class="histogram-values">
        <span>{brief(high)}</span>
        <span>{brief(low)}</span>
      </div>
      <canvas
        ref={canvas}
        role="img"
        style={{ height: `${HEIGHT}px` }}
        aria-label={`Distribution of ${request.tag} over ${data.steps.length} steps`}
      />
      <figcaption>
        <span>step {grouped(first)}</span>
        <span>{last === first ? "" : grouped(last)}</span>
      </figcaption>
    </figure>
  );
}

/** Draws each step on its own scale, the square root of the share, so that rare values are seen. */
function paint(canvas: HTMLCanvasElement, data: TagHistograms, dark: boolean): void {
  const bins = data.edges.length - 1;
  [canvas.width, canvas.height] = [Math.max(data.steps.length, 1), Math.max(bins, 1)];
  const context = canvas.getContext("2d");
  const image = context?.createImageData(canvas.width, canvas.height);
  if (context == null || image === undefined) return;
  data.counts.forEach((counts, column) => {
    const most = Math.max(...counts, 1e-300);
    counts.forEach((count, bin) => {
      if (count <= 0) return;
      const share = Math.sqrt(count / most);
      const colour = colourOf(share, 0, { low: 0, high: 1, isDiverging: false }, dark);
      image.data.set([...colour, 255], ((bins - 1 - bin) * canvas.width + column) * 4);
    });
  });
  context.putImageData(image, 0, 0);
}
