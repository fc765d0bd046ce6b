import type { Box, Scene } from "./scene";

/** An arrow key in the graph. */
export type Direction = "ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight";

export function isDirection(key: string): key is Direction {
  return ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].includes(key);
}

function contains(outer: Box, inner: Box): boolean {
  return (
    outer !== inner &&
    outer.isOpen &&
    outer.depth < inner.depth &&
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    outer.x + outer.width >= inner.x + inner.width &&
    outer.y + outer.height >= inner.y + inner.height
  );
}

/** The innermost open box around a box. */
export function parentOf(scene: Scene, box: Box): Box | undefined {
  return scene.boxes
    .filter((each) => contains(each, box))
    .reduce<Box | undefined>(
      (best, each) => (best === undefined || each.depth > best.depth ? each : best),
      undefined,
    );
}

function centre(box: Box): readonly [number, number] {
  return [box.x + box.width / 2, box.isOpen ? box.y : box.y + box.height / 2];
}

function nearest(from: Box, boxes: readonly Box[]): Box | undefined {
  const [x, y] = centre(from);
  const far = (box: Box): number => Math.hypot(centre(box)[0] - x, centre(box)[1] - y);
  return boxes.reduce<Box | undefined>(
    (best, box) => (best === undefined || far(box) < far(best) ? box : best),
    undefined,
  );
}

function first(boxes: readonly Box[]): Box | undefined {
  return boxes.reduce<Box | undefined>(
    (best, box) =>
      best === undefined || box.y < best.y || (box.y === best.y && box.x < best.x) ? box : best,
    undefined,
  );
}

/**
 * The box that an arrow key leads to: down along an edge to a reader, or into an open scope; up to
 * a source, or out of the scope; left and right to the neighbours. Null: there is none.
 */
export function boxBeside(scene: Scene, from: Box | undefined, key: Direction): Box | null {
  const all = scene.boxes.filter((box) => box.node.what !== "outside");
  if (from === undefined) return first(all.filter((box) => box.depth === 0)) ?? null;
  const parent = parentOf(scene, from);
  const level = all.filter((box) => box !== from && parentOf(scene, box) === parent);
  const linked = new Set(
    scene.lines.flatMap((line) => {
      if (key === "ArrowDown") return line.source === from.path ? [line.target] : [];
      return line.target === from.path ? [line.source] : [];
    }),
  );
  const ends = level.filter((box) => linked.has(box.path));
  switch (key) {
    case "ArrowDown":
      if (from.isOpen) return first(all.filter((box) => parentOf(scene, box) === from)) ?? null;
      return (
        nearest(from, ends) ??
        nearest(
          from,
          level.filter((box) => box.y > from.y),
        ) ??
        null
      );
    case "ArrowUp":
      return (
        nearest(from, ends) ??
        nearest(
          from,
          level.filter((box) => box.y < from.y),
        ) ??
        parent ??
        null
      );
    case "ArrowLeft":
      return (
        nearest(
          from,
          level.filter((box) => box.x + box.width <= from.x),
        ) ??
        parent ??
        null
      );
    case "ArrowRight":
      return (
        nearest(
          from,
          level.filter((box) => box.x >= from.x + from.width),
        ) ?? null
      );
  }
}
