import { expect, test } from "vitest";
import tokens from "../src/styles/tokens.css?raw";

/** The colours of one palette, by name. */
function palette(css: string): ReadonlyMap<string, string> {
  return new Map(
    [...css.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/g)].map(([, name, colour]) => [
      name ?? "",
      colour ?? "",
    ]),
  );
}

/** Relative luminance, WCAG 2.2. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const [dark = "", light = ""] = tokens.split('[data-theme="light"]');
const GROUNDS = ["surface", "raised", "ground", "hover", "accent-ground"];
const TEXTS = [
  "text",
  "quiet",
  "strong",
  "accent",
  "good",
  "warn",
  "bad",
  "nan",
  "inf",
  "origin",
  "forward",
  "backward",
  "optimizer",
  "parameter",
];
const PAIRS: readonly (readonly [string, string])[] = [
  ...TEXTS.flatMap((text) => GROUNDS.map((ground) => [text, ground] as const)),
  ["bad", "bad-ground"],
  ["strong", "bad-ground"],
  ["nan", "nan-ground"],
  ["inf", "inf-ground"],
  ["on-accent", "accent"],
  ["on-accent", "origin"],
  ["on-accent", "bad"],
];

test.each([
  ["dark", palette(dark)],
  ["light", palette(light)],
])("every text of the %s palette has a contrast of 4.5 to its ground", (_, colours) => {
  const weak = PAIRS.filter(
    ([text, ground]) => contrast(colours.get(text) ?? "", colours.get(ground) ?? "") < 4.5,
  );
  expect(weak).toEqual([]);
  expect(PAIRS.every((pair) => pair.every((name) => colours.has(name)))).toBe(true);
});

/** The hue of a colour in degrees. */
function hue(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) =>
    Number.parseInt(colour.slice(at, at + 2), 16),
  );
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  const span = most - least;
  const sixth =
    most === red
      ? ((green - blue) / span) % 6
      : most === green
        ? (blue - red) / span + 2
        : (red - green) / span + 4;
  return (sixth * 60 + 360) % 360;
}

test.each([
  ["dark", palette(dark)],
  ["light", palette(light)],
])("what the graph marks has a hue of its own in the %s palette", (_, colours) => {
  const names = ["forward", "backward", "optimizer", "parameter", "warn", "origin", "bad"];
  const near = names.flatMap((one, at) =>
    names.slice(at + 1).filter((other) => {
      const apart = Math.abs(hue(colours.get(one) ?? "") - hue(colours.get(other) ?? ""));
      return Math.min(apart, 360 - apart) < 15;
    }),
  );
  expect(near).toEqual([]);
});
