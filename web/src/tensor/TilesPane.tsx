import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Heat } from "../wire";
import { api, type TensorAt } from "../load/api";
import { brief, grouped } from "../text/numbers";
import { useResource } from "../load/resource";
import { isDark } from "../state/preferences";
import { go } from "../state/store";
import { Empty } from "../parts/Empty";
import { colourOf, scaleFor, type Scale } from "./colours";
import { canBeImages, tileIndex, tilesOf } from "./tilesOf";

const MOST_TILES = 64;
const TILE_CELLS = 64;

interface TilesPaneProps {
  readonly at: TensorAt;
  readonly shape: readonly number[];
  readonly version: string;
}

/**
 * The planes of a tensor of three or more dimensions side by side, in one scale: the channels of an
 * image, the filters of a convolution, the heads of an attention. A click opens the plane.
 */
export function TilesPane({ at, shape, version }: TilesPaneProps): JSX.Element {
  const asImages = useSignal(false);
  const isImage = canBeImages(shape) && asImages.value;
  const { tiles, total, words } = tilesOf(shape, isImage, MOST_TILES);
  const indexes = tiles.flatMap((places) =>
    isImage
      ? [0, 1, 2].map((channel) => tileIndex(shape, [...places, channel]))
      : [tileIndex(shape, places)],
  );
  const request = { ...at, indexes: indexes.join(";") };
  const { data, error, loading } = useResource(request, version, (_request, signal) =>
    Promise.all(
      indexes.map((index) =>
        api.heat({ ...at, index, rows: TILE_CELLS, columns: TILE_CELLS, by: "mean" }, signal),
      ),
    ),
  );
  if (tiles.length === 0)
    return <Empty title="No tiles">A tensor of three or more dimensions has several planes.</Empty>;
  if (error !== null) return <Empty title="No tiles">{error}</Empty>;
  if (data === null) return <Empty title={loading ? "Loading…" : "No tiles"} />;
  const known = (pick: (heat: Heat) => number | null): number[] =>
    data.map(pick).filter((each) => each !== null);
  const low = Math.min(...known((heat) => heat.low));
  const high = Math.max(...known((heat) => heat.high));
  const scale = scaleFor(Number.isFinite(low) ? low : null, Number.isFinite(high) ? high : null);
  return (
    <div class="tiles-pane scroll">
      <p class="toolbar">
        <span class="quiet">
          {words}
          {total > tiles.length && `, the first ${tiles.length} of ${grouped(total)}`} · from{" "}
          {brief(scale.low)} to {brief(scale.high)}
        </span>
        {canBeImages(shape) && (
          <label class="check">
            <input
              type="checkbox"
              checked={asImages.value}
              onChange={(event) => (asImages.value = event.currentTarget.checked)}
            />{" "}
            as colour images
          </label>
        )}
      </p>
      <div class="tiles">
        {tiles.map((places, number) => (
          <button
            key={places.join(",")}
            type="button"
            class="tile"
            title="Open this plane"
            onClick={() =>
              go({ mode: "heat", index: tileIndex(shape, isImage ? [...places, 0] : places) })
            }
          >
            <TilePicture
              heats={
                isImage ? data.slice(3 * number, 3 * number + 3) : data.slice(number, number + 1)
              }
              scale={scale}
            />
            <span>{places.join(", ")}</span>
          </button>
        ))}
      </div>
    </div>
  );
}

/** One plane in colours of its values; three planes as red, green and blue. */
function TilePicture({
  heats,
  scale,
}: {
  readonly heats: readonly Heat[];
  readonly scale: Scale;
}): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  useLayoutEffect(() => {
    const [first] = heats;
    const context = canvas.current?.getContext("2d");
    if (canvas.current === null || first === undefined || context == null) return;
    canvas.current.width = Math.max(first.columns, 1);
    canvas.current.height = Math.max(first.rows, 1);
    const image = context.createImageData(canvas.current.width, canvas.current.height);
    const range = scale.high - scale.low || 1;
    first.cells.forEach((cell, at) => {
      const colour =
        heats.length === 3
          ? heats.map((heat) => (255 * ((heat.cells[at] ?? scale.low) - scale.low)) / range)
          : [...colourOf(cell, first.marks[at] ?? 0, scale, dark)];
      image.data.set([...colour, 255], at * 4);
    });
    context.putImageData(image, 0, 0);
  }, [heats, scale.low, scale.high, dark]);
  return <canvas ref={canvas} role="img" aria-label="Plane" />;
}
