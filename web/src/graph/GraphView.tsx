import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { usePairMarks } from "../compare/marks";
import { api } from "../state/api";
import { isAmong } from "../state/names";
import { calmTick, go, graph, opScope, place, rank, run, selectOp, tick } from "../state/store";
import { Boxes } from "./Boxes";
import { Camera } from "./camera";
import { dragged, pressed, wheeled } from "./gestures";
import { GraphTools, Legend, NoGraph } from "./GraphTools";
import { layoutScene } from "./layout";
import { useLevels, type GraphKey, type Levels } from "./levels";
import type { Box } from "./scene";

/** A box, the room round it and its share of what lies outside, in pixels: so that all can be read. */
const AREA_OF_BOX = 24_000;
const [LEAST_FIRST, MOST_FIRST] = [24, 40];
const GROUP_OPENS_ITSELF = 60;

/** The executed graph of the rank on the screen. */
export function GraphView(): JSX.Element {
  const [currentRun, currentRank, currentGraph] = [run.value, rank.value, graph.value];
  if (currentRun === null || currentRank === null || currentGraph === null) return <NoGraph />;
  const key = { run: currentRun.id, rank: currentRank.rank, graph: currentGraph.id };
  return <OneGraph graphKey={key} version={`${currentGraph.nodes} ${calmTick("hits")} ${tick("graph")}`} />;
}

function OneGraph({ graphKey, version }: { graphKey: GraphKey; version: string }): JSX.Element {
  const levels = useLevels(graphKey, place.value.open, version);
  const camera = useMemo(() => new Camera(), []);
  const subject = `${graphKey.run} ${graphKey.rank} ${graphKey.graph}`;
  useLayoutEffect(() => {
    let isCurrent = true;
    void layoutScene(levels.levels, "").then((made) => {
      if (made !== null && isCurrent) camera.draw(made, subject, place.value.op);
    });
    return () => {
      isCurrent = false;
    };
  }, [levels.levels]);
  usePairMarks(graphKey);
  useFirstLook(graphKey, levels, subject, camera);
  useSelection(camera);
  return (
    <section class="graph" aria-label="Graph">
      <GraphTools camera={camera} loading={levels.loading} />
      <Picture camera={camera} />
      {levels.error !== null && <p class="error-line">{levels.error}</p>}
      <Legend hidden={levels.levels.reduce((sum, each) => sum + each.level.hidden, 0)} />
    </section>
  );
}

/**
 * Two boxes say little: at the first look as much is open as the screen shows. What the address names
 * as open, or selects, comes first.
 */
function useFirstLook({ run, rank, graph }: GraphKey, { levels }: Levels, subject: string, camera: Camera): void {
  const begun = useRef("");
  const isThere = levels.some((each) => each.path === "" && each.level.nodes.length > 0);
  useEffect(() => {
    const isFresh = (): boolean => place.value.open.length === 0 && place.value.op === "";
    if (!isThere || begun.current === subject) return;
    begun.current = subject;
    if (!isFresh()) return;
    // Without an answer the graph stays closed, and a click opens it.
    const boxes = Math.min(Math.max(Math.floor(camera.pixels / AREA_OF_BOX), LEAST_FIRST), MOST_FIRST);
    void api.opening(run, rank, graph, boxes).then(
      ({ scopes }) => {
        if (begun.current === subject && isFresh()) go({ open: scopes });
      },
      () => undefined,
    );
  }, [isThere, subject]);
}

/** What is selected comes into view; a group it is in opens, once. */
function useSelection(camera: Camera): void {
  const openedFor = useRef("");
  const { op } = place.value;
  const [scope, scene] = [opScope.value, camera.scene.value];
  useEffect(() => {
    if (op === "") return;
    const isInside = (box: Box): boolean => isAmong(box.node.members, op) || (scope !== "" && isAmong(box.node.members, scope));
    const group = scene.boxes.find((box) => box.node.what === "group" && isInside(box));
    if (group !== undefined && openedFor.current !== op) {
      openedFor.current = op;
      // What is open already may still be on its way to the screen.
      const isOpen = place.value.open.includes(group.path);
      if (!isOpen && group.node.members.length <= GROUP_OPENS_ITSELF) toggle(group, camera);
    }
    camera.reveal(op);
  }, [op, scope, scene]);
}

function toggle(box: Box, camera: Camera): void {
  const { open } = place.value;
  const closes = open.includes(box.path);
  camera.hold(box, !closes);
  const rest = open.filter((each) => each !== box.path && !(closes && box.path.endsWith("/") && each.startsWith(box.path)));
  go({ open: closes ? rest : [...rest, box.path] });
}

function choose(box: Box, camera: Camera): void {
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
      toggle(box, camera);
      return;
  }
}

function Picture({ camera }: { camera: Camera }): JSX.Element {
  const frame = useRef<SVGSVGElement>(null);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => camera.resize(element.clientWidth, element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const [scene, area, { op }, scope] = [camera.scene.value, camera.area.value, place.value, opScope.value];
  const [current, isPaused] = [rank.value?.op ?? null, rank.value?.state === "paused"];
  // Drawn again only if what is drawn has changed: much else of the page changes the address.
  const drawn = useMemo(
    () => (
      <Boxes
        scene={scene}
        area={area}
        marks={{ selected: op, selectedScope: scope, current, isPaused }}
        onBox={(box) => choose(box, camera)}
        onToggle={(box) => toggle(box, camera)}
      />
    ),
    [scene, area, op, scope, current, isPaused, camera],
  );
  return (
    <svg
      ref={frame}
      class={camera.distance.value}
      tabIndex={0}
      role="application"
      aria-label="The executed graph. Arrow keys move, plus and minus zoom, 0 fits."
      data-boxes={scene.boxes.length}
      data-milliseconds={Math.round(camera.milliseconds.value)}
      onWheel={(event) => wheeled(event, camera)}
      onPointerDown={(event) => dragged(event, camera)}
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

function Tip({ id }: { id: string }): JSX.Element {
  return (
    <marker id={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" markerUnits="userSpaceOnUse">
      <path d="M0 0L8 4L0 8z" class={id} />
    </marker>
  );
}
