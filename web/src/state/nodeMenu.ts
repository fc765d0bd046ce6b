import { type ReadonlySignal, signal } from "@preact/signals";

/** The node whose menu is open, and where on the screen. */
export interface NodeMenu {
  /** An op or leaf by its name, or a scope, which ends with "/". */
  readonly path: string;
  readonly isOp: boolean;
  readonly x: number;
  readonly y: number;
}

const open = signal<NodeMenu | null>(null);
export const nodeMenu: ReadonlySignal<NodeMenu | null> = open;

/** What had the focus before, and gets it back. */
let before: Element | null = null;

export function openNodeMenu(wanted: NodeMenu): void {
  if (open.value === null) before = document.activeElement;
  open.value = wanted;
}

export function closeNodeMenu(): void {
  if (open.value === null) return;
  open.value = null;
  if (before instanceof HTMLElement || before instanceof SVGElement) before.focus();
}

/** Opens the menu of a node beside its box in the graph or its line in the list. */
export function openMenuBeside(path: string, isOp: boolean): void {
  const shown = [...document.querySelectorAll("[data-path]")].find(
    (each) => each.getAttribute("data-path") === path,
  );
  const at = shown?.getBoundingClientRect();
  openNodeMenu({
    path,
    isOp,
    x: at === undefined ? window.innerWidth / 2 : at.left + at.width / 2,
    y: at === undefined ? window.innerHeight / 2 : at.bottom,
  });
}

/** Whether the key opens menus; browsers send the menu key's own event only to some elements. */
export function isMenuKey({ key, shiftKey }: KeyboardEvent): boolean {
  return key === "ContextMenu" || key === "a" || (key === "F10" && shiftKey);
}

/**
 * The menu of the node at the pointer. True if it was opened: not if the browser opened its own
 * menu by a key, which says nothing of the place.
 */
export function openMenuAtPointer(event: MouseEvent, path: string, isOp: boolean): boolean {
  const isByKey = event.button !== 2 && event.detail === 0;
  if (path === "") return false;
  event.preventDefault();
  event.stopPropagation();
  if (isByKey) openMenuBeside(path, isOp);
  else openNodeMenu({ path, isOp, x: event.clientX, y: event.clientY });
  return true;
}
