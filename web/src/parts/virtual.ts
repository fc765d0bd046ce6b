import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";

export interface VirtualOptions {
  readonly count: number;
  /** Of every row, or of the one at a place. */
  readonly size: number | ((place: number) => number);
  /** Changes when sizes do. */
  readonly sizes?: string;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly horizontal?: boolean;
  readonly overscan?: number;
}

/** TanStack's virtualizer, for rows (or columns) whose sizes are known, as a hook. */
export function useVirtual(options: VirtualOptions): Virtualizer<HTMLElement, Element> {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const held = useRef<Virtualizer<HTMLElement, Element> | null>(null);
  const { size } = options;
  const settings = {
    count: options.count,
    getScrollElement: () => options.scroller.current,
    estimateSize: typeof size === "number" ? () => size : size,
    horizontal: options.horizontal ?? false,
    overscan: options.overscan ?? 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(undefined),
  };
  if (held.current === null) held.current = new Virtualizer<HTMLElement, Element>(settings);
  const virtual = held.current;
  virtual.setOptions(settings);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => {
    virtual._willUpdate();
  });
  useLayoutEffect(() => {
    virtual.measure();
  }, [typeof size === "number" ? size : options.sizes]);
  return virtual;
}
