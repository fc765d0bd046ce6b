import { effect, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { pairMarks, usePairMarks } from "../compare/marks";
import type { ShownGraphAt } from "../load/api";
import { openMenuAtPointer } from "../state/nodeMenu";
import { stored } from "../state/preferences";
import {
  currentOrder,
  deselect,
  opScope,
  place,
  rank,
  selectOp,
  shownGraphAt,
  graph,
  throttledVersion,
  topicVersion,
} from "../state/store";
import { isAmong } from "../text/names";
import { Boxes } from "./Boxes";
import { Camera, isSavedView, type SavedView } from "./camera";
import { coloured, useBoxValues } from "./colouring";
import { dragged, pressed, wheeled } from "./gestures";
import { GraphTools, NoGraph } from "./GraphTools";
import { layoutScene } from "./layout";
import { Legend } from "./Legend";
import { type Levels, useLevels } from "./levels";
import { useInitialOpening } from "./opening";
import { Breadcrumb, Minimap, StickyHeads } from "./Orientation";
import type { Box, Scene } from "./scene";
import { toggle } from "./toggling";
import { boxBeside, isDirection } from "./walking";

const GROUP_OPENS_ITSELF = 60;

/** Kept in the tab, so that a reload shows the same part of the graph. */
const savedView = stored<SavedView | null>(sessionStorage, "sonde.look", null, isSavedView);

/** The executed graph of the rank on the screen. */
export function GraphView(): JSX.Element {
  const [at, current] = [shownGraphAt.value, graph.value];
  if (at === null || current === null) return <NoGraph />;
  return (
    <OneGraph
      graphAt={at}
      version={`${current.nodes} ${throttledVersion("hits")} ${topicVersion("graph")}`}
    />
  );
}

function OneGraph({ graphAt, version }: { graphAt: ShownGraphAt; version: string }): JSX.Element {
  const levels = useLevels(graphAt, place.value.open, version);
  const camera = useMemo(() => new Camera(savedView.peek()), []);
  const subject = `${graphAt.run} ${graphAt.rank} ${graphAt.graph} ${graphAt.view}`;
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
    void layoutScene(levels.levels, graphAt.view === "model").then((made) => {
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
  useBoxValues(graphAt);
  useInitialOpening(graphAt, levels, `${subject} ${graph.value?.basis ?? ""}`, camera);
  useSelection(camera, levels.preload);
  return (
    <section class="graph" aria-label="Graph">
      <GraphTools camera={camera} loading={levels.loading} />
      <Breadcrumb camera={camera} />
      <div class="canvas">
        <Picture camera={camera} preload={levels.preload} />
        <StickyHeads camera={camera} onToggle={(box) => void toggle(box, camera, levels.preload)} />
        <Minimap camera={camera} />
        {!camera.seesScene.value && (
          <button type="button" class="primary back-to-graph" onClick={() => camera.fit()}>
            Back to the graph
          </button>
        )}
      </div>
      {levels.error !== null && <p class="error-line">{levels.error}</p>}
      <Legend
        scene={camera.scene.value}
        hidden={levels.levels.reduce((sum, each) => sum + each.level.hidden, 0)}
      />
    </section>
  );
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

/**
 * A click on a box: selects an op or a scope, opens a group. Only the triangle and a double click
 * close something.
 */
function choose(box: Box, camera: Camera, preload: Levels["preload"]): void {
  switch (box.node.what) {
    case "op":
    case "scope":
      camera.leave(box.path);
      selectOp(box.path);
      return;
    case "outside": {
      const target = box.node.is_function ? box.path : box.node.members[0];
      if (target !== undefined) selectOp(target);
      return;
    }
    case "group":
      if (box.isOpen) deselect();
      else void toggle(box, camera, preload);
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
  // The box that the keyboard is at; a group cannot be selected, but opened.
  const cursor = useSignal(op);
  useEffect(() => {
    cursor.value = op;
  }, [op]);
  const [current, isPaused] = [rank.value?.op ?? null, rank.value?.state === "paused"];
  const [order, at, colours, compared] = [
    currentOrder.value,
    cursor.value,
    coloured.value,
    pairMarks.value,
  ];
  // Drawn again only if these values have changed: most changes of the address do not concern the
  // graph.
  const drawn = useMemo(
    () => (
      <Boxes
        scene={scene}
        area={area}
        marks={{ selected: op, selectedScope: scope, current, order, isPaused, cursor: at }}
        onBox={(box) => choose(box, camera, latest.current)}
        onToggle={(box) => void toggle(box, camera, latest.current)}
      />
    ),
    [scene, area, op, scope, current, order, isPaused, camera, at, colours, compared],
  );
  return (
    <svg
      ref={frame}
      class={`picture ${camera.distance.value}`}
      tabindex={0}
      role="application"
      aria-label="The executed graph. Arrow keys walk along edges, Enter opens and closes, with Shift they move the view; plus and minus zoom, 0 fits. The menu key opens the menu of the selected op."
      aria-activedescendant={scene.boxes.some(({ path }) => path === at) ? `box ${at}` : undefined}
      data-boxes={scene.boxes.length}
      data-milliseconds={Math.round(camera.milliseconds.value)}
      onWheel={(event) => wheeled(event, camera)}
      onPointerDown={(event) => dragged(event, camera)}
      onClick={() => deselect()}
      onContextMenu={(event) => showMenu(event, scene)}
      onKeyDown={(event) => {
        if (!pressed(event, camera) && !walked(event)) return;
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

  /** Walks through the boxes by a key; false if the key has no such meaning. */
  function walked(event: KeyboardEvent): boolean {
    const from = scene.boxes.find((box) => box.path === cursor.value);
    if (isDirection(event.key)) {
      const to = boxBeside(scene, from, event.key);
      if (to === null) return true;
      cursor.value = to.path;
      if (to.node.what === "op" || to.node.what === "scope") selectOp(to.path);
      camera.reveal(to.path, true);
      return true;
    }
    if (event.key === "Enter" && from !== undefined) {
      if (from.node.what !== "op") void toggle(from, camera, latest.current);
      return from.node.what !== "op";
    }
    if (event.key !== "Escape" || (op === "" && cursor.value === "")) return false;
    cursor.value = "";
    deselect();
    return true;
  }
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
