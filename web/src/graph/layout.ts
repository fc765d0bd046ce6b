import type { LayoutAnswer, LayoutRequest } from "./layout.worker";
import { unpack } from "./packing";
import type { OpenLevel, Scene } from "./scene";

/** The worker keeps at most so many levels, then drops them all. */
const MOST_REMEMBERED = 400;

/** The worker that lays out graphs; a result that a later request has made obsolete is dropped. */
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

/** The scene to draw, or null if there was a later call meanwhile. */
export function layoutScene(
  levels: readonly OpenLevel[],
  hasColumn: boolean,
): Promise<Scene | null> {
  settle(drawn, null);
  const answer = ask(levels, hasColumn);
  drawn = last;
  return answer;
}

/** Lays out a scene that is not drawn, to find out its size. */
export function triedScene(
  levels: readonly OpenLevel[],
  hasColumn: boolean,
): Promise<Scene | null> {
  return ask(levels, hasColumn);
}

async function ask(levels: readonly OpenLevel[], hasColumn: boolean): Promise<Scene | null> {
  last += 1;
  const id = last;
  const forgets = sent.size > MOST_REMEMBERED;
  if (forgets) sent = new Set();
  const fresh = new Map(
    levels.filter((each) => !sent.has(each.key)).map((each) => [each.key, each.level]),
  );
  for (const { key } of levels) sent.add(key);
  const open = levels.map(({ path, key }) => ({ path, key }));
  const request: LayoutRequest = { id, open, fresh, forgets, hasColumn };
  worker.postMessage(request);
  const answer = await new Promise<LayoutAnswer | null>((resolve) => waiting.set(id, resolve));
  return answer === null ? null : unpack(answer.scene, levels);
}
