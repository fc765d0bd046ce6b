import { render, type JSX } from "preact";
import type { Scene } from "./scene";

const EDGE = 16;
/** The properties of shapes and texts that a picture needs, as the page has computed them. */
const PROPERTIES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-weight",
  "font-family",
  "text-anchor",
  "dominant-baseline",
  "paint-order",
  "stroke-linejoin",
  "display",
] as const;
const SPACE = "http://www.w3.org/2000/svg";
/** A browser refuses larger canvases. */
const MOST_PIXELS = 8192;

/** The whole graph, as it is open now, as the text of an SVG file that needs no style sheet. */
export function svgText(scene: Scene, content: JSX.Element, page: Element): string {
  const frame = document.createElementNS(SPACE, "svg");
  const [width, height] = [scene.width + 2 * EDGE, scene.height + 2 * EDGE];
  frame.setAttribute("xmlns", SPACE);
  frame.setAttribute("width", String(Math.ceil(width)));
  frame.setAttribute("height", String(Math.ceil(height)));
  frame.setAttribute("viewBox", `${-EDGE} ${-EDGE} ${width} ${height}`);
  frame.classList.add("picture", "near-by");
  // In the page while it is drawn, because styles are computed only there.
  page.append(frame);
  try {
    render(content, frame);
    for (const element of frame.querySelectorAll("*")) settle(element);
    for (const hidden of frame.querySelectorAll(".opener-area, title")) hidden.remove();
    const ground = document.createElementNS(SPACE, "rect");
    ground.setAttribute("x", String(-EDGE));
    ground.setAttribute("y", String(-EDGE));
    ground.setAttribute("width", "100%");
    ground.setAttribute("height", "100%");
    ground.setAttribute("fill", getComputedStyle(frame).backgroundColor);
    frame.prepend(ground);
    return new XMLSerializer().serializeToString(frame);
  } finally {
    render(null, frame);
    frame.remove();
  }
}

function settle(element: Element): void {
  const style = getComputedStyle(element);
  const text = PROPERTIES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";");
  element.setAttribute("style", text);
}

/** The same as a PNG, twice as fine as the screen unless that is too large for a browser. */
export async function pngOf(text: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(2, MOST_PIXELS / Math.max(image.width, image.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(image.width * scale);
  canvas.height = Math.round(image.height * scale);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return await new Promise((resolve, reject) =>
    canvas.toBlob((blob) =>
      blob === null ? reject(new Error("The browser could not make a PNG")) : resolve(blob),
    ),
  );
}

/** Lets the browser save a file. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
