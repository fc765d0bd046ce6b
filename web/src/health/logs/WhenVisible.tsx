import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface WhenVisibleProps {
  readonly height: number;
  readonly children: () => ComponentChildren;
}

/** Makes its children, which load data, when it is scrolled near the screen. */
export function WhenVisible({ height, children }: WhenVisibleProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (element === null || isNear) return undefined;
    const observer = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && setNear(true),
      { rootMargin: "100px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [isNear]);
  return (
    <div ref={place} style={{ minHeight: `${height}px` }}>
      {isNear && children()}
    </div>
  );
}
