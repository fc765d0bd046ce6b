import { signal, type ReadonlySignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { isMenuKey } from "../state/nodeMenu";

type Walk = (by: 1 | -1) => void;

const walk = signal<Walk | null>(null);
/** Selects the next or the previous op in the list of nodes that is on the screen. */
export const selectNext: ReadonlySignal<Walk | null> = walk;

/** Makes the page's keys for the next and the previous op move in this list while it is mounted. */
export function useSelectNext(step: Walk): void {
  useLayoutEffect(() => {
    walk.value = step;
    return () => {
      if (walk.peek() === step) walk.value = null;
    };
  });
}

/** The place of the next item that is wanted, from `at` (-1: none) on; -1: there is none. */
export function nextPlace(
  count: number,
  at: number,
  by: 1 | -1,
  isWanted: (place: number) => boolean,
): number {
  const start = at === -1 && by === -1 ? count : at;
  for (let place = start + by; place >= 0 && place < count; place += by)
    if (isWanted(place)) return place;
  return -1;
}

export interface ListKeys {
  readonly move: (by: 1 | -1) => void;
  readonly jump: (to: "first" | "last") => void;
  readonly choose: () => void;
  readonly tick: () => void;
  readonly open?: () => void;
  readonly close?: () => void;
  readonly menu?: () => void;
}

/** The keys of a list that has the focus; others are left to the page. */
export function runListKey(event: KeyboardEvent, keys: ListKeys): void {
  const act = isMenuKey(event) ? keys.menu : listAction(event.key, keys);
  if (act === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

function listAction(key: string, keys: ListKeys): (() => void) | undefined {
  switch (key) {
    case "ArrowDown":
      return () => keys.move(1);
    case "ArrowUp":
      return () => keys.move(-1);
    case "Home":
      return () => keys.jump("first");
    case "End":
      return () => keys.jump("last");
    case "ArrowRight":
      return keys.open;
    case "ArrowLeft":
      return keys.close;
    case "Enter":
      return keys.choose;
    case "v":
      return keys.tick;
    default:
      return undefined;
  }
}
