import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** Where lists and tables stand, kept in the tab, so that a reload finds them there. */
type Stand = readonly [top: number, left: number];

const NAME = "sonde.scroll";
const MOST = 60;
const LATE_MILLISECONDS = 2500;
const SETTLING_MILLISECONDS = 250;

function isStand(value: unknown): value is Stand {
  return Array.isArray(value) && value.length === 2 && value.every((each) => typeof each === "number");
}

function load(): Map<string, Stand> {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(NAME) ?? "[]");
    const entries = Array.isArray(found) ? found : [];
    return new Map(entries.filter((each): each is [string, Stand] => Array.isArray(each) && typeof each[0] === "string" && isStand(each[1])));
  } catch {
    return new Map();
  }
}

const held = load();

window.addEventListener("pagehide", () => {
  try {
    sessionStorage.setItem(NAME, JSON.stringify([...held]));
  } catch {
    // A full or forbidden store costs the memory of where a list stood, nothing else.
  }
});

function note(subject: string, stand: Stand): void {
  held.delete(subject);
  if (stand[0] !== 0 || stand[1] !== 0) held.set(subject, stand);
  const oldest = held.size > MOST ? held.keys().next().value : undefined;
  if (oldest !== undefined) held.delete(oldest);
}

/**
 * Puts `scroller` where it stood when `subject` was last on the screen, as soon as `extent` (anything
 * that changes when there is more to scroll; 0: nothing yet) allows it. Tells whether that is still
 * to come, or has only just come.
 */
export function useScrollMemory(scroller: RefObject<HTMLElement | null>, subject: string, extent: unknown): () => boolean {
  // Who counts scrolling by its events does not know yet where the element is put.
  const settling = useRef(0);
  const pending = useRef<Stand | null>(held.get(subject) ?? null);
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const listen = (): void => {
      if (pending.current === null) note(subject, [element.scrollTop, element.scrollLeft]);
    };
    // Who scrolls meanwhile wants to be elsewhere.
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
    // What grows no more, and is shorter than it was, stands as near as it can.
    const late = setTimeout(() => {
      const wanted = pending.current;
      pending.current = null;
      if (wanted !== null) scroller.current?.scrollTo(wanted[1], wanted[0]);
    }, LATE_MILLISECONDS);
    return () => clearTimeout(late);
  }, [extent]);
  useLayoutEffect(() => {
    const [element, wanted] = [scroller.current, pending.current];
    if (element === null || wanted === null) return;
    if (element.scrollHeight - element.clientHeight < wanted[0] || element.scrollWidth - element.clientWidth < wanted[1]) return;
    pending.current = null;
    element.scrollTo(wanted[1], wanted[0]);
    settling.current = performance.now() + SETTLING_MILLISECONDS;
  }, [extent, scroller.current]);
  return () => pending.current !== null || performance.now() < settling.current;
}
