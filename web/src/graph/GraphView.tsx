import { effect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { usePairMarks } from "../compare/marks";
import { api, type GraphAt } from "../load/api";
import { isAmong } from "../text/names";
import { openMenuAtPointer } from "../state/nodeMenu";
import { stored } from "../state/preferences";
import {
  go,
  graph,
  opScope,
  place,
  rank,
  run,
  selectOp,
  throttledVersion,
  topicVersion,
} from "../state/store";
import { Boxes } from "./Boxes";
import { Camera, isSavedView, type SavedView } from "./camera";
import { dragged, pressed, wheeled } from "./gestures";
import { GraphTools, Legend, NoGraph } from "./GraphTools";
import { layoutScene, triedScene } from "./layout";
import { type Levels, useLevels } from "./levels";
import type { Opening } from "../wire";
import type { Box, Scene } from "./scene";

const MOST_FIRST = 60;
/**
 * A graph with so few boxes of ops is opened one level deeper, even if that does not fit on the
 * screen.
 */
const FEW = 4;
const GROUP_OPENS_ITSELF = 60;

/** Kept in the tab, so that a reload shows the same part of the graph. */
const savedView = stored<SavedView | null>(sessionStorage, "sonde.look", null, isSavedView);

/** The executed graph of the rank on the screen. */
export function GraphView(): JSX.Element {
  const [currentRun, currentRank, currentGraph] = [run.value, rank.value, graph.value];
  if (currentRun === null || currentRank === null || currentGraph === null) return <NoGraph />;
  const key = { run: currentRun.id, rank: currentRank.rank, graph: currentGraph.id };
  return (
    <OneGraph
      graphAt={key}
      version={`${currentGraph.nodes} ${throttledVersion("hits")} ${topicVersion("graph")}`}
    />
  );
}

function OneGraph({ graphAt, version }: { graphAt: GraphAt; version: string }): JSX.Element {
  const levels = useLevels(graphAt, place.value.open, version);
  const camera = useMemo(() => new Camera(savedView.peek()), []);
  const subject = `${graphAt.run} ${graphAt.rank} ${graphAt.graph}`;
  const open = place.value.open.join("\n");
  useEffect(
    () =>
      effect(() => {
        const looked = camera.looked(place.value.op, place.value.open.join("\n"));
        if (looked !== null) savedView.set(looked);
      }),
    [camera],
  );
  useLayoutEffect(() => {
    let isCurrent = true;
    void layoutScene(levels.levels).then((made) => {
      if (made !== null && isCurrent)
        camera.draw(
          made,
          subject,
          place.value.op,
          open,
          levels.levels.length > place.value.open.length,
        );
    });
    return () => {
      isCurrent = false;
    };
  }, [levels.levels]);
  usePairMarks(graphAt);
  useInitialOpening(graphAt, levels, subject, camera);
  useSelection(camera, levels.preload);
  return (
    <section class="graph" aria-label="Graph">
      <GraphTools camera={camera} loading={levels.loading} />
      <Picture camera={camera} preload={levels.preload} />
      {levels.error !== null && <p class="error-line">{levels.error}</p>}
      <Legend hidden={levels.levels.reduce((sum, each) => sum + each.level.hidden, 0)} />
    </section>
  );
}

/**
 * Opens as many scopes at first as are readable on the screen, unless the address names open scopes
 * or a selected op.
 */
function useInitialOpening(at: GraphAt, levels: Levels, subject: string, camera: Camera): void {
  const begun = useRef("");
  const isThere = levels.levels.some((each) => each.path === "" && each.level.nodes.length > 0);
  useEffect(() => {
    const isFresh = (): boolean =>
      place.value.open.length === 0 && place.value.op === "" && !place.value.isClosed;
    if (!isThere || begun.current === subject) return;
    begun.current = subject;
    if (!isFresh()) return;
    // Without an answer the graph stays closed, and a click opens it.
    void api
      .opening({ ...at, boxes: MOST_FIRST })
      .then(({ depths }) => readable(depths, levels.preload, camera))
      .then(
        (open) => {
          if (begun.current === subject && isFresh() && open.length > 0)
            go({ open, tree: place.value.tree.length > 0 ? place.value.tree : open });
        },
        () => undefined,
      );
  }, [isThere, subject]);
}

/** As many of these depths as are readable together on this screen. */
async function readable(
  depths: Opening["depths"],
  preload: Levels["preload"],
  camera: Camera,
): Promise<readonly string[]> {
  let open: readonly string[] = [];
  for (const depth of depths) {
    const tried = [...open, ...depth];
    const levels = await preload(tried);
    const isAll = levels.length === tried.length + 1;
    const scene = isAll ? await triedScene(levels) : null;
    const acting = levels[0]?.level.nodes.filter((node) => node.kind === "op") ?? [];
    const saysLittle = open.length === 0 && acting.length <= FEW;
    if (scene === null || !(saysLittle || camera.reads(scene))) break;
    open = tried;
  }
  return open;
}

/** Moves the selected op into view; a group that contains it is opened, once. */
function useSelection(camera: Camera, preload: Levels["preload"]): void {
  const openedFor = useRef("");
  const { op } = place.value;
  const [scope, scene] = [opScope.value, camera.scene.value];
  useEffect(() => {
    if (op === "") return;
    const isInside = (box: Box): boolean =>
      isAmong(box.node.members, op) || (scope !== "" && isAmong(box.node.members, scope));
    const group = scene.boxes.find((box) => box.node.what === "group" && isInside(box));
    if (group !== undefined && openedFor.current !== op) {
      openedFor.current = op;
      // A scope that is open may not be loaded yet.
      const isOpen = place.value.open.includes(group.path);
      if (!isOpen && group.node.members.length <= GROUP_OPENS_ITSELF)
        void toggle(group, camera, preload);
    }
    camera.reveal(op);
  }, [op, scope, scene]);
}

async function toggle(box: Box, camera: Camera, preload: Levels["preload"]): Promise<void> {
  const closes = place.value.open.includes(box.path);
  camera.hold(box, !closes);
  const opens = closes ? [] : await together(box.path, preload);
  const isInside = (each: string): boolean => box.path.endsWith("/") && each.startsWith(box.path);
  const rest = place.value.open.filter((each) => each !== box.path && !isInside(each));
  go({ open: [...rest, ...opens], isClosed: rest.length + opens.length === 0 });
}

/** A scope and, while a scope contains nothing but one other scope, that scope, too. */
async function together(path: string, preload: Levels["preload"]): Promise<readonly string[]> {
  const opens = [path];
  for (;;) {
    const found = (await preload(opens)).find((each) => each.path === opens.at(-1));
    const inside = found?.level.nodes.filter((node) => node.what !== "outside") ?? [];
    const [only] = inside;
    if (inside.length !== 1 || only?.what !== "scope") return opens;
    opens.push(only.path);
  }
}

function choose(box: Box, camera: Camera, preload: Levels["preload"]): void {
  switch (box.node.what) {
    case "op":
      camera.leave(box.path);
      selectOp(box.path);
      return;
    case "outside": {
      const target = box.node.members[0];
      if (target !== undefined && !target.endsWith("/")) selectOp(target);
      return;
    }
    case "scope":
    case "group":
      void toggle(box, camera, preload);
      return;
  }
}

function Picture({
  camera,
  preload,
}: {
  readonly camera: Camera;
  readonly preload: Levels["preload"];
}): JSX.Element {
  const frame = useRef<SVGSVGElement>(null);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() =>
      camera.resize(element.clientWidth, element.clientHeight),
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const latest = useRef(preload);
  latest.current = preload;
  const [scene, area, { op }, scope] = [
    camera.scene.value,
    camera.area.value,
    place.value,
    opScope.value,
  ];
  const [current, isPaused] = [rank.value?.op ?? null, rank.value?.state === "paused"];
  // Drawn again only if these values have changed: most changes of the address do not concern the
  // graph.
  const drawn = useMemo(
    () => (
      <Boxes
        scene={scene}
        area={area}
        marks={{ selected: op, selectedScope: scope, current, isPaused }}
        onBox={(box) => choose(box, camera, latest.current)}
        onToggle={(box) => void toggle(box, camera, latest.current)}
      />
    ),
    [scene, area, op, scope, current, isPaused, camera],
  );
  return (
    <svg
      ref={frame}
      class={camera.distance.value}
      tabindex={0}
      role="application"
      aria-label="The executed graph. Arrow keys move, plus and minus zoom, 0 fits. The menu key opens the menu of the selected op."
      data-boxes={scene.boxes.length}
      data-milliseconds={Math.round(camera.milliseconds.value)}
      onWheel={(event) => wheeled(event, camera)}
      onPointerDown={(event) => dragged(event, camera)}
      onContextMenu={(event) => showMenu(event, scene)}
      onKeyDown={(event) => {
        if (!pressed(event.key, camera)) return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <defs>
        <Tip id="tip" />
        <Tip id="tip-near" />
      </defs>
      <g transform={camera.transform}>{drawn}</g>
    </svg>
  );
}

/** Opens the menu of the box at the pointer, or, by a key, that of the selected op. */
function showMenu(event: MouseEvent, scene: Scene): void {
  const shape = event.target instanceof Element ? event.target.closest("[data-path]") : null;
  const box = scene.boxes.find((each) => each.path === shape?.getAttribute("data-path"));
  if (box === undefined) {
    if (shape === null && event.button !== 2) openMenuAtPointer(event, place.value.op, true);
    return;
  }
  const { node } = box;
  // A box that stands for several, or for one outside of the scope: the first of them.
  const isOne = node.what === "op" || node.what === "scope";
  const path = isOne ? box.path : (node.members[0] ?? "");
  openMenuAtPointer(event, path, node.kind === "op");
}

function Tip({ id }: { id: string }): JSX.Element {
  return (
    <marker
      id={id}
      viewBox="0 0 8 8"
      refX="7"
      refY="4"
      markerWidth="7"
      markerHeight="7"
      orient="auto"
      markerUnits="userSpaceOnUse"
    >
      <path d="M0 0L8 4L0 8z" class={id} />
    </marker>
  );
}
