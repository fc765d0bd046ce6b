import { signal, useComputed, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { follow } from "../state/preferences";
import { grouped } from "../state/numbers";
import { isAmong, lastPart } from "../state/names";
import { calmTick, command, go, graph, opScope, place, rank, run, selectOp, tick } from "../state/store";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import { Boxes } from "./Boxes";
import { layoutScene } from "./layout";
import { useLevels, type GraphKey } from "./levels";
import type { Box, Scene } from "./scene";
import { centredOn, contains, fitted, showing, visible, zoomed, type Rectangle, type View } from "./view";

const EMPTY: Scene = { boxes: [], lines: [], width: 0, height: 0 };
const NOWHERE: Rectangle = { left: 0, top: 0, right: 0, bottom: 0 };
const MARGIN_SHARE = 0.6;
const FAR_SCALE = 0.34;
const FEW_BOXES = 4;
const PAN_PIXELS = 60;
const MIDDLE_SCALE = 0.6;
const NEAR_SCALE = 0.8;
const CENTRED_SCALE = 0.95;
const GROUP_OPENS_ITSELF = 60;

/** How long what is open took from the click to the screen; the end-to-end tests print it. */
export const drawnMilliseconds = signal(0);

/** A box that stays where it is on the screen until it is open (or closed), as its click wants. */
interface Anchor {
  readonly path: string;
  readonly opens: boolean;
  readonly x: number;
  readonly y: number;
}

export function GraphView(): JSX.Element {
  const currentRun = run.value;
  const currentRank = rank.value;
  const currentGraph = graph.value;
  const { op, open } = place.value;
  const key: GraphKey | null =
    currentRun === null || currentRank === null || currentGraph === null
      ? null
      : { run: currentRun.id, rank: currentRank.rank, graph: currentGraph.id };
  const version = `${currentGraph?.nodes ?? 0} ${calmTick("hits")} ${tick("graph")}`;
  const { levels, error, loading } = useLevels(key, open, version);

  const frame = useRef<SVGSVGElement>(null);
  const scene = useSignal<Scene>(EMPTY);
  const view = useSignal<View>({ x: 0, y: 0, scale: 1 });
  const area = useSignal<Rectangle>(NOWHERE);
  const size = useSignal({ width: 0, height: 0 });
  const transform = useComputed(() => `translate(${view.value.x} ${view.value.y}) scale(${view.value.scale})`);
  const distance = useComputed(() => (view.value.scale < FAR_SCALE ? "far" : view.value.scale < MIDDLE_SCALE ? "middle" : "near-by"));
  const anchor = useRef<Anchor | null>(null);
  const centred = useRef("");
  const shown = useRef("");
  const touched = useRef(false);
  const begun = useRef("");
  const started = useRef(performance.now());

  const look = (next: View): void => {
    view.value = next;
    const { width, height } = size.value;
    if (!contains(area.value, visible(next, width, height, 0.05))) {
      area.value = visible(next, width, height, MARGIN_SHARE);
    }
  };
  const moveTo = (next: View): void => {
    touched.current = true;
    look(next);
  };
  const relook = (next: View): void => {
    area.value = NOWHERE;
    look(next);
  };

  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      size.value = { width: element.clientWidth, height: element.clientHeight };
      relook(view.value);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [key === null]);

  const subject = key === null ? "" : `${key.run} ${key.rank} ${key.graph}`;
  useEffect(() => {
    let isCurrent = true;
    void layoutScene(levels, "").then((made) => {
      if (made === null || !isCurrent) return;
      const next = viewAfter(made);
      scene.value = made;
      relook(next);
      requestAnimationFrame(() => {
        drawnMilliseconds.value = performance.now() - started.current;
      });
    });
    return () => {
      isCurrent = false;
    };
  }, [levels]);

  /** Where to look once `made` is drawn: what was clicked stays where it was. */
  function viewAfter(made: Scene): View {
    const { width, height } = size.value;
    if (shown.current !== subject) {
      touched.current = false;
      centred.current = "";
    }
    if (!touched.current && op === "" && made.boxes.length > 0) {
      shown.current = subject;
      return fitted(made, width, height);
    }
    if (shown.current !== subject && made.boxes.length > 0) {
      shown.current = subject;
      return withSelected(made, fitted(made, width, height));
    }
    const held = anchor.current;
    const box = held === null ? undefined : made.boxes.find((each) => each.path === held.path);
    if (held !== null && box !== undefined) {
      if (box.isOpen === held.opens) anchor.current = null;
      const now = view.value;
      const still = { scale: now.scale, x: held.x - box.x * now.scale, y: held.y - box.y * now.scale };
      return box.isOpen ? showing(still, box, width, height) : still;
    }
    return withSelected(made, steady(scene.value, made));
  }

  /** The view in which the selected op stands where it stood, however the rest was laid out anew. */
  function steady(before: Scene, after: Scene): View {
    const find = (each: Scene): Box | undefined => each.boxes.find((box) => box.path === op && box.node.what !== "outside");
    const [from, to] = [find(before), find(after)];
    const now = view.value;
    if (from === undefined || to === undefined) return now;
    return { ...now, x: now.x + (from.x - to.x) * now.scale, y: now.y + (from.y - to.y) * now.scale };
  }

  /** Moves to the selected op, once, when something other than the graph selected it. */
  function withSelected(made: Scene, otherwise: View): View {
    const { width, height } = size.value;
    const box = made.boxes.find((each) => each.path === op && each.node.what !== "outside");
    if (box === undefined || centred.current === op) return otherwise;
    centred.current = op;
    const all = { left: box.x, top: box.y, right: box.x + box.width, bottom: box.y + box.height };
    if (contains(visible(otherwise, width, height, -0.1), all) && otherwise.scale >= NEAR_SCALE) return otherwise;
    return centredOn(box, width, height, Math.max(otherwise.scale, CENTRED_SCALE));
  }

  useEffect(() => {
    if (op === "") return;
    const isInside = (box: Box): boolean =>
      isAmong(box.node.members, op) || (opScope.value !== "" && isAmong(box.node.members, opScope.value));
    const group = scene.value.boxes.find((box) => box.node.what === "group" && isInside(box));
    if (group !== undefined && !group.isOpen && group.node.members.length <= GROUP_OPENS_ITSELF) toggle(group);
    relook(withSelected(scene.value, view.value));
  }, [op, opScope.value, scene.value]);

  // The first look at a graph: a level of a few scopes says little, the network inside says more.
  useEffect(() => {
    const root = levels.find((each) => each.path === "")?.level.nodes ?? [];
    if (root.length === 0 || begun.current === subject) return;
    begun.current = subject;
    const scope = root.find((node) => node.what === "scope" && node.phase === "forward");
    if (open.length === 0 && op === "" && root.length <= FEW_BOXES && scope !== undefined) go({ open: [scope.path] });
  }, [levels]);

  function toggle(box: Box): void {
    const now = view.value;
    touched.current = true;
    const closes = open.includes(box.path);
    anchor.current = { path: box.path, opens: !closes, x: box.x * now.scale + now.x, y: box.y * now.scale + now.y };
    started.current = performance.now();
    const rest = open.filter((each) => each !== box.path && !(closes && box.path.endsWith("/") && each.startsWith(box.path)));
    go({ open: closes ? rest : [...rest, box.path] });
  }

  function choose(box: Box): void {
    switch (box.node.what) {
      case "op":
        centred.current = box.path;
        selectOp(box.path);
        return;
      case "outside": {
        const target = box.node.members[0];
        if (target !== undefined && !target.endsWith("/")) selectOp(target);
        return;
      }
      case "scope":
      case "group":
        toggle(box);
        return;
    }
  }

  const centreOn = (path: string): void => {
    anchor.current = null;
    centred.current = "";
    selectOp(path);
    relook(withSelected(scene.value, view.value));
  };
  const fit = (): void => {
    anchor.current = null;
    relook(fitted(scene.value, size.value.width, size.value.height));
  };
  const zoom = (factor: number): void => {
    moveTo(zoomed(view.value, factor, { x: size.value.width / 2, y: size.value.height / 2 }));
  };

  if (key === null) {
    return <NoGraph />;
  }
  return (
    <section class="graph" aria-label="Graph">
      <div class="toolbar graph-tools">
        <GraphChoice />
        <span class="spacer" />
        {loading && <span class="quiet">loading…</span>}
        {currentRank?.op != null && (
          <button type="button" class="small" title="Go to the current op (c)" onClick={() => centreOn(currentRank.op ?? "")}>
            <Icon name="here" /> {lastPart(currentRank.op)}
          </button>
        )}
        {currentRun?.kind === "live" && (
          <label class="check" title="Select the op at which training pauses">
            <input type="checkbox" checked={follow.value} onChange={(event) => (follow.value = event.currentTarget.checked)} />
            follow
          </label>
        )}
        <button type="button" class="small" title="Close every scope" disabled={open.length === 0} onClick={() => go({ open: [] })}>
          collapse
        </button>
        <button type="button" class="icon" aria-label="Zoom out" onClick={() => zoom(1 / 1.3)}>
          −
        </button>
        <button type="button" class="icon" aria-label="Zoom in" onClick={() => zoom(1.3)}>
          +
        </button>
        <button type="button" class="small" title="Show everything (0)" onClick={fit}>
          fit
        </button>
      </div>
      <svg
        ref={frame}
        class={distance.value}
        tabIndex={0}
        role="application"
        aria-label="The executed graph. Arrow keys move, plus and minus zoom, 0 fits."
        data-boxes={scene.value.boxes.length}
        data-milliseconds={Math.round(drawnMilliseconds.value)}
        onWheel={(event) => {
          event.preventDefault();
          const corner = event.currentTarget.getBoundingClientRect();
          const around = { x: event.clientX - corner.left, y: event.clientY - corner.top };
          if (event.shiftKey) moveTo({ ...view.value, x: view.value.x - event.deltaY });
          else moveTo(zoomed(view.value, Math.exp(-event.deltaY * 0.0015), around));
        }}
        onPointerDown={(event) => drag(event, view, moveTo)}
        onKeyDown={(event) => {
          const moved = keyView(event.key, view.value, size.value);
          if (moved === null) return;
          event.preventDefault();
          event.stopPropagation();
          if (moved === "fit") fit();
          else moveTo(moved);
        }}
      >
        <defs>
          <Tip id="tip" />
          <Tip id="tip-near" />
        </defs>
        <g transform={transform}>
          <Boxes
            scene={scene.value}
            area={area.value}
            marks={{ selected: op, selectedScope: opScope.value, current: currentRank?.op ?? null, isPaused: currentRank?.state === "paused" }}
            onBox={choose}
            onToggle={toggle}
          />
        </g>
      </svg>
      {error !== null && <p class="error-line">{error}</p>}
      <Legend hidden={levels.reduce((sum, each) => sum + each.level.hidden, 0)} />
    </section>
  );
}

function NoGraph(): JSX.Element {
  const canStep = run.value?.controls.includes("step") === true && rank.value?.state !== "running";
  return (
    <Empty title="No graph yet">
      <p>The ops appear with the first step.</p>
      {canStep && (
        <button type="button" class="primary" onClick={() => command({ command: "step" })}>
          Run one step
        </button>
      )}
    </Empty>
  );
}

function keyView(pressed: string, view: View, size: { width: number; height: number }): View | "fit" | null {
  const middle = { x: size.width / 2, y: size.height / 2 };
  switch (pressed) {
    case "ArrowLeft":
      return { ...view, x: view.x + PAN_PIXELS };
    case "ArrowRight":
      return { ...view, x: view.x - PAN_PIXELS };
    case "ArrowUp":
      return { ...view, y: view.y + PAN_PIXELS };
    case "ArrowDown":
      return { ...view, y: view.y - PAN_PIXELS };
    case "+":
    case "=":
      return zoomed(view, 1.3, middle);
    case "-":
      return zoomed(view, 1 / 1.3, middle);
    case "0":
      return "fit";
    default:
      return null;
  }
}

function drag(event: PointerEvent, view: { readonly value: View }, look: (next: View) => void): void {
  if (event.button !== 0) return;
  const frame = event.currentTarget;
  if (!(frame instanceof SVGSVGElement)) return;
  const from = view.value;
  const [x, y] = [event.clientX, event.clientY];
  const move = (moved: PointerEvent): void => {
    const [right, down] = [moved.clientX - x, moved.clientY - y];
    if (Math.abs(right) + Math.abs(down) > 3) frame.classList.add("dragging");
    look({ ...from, x: from.x + right, y: from.y + down });
  };
  const end = (): void => {
    frame.classList.remove("dragging");
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", end);
    window.removeEventListener("pointercancel", end);
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", end);
  window.addEventListener("pointercancel", end);
}

function Tip({ id }: { id: string }): JSX.Element {
  return (
    <marker id={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" markerUnits="userSpaceOnUse">
      <path d="M0 0L8 4L0 8z" class={id} />
    </marker>
  );
}

function GraphChoice(): JSX.Element {
  const graphs = rank.value?.graphs ?? [];
  const current = graph.value;
  if (current === null) return <span />;
  const text = (each: typeof current): string =>
    `${each.name} · ${grouped(each.nodes)} nodes${each.whole ? "" : ", still growing"}`;
  if (graphs.length < 2) return <span class="quiet">{text(current)}</span>;
  return (
    <select
      aria-label="Graph"
      value={String(current.id)}
      onChange={(event) => go({ graph: Number(event.currentTarget.value), open: [], tree: [] })}
    >
      {graphs.map((each) => (
        <option key={each.id} value={String(each.id)}>
          {text(each)}
        </option>
      ))}
    </select>
  );
}

function Legend({ hidden }: { hidden: number }): JSX.Element {
  return (
    <div class="legend">
      <span class="swatch is-forward" /> forward
      <span class="swatch is-backward" /> backward
      <span class="swatch is-optimizer" /> optimizer
      <span class="swatch is-parameter" /> parameter
      <span class="swatch is-hit" /> hit
      <span class="swatch is-origin" /> origin
      <span class="swatch is-current" /> here
      <span class="spacer" />
      {hidden > 0 && <span>{grouped(hidden)} boxes are left out; find them in the list</span>}
    </div>
  );
}
