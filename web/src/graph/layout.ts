import type { LayoutAnswer, LayoutRequest } from "./layout.worker";
import type { OpenLevel, Scene } from "./scene";

/** The layout's worker, asked for the latest state only: what is overtaken is dropped. */
const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
let last = 0;
let resolveLast: ((scene: Scene | null) => void) | null = null;

worker.addEventListener("message", (message: MessageEvent<LayoutAnswer>) => {
  if (message.data.id !== last) return;
  resolveLast?.(message.data.scene);
  resolveLast = null;
});

/** The scene, or null when a later call overtook this one. */
export function layoutScene(levels: readonly OpenLevel[], root: string): Promise<Scene | null> {
  resolveLast?.(null);
  last += 1;
  const request: LayoutRequest = { id: last, levels, root };
  worker.postMessage(request);
  return new Promise((resolve) => {
    resolveLast = resolve;
  });
}
