import { useEffect, useRef } from "preact/hooks";
import { api, type ShownGraphAt } from "../load/api";
import { go, place } from "../state/store";
import type { Opening } from "../wire";
import type { Camera } from "./camera";
import { triedScene } from "./layout";
import type { Levels } from "./levels";

const MOST_FIRST = 60;
/**
 * A graph with so few boxes of ops is opened one level deeper, even if that does not fit on the
 * screen.
 */
const FEW = 4;
/** So many scopes of one depth are tried one by one, if all of them together do not fit. */
const MOST_TRIED = 8;

/**
 * Opens as many scopes at first as are readable on the screen, unless the address names open scopes
 * or a selected op.
 */
export function useInitialOpening(
  at: ShownGraphAt,
  levels: Levels,
  subject: string,
  camera: Camera,
): void {
  const begun = useRef("");
  // What was opened here: until the user changes it, another graph is opened anew.
  const own = useRef<readonly string[]>([]);
  const isThere = levels.levels.some((each) => each.path === "" && each.level.nodes.length > 0);
  useEffect(() => {
    const isFresh = (): boolean =>
      (place.value.open.length === 0 || place.value.open === own.current) &&
      place.value.op === "" &&
      !place.value.isClosed;
    if (!isThere || begun.current === subject) return;
    begun.current = subject;
    if (!isFresh()) return;
    // Without an answer the graph stays closed, and a click opens it.
    void api
      .opening({ ...at, boxes: MOST_FIRST })
      .then(({ depths }) => readable(depths, levels.preload, camera, at.view === "model"))
      .then(
        (open) => {
          if (begun.current !== subject || !isFresh() || open.length === 0) return;
          const isTreeFresh = place.value.tree.length === 0 || place.value.tree === own.current;
          own.current = open;
          go({ open, tree: isTreeFresh ? open : place.value.tree });
        },
        () => undefined,
      );
  }, [isThere, subject]);
}

/**
 * As many of these scopes as are readable together on this screen: whole depths, then single scopes
 * of the next depth.
 */
async function readable(
  depths: Opening["depths"],
  preload: Levels["preload"],
  camera: Camera,
  isModel: boolean,
): Promise<readonly string[]> {
  const isReadable = async (tried: readonly string[], isForced: boolean): Promise<boolean> => {
    const levels = await preload(tried);
    if (levels.length !== tried.length + 1) return false;
    const scene = await triedScene(levels, isModel);
    return scene !== null && (isForced || camera.reads(scene));
  };
  const root = (await preload([]))[0]?.level.nodes ?? [];
  const saysLittle = isModel || root.filter((node) => node.kind === "op").length <= FEW;
  let open: readonly string[] = [];
  for (const depth of depths) {
    const all = [...open, ...depth];
    if (await isReadable(all, open.length === 0 && saysLittle)) {
      open = all;
      continue;
    }
    for (const path of depth.slice(0, MOST_TRIED)) {
      const more = [...open, path];
      if (await isReadable(more, false)) open = more;
    }
    break;
  }
  return open;
}
