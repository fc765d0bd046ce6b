import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";

export interface VirtualOptions {
  readonly count: number;
  /** Size of a row (or column) in pixels. For rows that are measured: the size until then. */
  readonly size: number;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly horizontal?: boolean;
  readonly overscan?: number;
}

/**
 * TanStack's virtualizer as a hook: says which rows (or columns) are visible.
 *
 * Rows of one fixed size need nothing else. For rows whose size depends on their content, pass
 * `virtual.measureElement` as `ref` of each row's element, which needs a `data-index`.
 */
export function useVirtual(options: VirtualOptions): Virtualizer<HTMLElement, Element> {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const held = useRef<Virtualizer<HTMLElement, Element> | null>(null);
  const { size } = options;
  const settings = {
    count: options.count,
    getScrollElement: () => options.scroller.current,
    estimateSize: () => size,
    horizontal: options.horizontal ?? false,
    overscan: options.overscan ?? 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(undefined),
  };
  held.current ??= new Virtualizer<HTMLElement, Element>(settings);
  const virtual = held.current;
  virtual.setOptions(settings);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => {
    virtual._willUpdate();
  });
  useLayoutEffect(() => {
    virtual.measure();
  }, [size]);
  return virtual;
}
