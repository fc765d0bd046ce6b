/** Which planes of a tensor are shown side by side: those of its last two dimensions. */

export interface Tiles {
  /** For each tile the places of the dimensions before the last two (three for colour images). */
  readonly tiles: readonly (readonly number[])[];
  readonly total: number;
  /** What the numbers of a tile mean. */
  readonly words: string;
}

/** Whether a tensor may be a batch of colour images: N x 3 x H x W, or 3 x H x W. */
export function canBeImages(shape: readonly number[]): boolean {
  const [channels, height, width] = shape.slice(-3);
  const isLarge = (height ?? 0) >= 4 && (width ?? 0) >= 4;
  return shape.length >= 3 && shape.length <= 4 && channels === 3 && isLarge;
}

export function tilesOf(shape: readonly number[], isImage: boolean, most: number): Tiles {
  const outer = shape.slice(0, isImage ? -3 : -2);
  if (shape.length < 3 || shape.includes(0)) return { tiles: [], total: 0, words: "" };
  const total = outer.reduce((product, size) => product * size, 1);
  const tiles = Array.from({ length: Math.min(total, most) }, (_, number) => {
    const places: number[] = [];
    let rest = number;
    for (const size of [...outer].reverse()) {
      places.unshift(rest % size);
      rest = Math.floor(rest / size);
    }
    return places;
  });
  const names = outer.map((_, dimension) => `dimension ${dimension}`);
  return {
    tiles,
    total,
    words: isImage ? "images" : `planes by ${names.join(" and ")}`,
  };
}

/** The index of the plane at `places`. */
export function tileIndex(shape: readonly number[], places: readonly number[]): string {
  return `[${shape.map((_, dimension) => places[dimension] ?? ":").join(", ")}]`;
}
