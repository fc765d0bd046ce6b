import type { LayoutAnswer, LayoutRequest } from "./layout.worker";
import { unpack } from "./packing";
import type { OpenLevel, Scene } from "./scene";

/** Levels the worker remembers at most; then it begins anew. */
const MOST_REMEMBERED = 400;

/** The layout's worker; what is overtaken by a later drawing is dropped. */
const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
let last = 0;
let drawn = 0;
const waiting = new Map<number, (answer: LayoutAnswer | null) => void>();
let sent = new Set<string>();

worker.addEventListener("message", (message: MessageEvent<LayoutAnswer>) =>
  settle(message.data.id, message.data),
);

function settle(id: number, answer: LayoutAnswer | null): void {
  const resolve = waiting.get(id);
  waiting.delete(id);
  resolve?.(answer);
}

/** The scene to draw, or null when a later call overtook this one. */
export function layoutScene(levels: readonly OpenLevel[]): Promise<Scene | null> {
  settle(drawn, null);
  const answer = ask(levels);
  drawn = last;
  return answer;
}

/** How it would look, beside what is drawn meanwhile. */
export function triedScene(levels: readonly OpenLevel[]): Promise<Scene | null> {
  return ask(levels);
}

async function ask(levels: readonly OpenLevel[]): Promise<Scene | null> {
  last += 1;
  const id = last;
  const forgets = sent.size > MOST_REMEMBERED;
  if (forgets) sent = new Set();
  const fresh = new Map(
    levels.filter((each) => !sent.has(each.key)).map((each) => [each.key, each.level]),
  );
  for (const { key } of levels) sent.add(key);
  const open = levels.map(({ path, key }) => ({ path, key }));
  const request: LayoutRequest = { id, open, fresh, forgets };
  worker.postMessage(request);
  const answer = await new Promise<LayoutAnswer | null>((resolve) => waiting.set(id, resolve));
  return answer === null ? null : unpack(answer.scene, levels);
}
