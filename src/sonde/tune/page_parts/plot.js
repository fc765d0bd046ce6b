"use strict";
// Scales, axes and SVG: what every chart below is made of.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function canvas(width, height, label) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

function number(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(3).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(5)));
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(Math.round(seconds % 60)).padStart(2, "0")}s`;
  return `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, "0")}m`;
}

// A scale maps values to pixels and knows where its ticks are.

function linear(low, high, from, to, gap = from > to ? 45 : 70) {
  if (low === high) { low -= Math.abs(low) || 1; high += Math.abs(high) || 1; }
  const at = (value) => from + ((value - low) / (high - low)) * (to - from);
  const back = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  const raw = (high - low) / Math.max(2, Math.abs(to - from) / gap);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step)
    ticks.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  return { at, back, ticks, low, high };
}

function logarithmic(low, high, from, to) {
  const inner = linear(Math.log10(low), Math.log10(high), from, to);
  const first = Math.ceil(inner.low - 1e-9), last = Math.floor(inner.high + 1e-9);
  const many = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.abs(to - from) / 50)));
  let ticks = [];
  for (let tick = first; tick <= last; tick += many) ticks.push(10 ** tick);
  if (ticks.length < 2) ticks = [low, Math.sqrt(low * high), high];
  return { at: (value) => inner.at(Math.log10(value)), back: (pixel) => 10 ** inner.back(pixel), ticks, low, high };
}

function ordinal(values, from, to) {
  const places = new Map(values.map((value, index) => [
    String(value), values.length === 1 ? (from + to) / 2 : from + (index / (values.length - 1)) * (to - from)]));
  return { at: (value) => places.get(String(value)), back: null, ticks: values, low: null, high: null };
}

function scaleFor(parameter, from, to) {
  if (parameter.kind === "choice") return ordinal(parameter.choices, from, to);
  return (parameter.log ? logarithmic : linear)(parameter.low, parameter.high, from, to);
}

function extent(values) {
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
}

function padded(values, share = 0.05) {
  const [low, high] = extent(values);
  const room = (high - low) * share || Math.abs(high) * share || 1;
  return [low - room, high + room];
}

function targetScale(values, isLog, from, to) {
  if (!isLog) return linear(...padded(values), from, to);
  const [low, high] = extent(values);
  return logarithmic(low / 1.15, high * 1.15, from, to);
}

function wantsLog(values) {
  const [low, high] = extent(values);
  return values.length > 1 && low > 0 && high / low > 100;
}

function ticksAt(ticks, count) {
  const every = Math.max(1, Math.ceil(ticks.length / count));
  return ticks.filter((_, index) => index % every === 0);
}

function leftAxis(svg, scale, x, width) {
  for (const tick of scale.ticks) {
    const y = scale.at(tick);
    svg.append(shape("line", { class: "grid", x1: x, x2: x + width, y1: y, y2: y }));
    svg.append(shape("text", { x: x - 8, y: y + 4, "text-anchor": "end" }, number(tick)));
  }
}

function bottomAxis(svg, scale, y, count = 8) {
  for (const tick of ticksAt(scale.ticks, count)) {
    const x = scale.at(tick);
    svg.append(shape("line", { class: "axis", x1: x, x2: x, y1: y, y2: y + 4 }));
    svg.append(shape("text", { x, y: y + 17, "text-anchor": "middle" }, number(tick)));
  }
}

// Viridis with its dark end lifted, from worse to better, readable on light and on dark paper.
const RAMP = [[140, 70, 175], [88, 100, 185], [48, 128, 158], [34, 168, 132], [122, 209, 81], [220, 205, 50]];

function colour(share) {
  const place = Math.min(1, Math.max(0, share)) * (RAMP.length - 1);
  const index = Math.min(RAMP.length - 2, Math.floor(place));
  const mixed = RAMP[index].map((one, channel) => Math.round(one + (RAMP[index + 1][channel] - one) * (place - index)));
  return `rgb(${mixed.join(",")})`;
}
