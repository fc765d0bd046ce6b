import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { graphText, moduleName, partText } from "../text/names";
import { graph, place, rank, selectOp } from "../state/store";
import type { Camera } from "./camera";
import { PictureTools } from "./GraphTools";
import type { Box, Scene } from "./scene";
import { visible } from "./view";

/*
 * Where in the graph the screen is: the scopes that contain it, the heads of scopes that begin
 * above it, and a small map of everything.
 */

const HEAD = 26;
const MAP_WIDTH = 150;
const MAP_HEIGHT = 110;

/** The open scopes around a point, outermost first. */
export function scopesAround(scene: Scene, x: number, y: number): Box[] {
  return scene.boxes
    .filter(
      (box) =>
        box.isOpen && box.x <= x && x <= box.x + box.width && box.y <= y && y <= box.y + box.height,
    )
    .sort((a, b) => a.depth - b.depth);
}

/** The short name of a scope; a group of equal ones keeps its range ("Block 0-5"). */
function crumbText({ node }: Box): string {
  return node.what === "group" ? node.label : moduleName(partText(node.label));
}

/**
 * The scopes in which the screen is: those whose heads are stuck above its middle, so that both say
 * the same; without such heads, the scopes around its middle.
 */
export function scopesOnScreen(
  scene: Scene,
  view: { readonly x: number; readonly y: number; readonly scale: number },
  size: { readonly width: number; readonly height: number },
): Box[] {
  const [x, middle] = [size.width / 2, size.height / 2];
  const above = stuckHeads(scene, view, size).filter(
    (head) => head.x <= x && x <= head.x + head.width,
  );
  const y = above.length === 0 ? middle : Math.max(...above.map((head) => head.y)) + HEAD;
  return scopesAround(scene, (x - view.x) / view.scale, (y - view.y) / view.scale);
}

/** Where the screen is in the graph; a click on a scope shows it from its beginning. */
export function Breadcrumb({ camera }: { readonly camera: Camera }): JSX.Element {
  const around = scopesOnScreen(camera.scene.value, camera.view.value, camera.size.value);
  const current = graph.value;
  return (
    <nav class="breadcrumb" aria-label="Where the screen is in the graph">
      <button type="button" class="link" title="Show everything (0)" onClick={() => camera.fit()}>
        {place.value.view}
      </button>
      {around.map((box) => (
        <span key={box.path}>
          <span class="quiet"> › </span>
          <button
            type="button"
            class="link"
            title={box.path}
            onClick={() => {
              selectOp(box.path);
              camera.reveal(box.path, true);
            }}
          >
            {crumbText(box)}
          </button>
        </span>
      ))}
      <span class="spacer" />
      {current !== null && (
        <span class="quiet graph-name" title={graphText(current, rank.value?.graphs ?? [])}>
          {graphText(current, rank.value?.graphs ?? [])}
        </span>
      )}
      {current?.is_compiled === true && (
        <span
          class="badge-text"
          title="torch.compile compiled parts of this step. The ops are those of the graph that the compiler was given, observed one by one, not fused; docs/compiled.md explains it."
        >
          compiled, ops unfused
        </span>
      )}
      <PictureTools camera={camera} />
    </nav>
  );
}

interface StuckHead {
  readonly box: Box;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

/**
 * The heads of open scopes that begin above or left of the screen, one below the other where they
 * are nested.
 */
export function stuckHeads(
  scene: Scene,
  view: { readonly x: number; readonly y: number; readonly scale: number },
  { width, height }: { readonly width: number; readonly height: number },
): StuckHead[] {
  const stuck: StuckHead[] = [];
  const open = scene.boxes.filter((box) => box.isOpen).sort((a, b) => a.depth - b.depth);
  for (const box of open) {
    const [left, top] = [box.x * view.scale + view.x, box.y * view.scale + view.y];
    const [right, bottom] = [left + box.width * view.scale, top + box.height * view.scale];
    const above = stuck.filter(
      ({ box: outer }) =>
        outer.depth < box.depth &&
        outer.x <= box.x &&
        outer.x + outer.width >= box.x + box.width &&
        outer.y + outer.height >= box.y + box.height,
    ).length;
    const y = Math.max(top, above * HEAD);
    const isSeen = top >= above * HEAD && left >= 0;
    if (isSeen || bottom <= y + HEAD || right <= 0 || left >= width || top >= height) continue;
    const x = Math.max(left, 0);
    stuck.push({ box, x, y, width: Math.min(right, width) - x });
  }
  return stuck;
}

export function StickyHeads({
  camera,
  onToggle,
}: {
  readonly camera: Camera;
  readonly onToggle: (box: Box) => void;
}): JSX.Element {
  const heads = stuckHeads(camera.scene.value, camera.view.value, camera.size.value);
  return (
    <div class="sticky-heads">
      {heads.map(({ box, x, y, width }) => (
        <div
          key={box.path}
          class={`sticky-head phase-${box.node.phase}`}
          style={{ left: `${x}px`, top: `${y}px`, width: `${width}px` }}
          title={box.path}
        >
          <button
            type="button"
            class="link"
            aria-label={`Close ${box.node.label}`}
            onClick={() => onToggle(box)}
          >
            ▾
          </button>
          <button type="button" class="link" onClick={() => selectOp(box.path)}>
            {box.node.label}
          </button>
        </div>
      ))}
    </div>
  );
}

/** A small map of the whole graph; hidden while everything is on the screen. */
export function Minimap({ camera }: { readonly camera: Camera }): JSX.Element | null {
  const [scene, view, { width, height }] = [
    camera.scene.value,
    camera.view.value,
    camera.size.value,
  ];
  const shapes = useMemo(() => outlines(scene), [scene]);
  if (scene.boxes.length === 0 || scene.width === 0) return null;
  const area = visible(view, width, height, 0);
  const seesAll =
    area.left <= 0 && area.top <= 0 && area.right >= scene.width && area.bottom >= scene.height;
  if (seesAll) return null;
  const scale = Math.min(MAP_WIDTH / scene.width, MAP_HEIGHT / scene.height);
  const go = (event: PointerEvent & { readonly currentTarget: SVGSVGElement }): void => {
    if (event.buttons !== 1) return;
    const corner = event.currentTarget.getBoundingClientRect();
    camera.centre({
      x: (event.clientX - corner.left) / scale,
      y: (event.clientY - corner.top) / scale,
    });
  };
  return (
    <svg
      class="minimap"
      role="img"
      aria-label="Map of the whole graph"
      width={scene.width * scale}
      height={scene.height * scale}
      viewBox={`0 0 ${scene.width} ${scene.height}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={go}
    >
      <path class="map-open" d={shapes.open} />
      <path class="map-boxes" d={shapes.closed} />
      <path class="map-hits" d={shapes.hits} />
      <rect
        class="map-screen"
        x={Math.max(area.left, 0)}
        y={Math.max(area.top, 0)}
        width={Math.max(Math.min(area.right, scene.width) - Math.max(area.left, 0), 0)}
        height={Math.max(Math.min(area.bottom, scene.height) - Math.max(area.top, 0), 0)}
      />
    </svg>
  );
}

function outlines({ boxes }: Scene): { open: string; closed: string; hits: string } {
  const path = (each: readonly Box[]): string =>
    each.map((box) => `M${box.x} ${box.y}h${box.width}v${box.height}h${-box.width}z`).join("");
  const closed = boxes.filter((box) => !box.isOpen && box.node.what !== "outside");
  return {
    open: path(boxes.filter((box) => box.isOpen)),
    closed: path(closed),
    hits: path(closed.filter((box) => box.node.hits > 0)),
  };
}
