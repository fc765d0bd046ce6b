import type { LayoutAnswer, LayoutRequest } from "./layout.worker";
import { unpack } from "./packing";
import type { OpenLevel, Scene } from "./scene";

/** Levels the worker remembers at most; then it begins anew. */
const MOST_REMEMBERED = 400;

/** The layout's worker, asked for the latest state only: what is overtaken is dropped. */
const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
let last = 0;
let lastLevels: readonly OpenLevel[] = [];
let resolveLast: ((scene: Scene | null) => void) | null = null;
let sent = new Set<string>();

worker.addEventListener("message", (message: MessageEvent<LayoutAnswer>) => {
  if (message.data.id !== last) return;
  resolveLast?.(unpack(message.data.scene, lastLevels));
  resolveLast = null;
});

/** The scene, or null when a later call overtook this one. */
export function layoutScene(levels: readonly OpenLevel[], root: string): Promise<Scene | null> {
  resolveLast?.(null);
  last += 1;
  lastLevels = levels;
  const forgets = sent.size > MOST_REMEMBERED;
  if (forgets) sent = new Set();
  const fresh = new Map(levels.filter((each) => !sent.has(each.key)).map((each) => [each.key, each.level]));
  for (const { key } of levels) sent.add(key);
  const open = levels.map(({ path, key }) => ({ path, key }));
  const request: LayoutRequest = { id: last, root, open, fresh, forgets };
  worker.postMessage(request);
  return new Promise((resolve) => {
    resolveLast = resolve;
  });
}
