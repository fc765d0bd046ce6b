import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** A scroll position: two numbers whose meaning `ScrollAccess` defines; [0, 0] is the start. */
export type ScrollPosition = readonly [number, number];

/** How a position is read from an element and restored. */
export interface ScrollAccess {
  readonly read: (element: HTMLElement) => ScrollPosition;
  /**
   * Scrolls the element; false if the position does not exist yet because content is missing.
   * `isLast`: no more content comes, scroll as near as possible.
   */
  readonly restore: (element: HTMLElement, position: ScrollPosition, isLast: boolean) => boolean;
}

const BY_PIXEL: ScrollAccess = {
  read: (element) => [element.scrollTop, element.scrollLeft],
  restore: (element, [top, left], isLast) => {
    const isThere =
      isLast ||
      (element.scrollHeight - element.clientHeight >= top &&
        element.scrollWidth - element.clientWidth >= left);
    if (isThere) element.scrollTo(left, top);
    return isThere;
  },
};

const NAME = "sonde.scroll";
const MOST_SUBJECTS = 60;
const GIVE_UP_MILLISECONDS = 2500;
const SETTLE_MILLISECONDS = 250;

function isPosition(value: unknown): value is ScrollPosition {
  return (
    Array.isArray(value) && value.length === 2 && value.every((each) => typeof each === "number")
  );
}

function load(): Map<string, ScrollPosition> {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(NAME) ?? "[]");
    const entries = Array.isArray(found) ? found : [];
    const isEntry = (each: unknown): each is [string, ScrollPosition] =>
      Array.isArray(each) && typeof each[0] === "string" && isPosition(each[1]);
    return new Map(entries.filter(isEntry));
  } catch {
    return new Map();
  }
}

// Positions of lists and tables by subject, the latest last; kept in the tab across a reload.
const positions = load();

window.addEventListener("pagehide", () => {
  try {
    sessionStorage.setItem(NAME, JSON.stringify([...positions]));
  } catch {
    // With a full or forbidden storage positions are not restored after a reload.
  }
});

function remember(subject: string, position: ScrollPosition): void {
  positions.delete(subject);
  if (position[0] !== 0 || position[1] !== 0) positions.set(subject, position);
  const oldest = positions.size > MOST_SUBJECTS ? positions.keys().next().value : undefined;
  if (oldest !== undefined) positions.delete(oldest);
}

/**
 * Remembers where `scroller` is for `subject`, and restores it when the subject is shown again.
 *
 * Restoring is tried whenever `extent` changes (any value that changes when content is added; 0: no
 * content yet) and given up when the user scrolls or after some seconds. Returns a function that
 * tells whether restoring is pending or has just happened: callers must not scroll then.
 */
export function useScrollMemory(
  scroller: RefObject<HTMLElement | null>,
  subject: string,
  extent: unknown,
  access: ScrollAccess = BY_PIXEL,
): () => boolean {
  // A virtualizer learns the new position from a later event; until then it must not scroll.
  const settledAt = useRef(0);
  const pending = useRef<ScrollPosition | null>(positions.get(subject) ?? null);
  const latest = useRef(access);
  latest.current = access;
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const listen = (): void => {
      if (pending.current === null) remember(subject, latest.current.read(element));
    };
    const giveUp = (): void => {
      pending.current = null;
    };
    element.addEventListener("scroll", listen, { passive: true });
    element.addEventListener("wheel", giveUp, { passive: true });
    element.addEventListener("pointerdown", giveUp, { passive: true });
    return () => {
      element.removeEventListener("scroll", listen);
      element.removeEventListener("wheel", giveUp);
      element.removeEventListener("pointerdown", giveUp);
    };
  }, [subject, scroller.current]);
  useEffect(() => {
    if (extent === 0) return undefined;
    const late = setTimeout(() => {
      const [element, wanted] = [scroller.current, pending.current];
      pending.current = null;
      if (wanted !== null && element !== null) latest.current.restore(element, wanted, true);
    }, GIVE_UP_MILLISECONDS);
    return () => clearTimeout(late);
  }, [extent]);
  useLayoutEffect(() => {
    const [element, wanted] = [scroller.current, pending.current];
    if (element === null || wanted === null || extent === 0) return;
    if (!latest.current.restore(element, wanted, false)) return;
    pending.current = null;
    settledAt.current = performance.now() + SETTLE_MILLISECONDS;
  }, [extent, scroller.current]);
  return () => pending.current !== null || performance.now() < settledAt.current;
}
