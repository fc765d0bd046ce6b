import { go, place } from "../state/store";
import type { Camera } from "./camera";
import type { Levels } from "./levels";
import type { Box } from "./scene";

/** Opens or closes a scope or a group; it keeps its position on the screen. */
export async function toggle(box: Box, camera: Camera, preload: Levels["preload"]): Promise<void> {
  const closes = place.value.open.includes(box.path);
  camera.hold(box, !closes);
  const opens = closes ? [] : await together(box.path, preload);
  const isInside = (each: string): boolean => box.path.endsWith("/") && each.startsWith(box.path);
  const rest = place.value.open.filter((each) => each !== box.path && !isInside(each));
  go({ open: [...rest, ...opens], isClosed: rest.length + opens.length === 0 });
}

/** A scope and, while a scope contains nothing but one other scope, that scope, too. */
async function together(path: string, preload: Levels["preload"]): Promise<readonly string[]> {
  const opens = [path];
  for (;;) {
    const found = (await preload(opens)).find((each) => each.path === opens.at(-1));
    const inside = found?.level.nodes.filter((node) => node.what !== "outside") ?? [];
    const [only] = inside;
    if (inside.length !== 1 || only?.what !== "scope") return opens;
    opens.push(only.path);
  }
}
