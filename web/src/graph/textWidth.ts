import type { LevelNode } from "../wire";

/*
 * How wide the browser draws the texts of the graph. The layout runs in a worker, which has no
 * document to measure elements in; a canvas measures there, too.
 */

const FAMILY = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** The fonts of `styles/graph.css` and, for the family, of `styles/tokens.css`. */
export const FONTS = {
  op: `11.5px ${FAMILY}`,
  leaf: `10.5px ${FAMILY}`,
  scope: `600 11.5px ${FAMILY}`,
  outside: `10px ${FAMILY}`,
  count: `10.5px ${FAMILY}`,
  edge: `10px ${FAMILY}`,
  badge: `700 9px ${FAMILY}`,
} as const;

export type Font = (typeof FONTS)[keyof typeof FONTS];

/** Where there is no canvas (an old browser, a test), every letter counts as an average one. */
const AVERAGE_LETTER = 6.5;
const MOST_KNOWN = 20_000;

const context =
  typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");
const known = new Map<string, number>();

export function textWidth(text: string, font: Font): number {
  if (context === null) return text.length * AVERAGE_LETTER;
  const key = `${font}\n${text}`;
  let width = known.get(key);
  if (width === undefined) {
    context.font = font;
    width = context.measureText(text).width;
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(key, width);
  }
  return width;
}

/** The text, or as much of its beginning as fits into `room` pixels, with an ellipsis. */
export function clippedText(text: string, font: Font, room: number): string {
  if (textWidth(text, font) <= room) return text;
  let [fits, tooLong] = [0, text.length];
  while (tooLong - fits > 1) {
    const middle = Math.floor((fits + tooLong) / 2);
    if (textWidth(`${text.slice(0, middle)}…`, font) <= room) fits = middle;
    else tooLong = middle;
  }
  return `${text.slice(0, Math.max(fits, 2))}…`;
}

/** The font of a box's label. */
export function labelFont({ what, kind }: Pick<LevelNode, "what" | "kind">): Font {
  if (what === "outside") return FONTS.outside;
  if (what !== "op") return FONTS.scope;
  return kind === "op" ? FONTS.op : FONTS.leaf;
}
