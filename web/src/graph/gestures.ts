import type { Camera } from "./camera";
import { zoomed, type View } from "./view";

const PAN_PIXELS = 60;
const ZOOM = 1.3;
const WHEEL_ZOOM = 0.0015;
const CLICK_PIXELS = 3;

/**
 * Moves the camera by a key; false if the key has no such meaning. Arrow keys move it only with
 * shift: alone they walk along edges.
 */
export function pressed({ key, shiftKey }: KeyboardEvent, camera: Camera): boolean {
  if (key === "0") {
    camera.fit();
    return true;
  }
  const next = key.startsWith("Arrow") && !shiftKey ? null : keyView(key, camera);
  if (next === null) return false;
  camera.move(next);
  return true;
}

function keyView(key: string, camera: Camera): View | null {
  const view = camera.view.peek();
  switch (key) {
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
      return zoomed(view, ZOOM, camera.middle);
    case "-":
      return zoomed(view, 1 / ZOOM, camera.middle);
    default:
      return null;
  }
}

/** The wheel zooms around the pointer; with shift it scrolls sideways. */
export function wheeled(
  event: WheelEvent & { readonly currentTarget: SVGSVGElement },
  camera: Camera,
): void {
  event.preventDefault();
  const view = camera.view.peek();
  if (event.shiftKey) {
    camera.move({ ...view, x: view.x - event.deltaY });
    return;
  }
  const corner = event.currentTarget.getBoundingClientRect();
  camera.zoom(Math.exp(-event.deltaY * WHEEL_ZOOM), {
    x: event.clientX - corner.left,
    y: event.clientY - corner.top,
  });
}

/** Drags the graph until the button is released. */
export function dragged(
  event: PointerEvent & { readonly currentTarget: SVGSVGElement },
  camera: Camera,
): void {
  if (event.button !== 0) return;
  const frame = event.currentTarget;
  const from = camera.view.peek();
  const [x, y] = [event.clientX, event.clientY];
  const move = (moved: PointerEvent): void => {
    const [right, down] = [moved.clientX - x, moved.clientY - y];
    if (Math.abs(right) + Math.abs(down) > CLICK_PIXELS) frame.classList.add("dragging");
    if (frame.classList.contains("dragging"))
      camera.move({ ...from, x: from.x + right, y: from.y + down });
  };
  const end = (): void => {
    // The browser sends a click after a drag; it must select nothing.
    if (frame.classList.contains("dragging")) {
      const swallow = (click: Event): void => click.stopPropagation();
      window.addEventListener("click", swallow, { capture: true, once: true });
      window.setTimeout(() => window.removeEventListener("click", swallow, true));
    }
    frame.classList.remove("dragging");
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", end);
    window.removeEventListener("pointercancel", end);
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", end);
  window.addEventListener("pointercancel", end);
}
