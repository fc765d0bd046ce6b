import { SceneMaker, type OpenLevel, type Scene } from "./scene";

export interface LayoutRequest {
  readonly id: number;
  readonly levels: readonly OpenLevel[];
  readonly root: string;
}

export interface LayoutAnswer {
  readonly id: number;
  readonly scene: Scene;
  readonly milliseconds: number;
}

const maker = new SceneMaker();

self.addEventListener("message", (message: MessageEvent<LayoutRequest>) => {
  const start = performance.now();
  const { id, levels, root } = message.data;
  const scene = maker.make(levels, root);
  const answer: LayoutAnswer = { id, scene, milliseconds: performance.now() - start };
  self.postMessage(answer);
});
