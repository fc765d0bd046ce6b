import type { Level } from "../wire";
import { buffersOf, pack, type PackedScene } from "./packing";
import { SceneMaker, type OpenLevel } from "./scene";

/**
 * `fresh`: the levels that the worker does not have, by key; `forgets`: it drops the others first.
 */
export interface LayoutRequest {
  readonly id: number;
  readonly open: readonly { readonly path: string; readonly key: string }[];
  readonly fresh: ReadonlyMap<string, Level>;
  readonly forgets: boolean;
  readonly hasColumn: boolean;
}

export interface LayoutAnswer {
  readonly id: number;
  readonly scene: PackedScene;
  readonly milliseconds: number;
}

let maker = new SceneMaker();
const known = new Map<string, Level>();

self.addEventListener("message", (message: MessageEvent<LayoutRequest>) => {
  const start = performance.now();
  const { id, open, fresh, forgets, hasColumn } = message.data;
  if (forgets) {
    known.clear();
    maker = new SceneMaker();
  }
  for (const [key, level] of fresh) known.set(key, level);
  const levels = open.flatMap(({ path, key }): OpenLevel[] => {
    const level = known.get(key);
    return level === undefined ? [] : [{ path, key, level }];
  });
  const scene = pack(maker.make(levels, "", hasColumn), levels);
  const answer: LayoutAnswer = { id, scene, milliseconds: performance.now() - start };
  self.postMessage(answer, { transfer: buffersOf(scene) });
});
