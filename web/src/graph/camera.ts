import { computed, signal } from "@preact/signals";
import type { Box, Point, Scene } from "./scene";
import {
  begun,
  centredOn,
  contains,
  fitted,
  isReadable,
  meets,
  showing,
  visible,
  zoomed,
  type Rectangle,
  type View,
} from "./view";

const EMPTY: Scene = { boxes: [], lines: [], width: 0, height: 0 };
const NOWHERE: Rectangle = { left: 0, top: 0, right: 0, bottom: 0 };
const MARGIN_SHARE = 0.6;
const FAR_SCALE = 0.34;
const MIDDLE_SCALE = 0.6;
const NEAR_SCALE = 0.8;
const CENTRED_SCALE = 0.95;

/** A box that was clicked: it keeps its position on the screen until it is open, or closed. */
interface Anchor {
  readonly path: string;
  readonly opens: boolean;
  readonly x: number;
  readonly y: number;
}

/**
 * What the user looks at: the graph, its open scopes, the selected op, and the size of the view.
 */
export interface SavedView {
  readonly subject: string;
  readonly open: string;
  readonly op: string;
  readonly width: number;
  readonly height: number;
  readonly isTouched: boolean;
  readonly view: View;
}

export function isSavedView(value: unknown): value is SavedView | null {
  if (value === null) return true;
  if (
    typeof value !== "object" ||
    !(
      "subject" in value &&
      "open" in value &&
      "op" in value &&
      "width" in value &&
      "height" in value &&
      "view" in value
    )
  )
    return false;
  const { view } = value;
  return (
    typeof view === "object" &&
    view !== null &&
    "x" in view &&
    "y" in view &&
    "scale" in view &&
    [view.x, view.y, view.scale].every(Number.isFinite)
  );
}

function boxOf(scene: Scene, op: string): Box | undefined {
  return scene.boxes.find((box) => box.path === op && box.node.what !== "outside");
}

/**
 * The visible part of a graph. After a new layout the clicked box, or the selected op, keeps its
 * position on the screen; an op that was selected outside the graph is moved into view.
 */
export class Camera {
  readonly scene = signal<Scene>(EMPTY);
  readonly view = signal<View>({ x: 0, y: 0, scale: 1 });
  /** The part of the scene that is drawn: the visible part and a margin. */
  readonly area = signal<Rectangle>(NOWHERE);
  /** The time from the last click until its result was drawn. */
  readonly milliseconds = signal(0);
  readonly transform = computed(
    () => `translate(${this.view.value.x} ${this.view.value.y}) scale(${this.view.value.scale})`,
  );
  readonly distance = computed(() => {
    const { scale } = this.view.value;
    return scale < FAR_SCALE ? "far" : scale < MIDDLE_SCALE ? "middle" : "near-by";
  });
  /** The size of the canvas in pixels. */
  readonly size = signal({ width: 0, height: 0 });
  private anchor: Anchor | null = null;
  private centred = "";
  private subject = "";
  private isTouched = false;
  private started = performance.now();
  private before: SavedView | null;

  /** `before`: the view before a reload, or before another tab was shown. */
  constructor(before: SavedView | null) {
    this.before = before;
  }

  private get width(): number {
    return this.size.peek().width;
  }

  private get height(): number {
    return this.size.peek().height;
  }

  /** Whether a part of the scene is on the screen. */
  readonly seesScene = computed(() => {
    const { width, height } = this.size.value;
    const { boxes } = this.scene.value;
    if (boxes.length === 0 || width === 0) return true;
    const area = visible(this.view.value, width, height, 0);
    return boxes.some((box) => meets(box, area));
  });

  get middle(): Point {
    return { x: this.width / 2, y: this.height / 2 };
  }

  /** Whether the text is readable when the whole scene is on the screen. */
  reads(scene: Scene): boolean {
    return isReadable(scene, this.width, this.height);
  }

  resize(width: number, height: number): void {
    this.size.value = { width, height };
    const isUntouched = !this.isTouched && this.subject !== "" && this.before === null;
    this.relook(isUntouched ? this.beginning(this.scene.peek(), this.centred) : this.view.peek());
  }

  /** Moves the view as the user did. */
  move(next: View): void {
    this.isTouched = true;
    this.look(next);
  }

  zoom(factor: number, around: Point = this.middle): void {
    this.move(zoomed(this.view.peek(), factor, around));
  }

  fit(): void {
    this.anchor = null;
    this.relook(fitted(this.scene.peek(), this.width, this.height));
  }

  /** Shows the next scene from its beginning. */
  restart(): void {
    this.anchor = null;
    this.isTouched = false;
    this.subject = "";
  }

  /** Moves the middle of the screen to a point of the scene. */
  centre({ x, y }: Point): void {
    const { scale } = this.view.peek();
    this.move({ scale, x: this.width / 2 - x * scale, y: this.height / 2 - y * scale });
  }

  /** A box was clicked to open or close it. */
  hold(box: Box, opens: boolean): void {
    const { x, y, scale } = this.view.peek();
    this.isTouched = true;
    this.started = performance.now();
    this.anchor = { path: box.path, opens, x: box.x * scale + x, y: box.y * scale + y };
  }

  /** An op was clicked in the graph, so it is visible already. */
  leave(op: string): void {
    this.centred = op;
  }

  /** Moves the op into view, once each time it is selected, or whenever `isAsked`. */
  reveal(op: string, isAsked = false): void {
    if (isAsked) {
      this.anchor = null;
      this.centred = "";
    }
    this.relook(this.withSelected(this.scene.peek(), op, this.view.peek()));
  }

  /**
   * Draws scene `made` of graph `subject` with `op` selected; `isWhole`: it contains all `open`
   * levels.
   */
  draw(made: Scene, subject: string, op: string, open: string, isWhole: boolean): void {
    const next = this.again(subject, op, open, isWhole) ?? this.viewAfter(made, subject, op);
    this.scene.value = made;
    this.relook(next);
    // After scopes were closed, or by the browser's Back, nothing may be left on the screen.
    if (!this.seesScene.peek()) this.relook(begun(made, this.width, this.height));
    requestAnimationFrame(() => {
      this.milliseconds.value = performance.now() - this.started;
    });
  }

  /** What the user looks at now; null before the first scene. */
  looked(op: string, open: string): SavedView | null {
    const { subject, width, height, isTouched } = this;
    const view = this.view.value;
    return this.scene.value.boxes.length === 0
      ? null
      : { subject, open, op, width, height, isTouched, view };
  }

  /**
   * The previous view, until the whole graph is drawn; null if that was a view of another graph.
   */
  private again(subject: string, op: string, open: string, isWhole: boolean): View | null {
    const { before, width, height } = this;
    if (before === null) return null;
    const isSame =
      before.subject === subject &&
      before.op === op &&
      before.open === open &&
      before.width === width &&
      before.height === height;
    if (isWhole || !isSame) this.before = null;
    if (!isSame) return null;
    this.subject = subject;
    this.centred = op;
    this.isTouched = before.isTouched;
    return before.view;
  }

  private look(next: View): void {
    this.view.value = next;
    if (!contains(this.area.peek(), visible(next, this.width, this.height, 0.05))) {
      this.area.value = visible(next, this.width, this.height, MARGIN_SHARE);
    }
  }

  private relook(next: View): void {
    this.area.value = NOWHERE;
    this.look(next);
  }

  private viewAfter(made: Scene, subject: string, op: string): View {
    const isNew = this.subject !== subject;
    if (isNew) this.isTouched = false;
    const { width, height } = this.scene.peek();
    const isChanged = made.width !== width || made.height !== height;
    if (made.boxes.length > 0 && (isNew || (!this.isTouched && (isChanged || op === "")))) {
      this.subject = subject;
      return this.beginning(made, op);
    }
    const held = this.anchor;
    const box = held === null ? undefined : made.boxes.find((each) => each.path === held.path);
    if (held !== null && box !== undefined) {
      if (box.isOpen === held.opens) this.anchor = null;
      const { scale } = this.view.peek();
      const still = { scale, x: held.x - box.x * scale, y: held.y - box.y * scale };
      return box.isOpen ? showing(still, box, this.width, this.height) : still;
    }
    return this.withSelected(made, op, this.steady(made, op));
  }

  /** The view in which the selected op keeps its position on the screen after a new layout. */
  private steady(made: Scene, op: string): View {
    const [from, to] = [boxOf(this.scene.peek(), op), boxOf(made, op)];
    const now = this.view.peek();
    if (from === undefined || to === undefined) return now;
    return {
      ...now,
      x: now.x + (from.x - to.x) * now.scale,
      y: now.y + (from.y - to.y) * now.scale,
    };
  }

  /** The view of a scene that the user has not moved: its beginning, or the selected op. */
  private beginning(made: Scene, op: string): View {
    this.centred = "";
    return this.withSelected(made, op, begun(made, this.width, this.height));
  }

  private withSelected(made: Scene, op: string, otherwise: View): View {
    const box = boxOf(made, op);
    if (box === undefined || this.centred === op) return otherwise;
    this.centred = op;
    const all = { left: box.x, top: box.y, right: box.x + box.width, bottom: box.y + box.height };
    const isSeen = contains(visible(otherwise, this.width, this.height, -0.1), all);
    if (isSeen && otherwise.scale >= NEAR_SCALE) return otherwise;
    return centredOn(made, box, this.width, this.height, Math.max(otherwise.scale, CENTRED_SCALE));
  }
}
