"""The pictures of the report's page, drawn from the profile in it. No library, no network."""

CHARTS = r"""
"use strict";
const P = JSON.parse(document.getElementById("profile").textContent);
const PARTS = ["data", "forward", "backward", "optimizer", "collectives", "rest"];
const LABEL = { data: "waiting for data" };
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name);
const $ = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
const digits = (v) =>
  Math.abs(v) >= 99.95 ? v.toFixed(0) : Math.abs(v) >= 9.995 ? v.toFixed(1) : v.toFixed(2);
function time(s) {
  if (Math.abs(s) >= 0.9995) return digits(s) + " s";
  return Math.abs(s) >= 0.0009995 ? digits(s * 1e3) + " ms" : digits(s * 1e6) + " \u00b5s";
}
function size(b) {
  let unit = 0;
  while (Math.abs(b) >= 1024 && unit < 4) { b /= 1024; unit += 1; }
  return digits(b) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}
function rate(v) {
  let unit = 0;
  while (Math.abs(v) >= 1000 && unit < 5) { v /= 1000; unit += 1; }
  return digits(v) + ["", " k", " M", " G", " T", " P"][unit];
}
const percent = (x) => (100 * x).toFixed(Math.abs(x) < 0.0995 ? 1 : 0) + " %";
const shortFile = (f) => f.split("/").slice(-2).join("/");
const where = (p) => (p ? shortFile(p.file) + ":" + p.line : "");
const total = PARTS.reduce((sum, part) => sum + P.summary.parts[part], 0) || 1;

const tip = el("div", { class: "tip" });
document.body.append(tip);
function tipped(node, text) {
  node.addEventListener("mousemove", (event) => showTip(event, text));
  node.addEventListener("mouseleave", hideTip);
  return node;
}
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = "block";
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}
function hideTip() { tip.style.display = "none"; }

function drawHead() {
  $("title").textContent = P.program.join(" ");
  const rank = P.ranks > 1 ? ", rank " + P.rank + " of " + P.ranks : "";
  $("about").textContent = P.created + rank + "; " + P.machine.processor + ", " +
    P.machine.threads + " thread" + (P.machine.threads > 1 ? "s" : "") +
    "; " + Object.entries(P.versions).map((pair) => pair.join(" ")).join(", ");
  const cards = [
    ["a step", time(P.summary.step_time)],
    ["a profiled step", time(P.summary.profiled_step_time)],
    ["spread of the steps", percent(P.summary.jitter)],
    ["outliers", P.summary.outliers],
    ...(P.memory ? [["peak memory of a step", size(P.memory.peak)],
      ["resident at its beginning", size(P.memory.resident)]] : []),
    ["float32 here", rate(P.machine.flops.float32) + "FLOP/s"],
    ["memory here", rate(P.machine.bytes_per_second) + "B/s"],
  ];
  for (const [name, value] of cards) {
    $("cards").append(el("div", { class: "card" }, el("b", { text: value }),
      el("span", { class: "dim", text: name })));
  }
  for (const note of P.notes) $("notes").append(el("p", { class: "dim", text: "note: " + note }));
}

function drawParts() {
  $("partstext").textContent = "mean of the profiled steps without outliers: " + time(total);
  for (const part of PARTS) {
    const seconds = P.summary.parts[part];
    const piece = el("span", { style: `flex:${seconds / total};background:var(--${part})` });
    $("bar").append(tipped(piece, (LABEL[part] || part) + ": " + time(seconds)));
    const text = (LABEL[part] || part) + " " + time(seconds) + ", " + percent(seconds / total);
    $("legend").append(el("span", {}, el("i", { style: `background:var(--${part})` }), text));
  }
}

function drawFindings() {
  if (!P.findings.length) {
    $("findings").append(el("p", { text:
      "No finding: nothing that was measured would make a step 5 % shorter." }));
  }
  for (const found of P.findings) {
    const facts = JSON.stringify(found.evidence, null, 1);
    const box = el("div", { class: "finding " + found.severity },
      el("header", {}, el("b", { text: found.rule }),
        el("span", { class: "gain", text: time(found.gain.seconds) + " a step, " +
          percent(found.gain.share) }),
        el("span", { class: "dim", text: found.direction + "; gain measured: " + found.gain.how }),
        el("span", { class: "mono", text: where(found.place) })));
    if (found.place && found.place.code) {
      box.append(el("p", {}, el("code", { class: "mono", text: found.place.code })));
    }
    box.append(el("p", { text: found.message }), el("p", { text: "\u2192 " + found.advice }),
      el("details", {}, el("summary", { text: "evidence" }), el("pre", { text: facts })));
    $("findings").append(box);
  }
  for (const hint of P.worth_trying) {
    $("hints").append(el("p", { class: "dim", text: "worth a trial, not measured: " + hint }));
  }
}

function drawSteps() {
  const steps = P.steps.slice(-400);
  const width = 1130, height = 170, left = 54, base = height - 22;
  const usual = steps.slice(steps.length > 3 ? 1 : 0).filter((step) => step.kind !== "named");
  const top = Math.max(...(usual.length ? usual : steps).map((step) => step.seconds)) * 1.06;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, id: "stepchart" });
  for (const share of [0, 0.5, 1]) {
    const y = base - share * (base - 8);
    picture.append(svg("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }));
    picture.append(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end", class: "dim" },
      time(top * share)));
  }
  const each = (width - left) / steps.length, gap = each > 4 ? 1.5 : 0;
  const every = Math.max(1, Math.ceil(steps.length / 25));
  steps.forEach((step, index) => {
    const x = left + index * each;
    const column = svg("g", {});
    const scale = (base - 8) / top;
    let y = base;
    const pieces = step.parts ? PARTS.map((part) => [part, step.parts[part]])
      : [["rest", step.seconds]];
    for (const [part, seconds] of pieces) {
      const tall = Math.min(seconds * scale, y - 2);
      y -= tall;
      column.append(svg("rect", { x: x + gap / 2, y, width: Math.max(0.5, each - gap),
        height: Math.max(0, tall), fill: `var(--${part})`, opacity: step.parts ? 1 : 0.35 }));
    }
    const kind = { bare: "not profiled", timed: "profiled", named: "run to learn names" };
    const lines = step.parts ? PARTS.filter((part) => step.parts[part] > 0)
      .map((part) => "\n" + (LABEL[part] || part) + " " + time(step.parts[part])).join("") : "";
    tipped(column, `step ${step.number}: ${time(step.seconds)}, ${kind[step.kind]}` +
      (step.is_outlier ? ", an outlier" : "") + lines);
    if (step.is_outlier) {
      column.append(svg("text", { x: x + each / 2, y: 9, "text-anchor": "middle" }, "\u2022"));
    }
    picture.append(column);
    if (index % every === 0) {
      picture.append(svg("text", { x: x + each / 2, y: height - 6, "text-anchor": "middle",
        class: "dim" }, step.number));
    }
  });
  $("steps").append(picture);
}

function drawTimeline() {
  const T = P.timeline, canvas = $("timeline"), ratio = devicePixelRatio || 1;
  const end = Math.max(...T.parts.map((span) => span[2]), 1e-9);
  let from = 0, to = end, hover = null;
  const modules = [...new Set(T.ops.map((op) => op[1]))];
  const hue = new Map(modules.map((name, index) => [name, (index * 47) % 360]));
  function draw() {
    const wide = canvas.clientWidth, tall = 112;
    canvas.width = wide * ratio; canvas.height = tall * ratio; canvas.style.height = tall + "px";
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.clearRect(0, 0, wide, tall);
    const at = (t) => ((t - from) / (to - from)) * wide;
    g.font = "11px system-ui";
    for (const [part, a, b] of T.parts) {
      if (b < from || a > to) continue;
      g.fillStyle = color(part);
      g.fillRect(at(a), 4, Math.max(0.5, at(b) - at(a)), 22);
      if (at(b) - at(a) <= 60) continue;
      g.fillStyle = "#fff";
      g.fillText(part, Math.max(4, at(a) + 5), 19);
    }
    for (const op of T.ops) {
      const [name, module, a, b] = op;
      if (b < from || a > to) continue;
      g.fillStyle = op === hover ? color("text") : `hsl(${hue.get(module)} 45% 48%)`;
      g.fillRect(at(a), 32, Math.max(0.6, at(b) - at(a) - 0.3), 50);
      if (at(b) - at(a) > 7 * name.length) {
        g.fillStyle = "#fff"; g.fillText(name, at(a) + 3, 60);
      }
    }
    g.fillStyle = color("dim");
    const marks = 8;
    for (let i = 0; i <= marks; i += 1) {
      const t = from + ((to - from) * i) / marks;
      g.textAlign = i === 0 ? "left" : i === marks ? "right" : "center";
      g.fillText(time(t), (wide * i) / marks, tall - 8);
    }
    g.textAlign = "left";
  }
  function found(event) {
    const box = canvas.getBoundingClientRect();
    const t = from + ((event.clientX - box.left) / box.width) * (to - from);
    const y = event.clientY - box.top, near = ((to - from) / box.width) * 1.5;
    if (y < 29) {
      const span = T.parts.find((each) => each[1] <= t && t < each[2]);
      return span && [null, `${LABEL[span[0]] || span[0]}: ${time(span[2] - span[1])}`];
    }
    const op = T.ops.find((each) => each[2] <= t + near && t - near < each[3] && each[2] <= t) ||
      T.ops.find((each) => each[2] <= t + near && t - near < each[3]);
    return op && [op, `${op[0]}: ${time(op[3] - op[2])}\n${op[1]}`];
  }
  canvas.addEventListener("mousemove", (event) => {
    const hit = found(event);
    if (hit) showTip(event, hit[1]); else hideTip();
    const now = hit ? hit[0] : null;
    if (now !== hover) { hover = now; draw(); }
  });
  canvas.addEventListener("mouseleave", () => { hideTip(); hover = null; draw(); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const middle = from + share * (to - from);
    const span = Math.min(end, Math.max(end / 1e5, (to - from) * (event.deltaY > 0 ? 1.25 : 0.8)));
    from = Math.max(0, Math.min(end - span, middle - share * span));
    to = from + span;
    draw();
  }, { passive: false });
  let grabbed = null;
  canvas.addEventListener("mousedown", (event) => { grabbed = [event.clientX, from]; });
  addEventListener("mouseup", () => { grabbed = null; });
  addEventListener("mousemove", (event) => {
    if (!grabbed) return;
    const span = to - from, moved = ((grabbed[0] - event.clientX) / canvas.clientWidth) * span;
    from = Math.max(0, Math.min(end - span, grabbed[1] + moved));
    to = from + span;
    draw();
  });
  $("whole").addEventListener("click", () => { from = 0; to = end; draw(); });
  $("timelinestep").textContent = "step " + T.step + ": its parts above, its ops below, one " +
    "colour a module. Wheel to zoom, drag to move.";
  addEventListener("resize", draw);
  draw();
}

function drawFlame() {
  const box = $("flame");
  const amount = (node) => node.forward + node.backward;
  let root = P.modules, path = [];
  function depth(node) { return 1 + Math.max(0, ...node.children.map(depth)); }
  function fill(node, x, share, level, above) {
    if (share < 0.0008) return;
    const name = node.name + (node.kind ? " " + node.kind : "");
    const back = amount(node) ? node.backward / amount(node) : 0;
    const cell = el("div", { text: name });
    Object.assign(cell.style, { left: 100 * x + "%", width: 100 * share + "%",
      top: level * 21 + "px",
      background: node.name.startsWith("(") ? "var(--rest)"
        : `color-mix(in srgb, var(--backward) ${100 * back}%, var(--forward))` });
    tipped(cell, `${[...above, name].join(" / ")}\n${time(amount(node))} a step, ` +
      `${percent(amount(node) / total)}\nforward ${time(node.forward)}, ` +
      `backward ${time(node.backward)}, itself ${time(node.own)}`);
    cell.addEventListener("click", () => {
      hideTip();
      if (node === root) { root = path.pop() || P.modules; } else { path.push(root); root = node; }
      draw();
    });
    box.append(cell);
    let at = x;
    for (const child of node.children) {
      const part = amount(node) ? (share * amount(child)) / amount(node) : 0;
      fill(child, at, part, level + 1, [...above, name]);
      at += part;
    }
  }
  function draw() {
    box.replaceChildren();
    box.style.height = depth(root) * 21 + "px";
    fill(root, 0, 1, 0, []);
  }
  draw();
}

function drawMemory() {
  if (!P.memory) { $("memory").textContent = "not recorded; --memory does"; return; }
  const M = P.memory, points = M.timeline;
  const width = 1130, height = 150, left = 70, base = height - 20;
  if (points.length < 2) { $("memory").textContent = "nothing was allocated"; return; }
  const end = points[points.length - 1][0] || 1e-9;
  const low = Math.min(0, ...points.map((p) => p[1]));
  const high = Math.max(1, ...points.map((p) => p[1]));
  const x = (t) => left + (t / end) * (width - left - 6);
  const y = (b) => base - ((b - low) / (high - low)) * (base - 10);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}` });
  const marks = low < 0.1 * (low - high) ? [low, 0, high] : [0, high / 2, high];
  for (const value of marks) {
    picture.append(svg("line", { x1: left, x2: width, y1: y(value), y2: y(value), class: "axis" }));
    picture.append(svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end",
      class: "dim" }, size(value)));
  }
  let d = `M${x(points[0][0])},${y(points[0][1])}`;
  for (const [t, b] of points.slice(1)) d += `H${x(t).toFixed(1)}V${y(b).toFixed(1)}`;
  picture.append(svg("path", { d, fill: "none", stroke: "var(--accent)", "stroke-width": 1.4 }));
  picture.append(svg("circle", { cx: x(M.peak_at), cy: y(M.peak), r: 3.5, fill: "var(--warn)" }));
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("text", { x: x(end * share), y: height - 4,
      "text-anchor": share === 1 ? "end" : "middle", class: "dim" }, time(end * share)));
  }
  $("memory").append(picture);
  $("memorytext").textContent = `Step ${M.step}: what torch allocated above its beginning. ` +
    `It peaks at ${size(M.peak)} after ${time(M.peak_at)}, in ${M.peak_part}.`;
}
"""
