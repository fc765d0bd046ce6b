import { useEffect, useState } from "preact/hooks";

const POLL_MILLISECONDS = 5000;
const MOST_UNCHANGED = 24;

/**
 * A number that grows every five seconds while files may, and stops two minutes after `last`, the
 * newest step, has changed: no server announces that a file has grown.
 */
export function useGrowth(isFile: boolean, last: number | null): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (!isFile) return undefined;
    let unchanged = 0;
    const timer = setInterval(() => {
      unchanged += 1;
      if (unchanged <= MOST_UNCHANGED && !document.hidden) setCount((before) => before + 1);
    }, POLL_MILLISECONDS);
    return () => clearInterval(timer);
  }, [isFile, last]);
  return count;
}
