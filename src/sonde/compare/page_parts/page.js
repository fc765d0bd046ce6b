"use strict";
const found = JSON.parse(document.getElementById("comparison").textContent);
const pairs = found.pairs;
const colour = (status) => {
  const name = { "not dumped": "equal", incomparable: "other" }[status] || status;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
};
const number = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  return value === 0 ? "0" : Math.abs(value) < 1e-3 || Math.abs(value) >= 1e4 ? value.toExponential(2) : value.toPrecision(4);
};
const size = (value) => (typeof value === "number" ? value : value === "Infinity" ? Infinity : -1);
const element = (tag, content, name) => {
  const made = document.createElement(tag);
  if (content !== undefined) made.textContent = content;
  if (name) made.className = name;
  return made;
};
const short = (name) => name.split("/").slice(-2).join("/");
const byOrder = new Map(pairs.map((pair) => [pair.order, pair]));
const tip = document.getElementById("tip");
let step = found.first ? found.first.step : pairs.length ? pairs[0].step : 0;
let chosen = found.first ? found.first.order : null;

function showPath() {
  const box = document.getElementById("path");
  if (!box) return;
  const here = byOrder.get(found.first.order);
  const before = [];
  let current = here;
  while (current && before.length < 7) {
    const inputs = current.reads.map((order) => byOrder.get(order)).filter((pair) => pair);
    const flow = inputs.filter((pair) => !pair.leaf);
    current = (flow.length ? flow : inputs).sort((x, y) => y.order - x.order)[0];
    if (current) before.unshift(current);
  }
  const after = [];
  current = here;
  while (current && after.length < 4) {
    const from = current.order;
    current = pairs.find((pair) => pair.order > from && pair.step === here.step && !pair.plumbing && pair.reads.includes(from));
    if (current) after.push(current);
  }
  [...before, here, ...after].forEach((pair, index) => {
    if (index) box.append(element("span", "→", "arrow"));
    const made = element("button", short(pair.a), pair === here ? "box here" : "box");
    made.style.borderLeftColor = colour(pair.status);
    made.append(element("small", `${pair.status}, error ${number(pair.error)}`));
    made.title = `${pair.a}\n${pair.b}`;
    made.onclick = () => choose(pair.order, true);
    box.append(made);
  });
}

const plot = document.getElementById("plot");
let points = [];
function drawPlot() {
  const ratio = window.devicePixelRatio || 1;
  const width = plot.clientWidth, height = plot.clientHeight;
  plot.width = width * ratio; plot.height = height * ratio;
  const draw = plot.getContext("2d");
  draw.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const soft = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
  const shown = pairs.filter((pair) => pair.step === step && pair.compared && !pair.leaf && !pair.plumbing);
  const values = shown.flatMap((pair) => [size(pair.error), Math.min(size(pair.allowed), 1)]).filter((value) => value > 0 && isFinite(value));
  const low = Math.floor(Math.log10(Math.max(Math.min(...values, 1e-6), 1e-16)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...values, 1e-6))), low + 1);
  const left = 52, right = 10, top = 10, bottom = 26;
  const y = (value) => {
    const share = value > 0 ? (Math.log10(Math.min(value, 10 ** high)) - low) / (high - low) : 0;
    return height - bottom - Math.max(0, share) * (height - top - bottom);
  };
  const x = (index) => left + ((index + 0.5) / Math.max(shown.length, 1)) * (width - left - right);
  draw.clearRect(0, 0, width, height);
  draw.font = "11px system-ui, sans-serif"; draw.textAlign = "right"; draw.textBaseline = "middle";
  const every = Math.ceil((high - low) / 8);
  for (let power = low; power <= high; power += every) {
    draw.strokeStyle = line; draw.beginPath(); draw.moveTo(left, y(10 ** power)); draw.lineTo(width - right, y(10 ** power)); draw.stroke();
    draw.fillStyle = soft; draw.fillText(`1e${power}`, left - 6, y(10 ** power));
  }
  let phase = null, labelled = -100;
  draw.textAlign = "left";
  shown.forEach((pair, index) => {
    if (pair.phase !== phase) {
      phase = pair.phase;
      draw.strokeStyle = soft; draw.setLineDash([3, 3]); draw.beginPath(); draw.moveTo(x(index), top); draw.lineTo(x(index), height - bottom); draw.stroke(); draw.setLineDash([]);
      if (x(index) - labelled > 64) {
        draw.fillStyle = soft; draw.fillText(phase, x(index) + 4, height - bottom / 2); labelled = x(index);
      }
    }
  });
  draw.strokeStyle = soft; draw.globalAlpha = 0.55; draw.beginPath();
  let down = false;
  shown.forEach((pair, index) => {
    const allowed = size(pair.allowed);
    if (!(allowed > 0) || !isFinite(allowed)) { down = false; return; }
    if (down) draw.lineTo(x(index), y(allowed)); else draw.moveTo(x(index), y(allowed));
    down = true;
  });
  draw.stroke(); draw.globalAlpha = 1;
  points = shown.map((pair, index) => {
    const error = size(pair.error);
    const point = { x: x(index), y: y(error), pair };
    const large = pair.status === "diverged" || pair.order === chosen;
    draw.fillStyle = colour(pair.status); draw.beginPath();
    draw.arc(point.x, point.y, large ? 5 : 2.4, 0, 2 * Math.PI); draw.fill();
    if (pair.order === chosen) { draw.strokeStyle = soft; draw.stroke(); }
    return point;
  });
}
const nearest = (event) => {
  const place = plot.getBoundingClientRect();
  const px = event.clientX - place.left, py = event.clientY - place.top;
  let best = null, least = 400;
  for (const point of points) {
    const away = (point.x - px) ** 2 + (point.y - py) ** 2;
    if (away < least) { least = away; best = point; }
  }
  return best;
};
plot.onmousemove = (event) => {
  const point = nearest(event);
  tip.style.display = point ? "block" : "none";
  if (!point) return;
  const pair = point.pair;
  tip.textContent = `${short(pair.a)}  ${pair.status}, error ${number(pair.error)}, allowed ${number(pair.allowed)}`;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 300)}px`;
  tip.style.top = `${event.clientY + 14}px`;
};
plot.onmouseleave = () => { tip.style.display = "none"; };
plot.onclick = (event) => { const point = nearest(event); if (point) choose(point.pair.order, true); };

const columns = [
  ["order", "#", true], ["step", "step", true], ["status", "status", false], ["a", "op", false],
  ["error", "rel. L2", true], ["input_error", "inputs'", true], ["allowed", "allowed", true],
  ["max_abs", "max abs", true], ["max_rel", "max rel", true], ["mean_rel", "mean rel", true],
  ["cosine", "cosine", true], ["within", "≤1/1000", true], ["ulp", "ULP", true],
];
let sorted = "order", descending = false, limit = 200;
const search = document.getElementById("search"), status = document.getElementById("status");
const chosenStep = document.getElementById("step");
function matches(pair) {
  const word = search.value.trim().toLowerCase();
  if (chosenStep.value !== "" && pair.step !== Number(chosenStep.value)) return false;
  if (status.value === "computing" && (pair.leaf || !pair.compared)) return false;
  if (status.value && status.value !== "computing" && pair.status !== status.value) return false;
  return !word || `${pair.a} ${pair.b} ${pair.kind} ${pair.source_a} ${pair.source_b}`.toLowerCase().includes(word);
}
function showTable() {
  const head = document.getElementById("head"), body = document.getElementById("body");
  head.replaceChildren(...columns.map(([key, title, right]) => {
    const cell = element("th", undefined, right ? "right" : "");
    const button = element("button", title + (sorted === key ? (descending ? " ▼" : " ▲") : ""));
    button.onclick = () => { descending = sorted === key ? !descending : right && key !== "order" && key !== "step"; sorted = key; showTable(); };
    cell.append(button);
    return cell;
  }));
  const rows = pairs.filter(matches);
  const value = (pair) => (columns.find(([key]) => key === sorted)[2] ? size(pair[sorted] ?? -2) : pair[sorted]);
  rows.sort((p, q) => (value(p) < value(q) ? -1 : value(p) > value(q) ? 1 : p.order - q.order) * (descending ? -1 : 1));
  if (chosen !== null && rows.findIndex((pair) => pair.order === chosen) >= limit) limit = rows.findIndex((pair) => pair.order === chosen) + 50;
  body.replaceChildren(...rows.slice(0, limit).flatMap(showRow));
  document.getElementById("count").textContent = `${rows.length} of ${pairs.length} pairs`;
  const more = document.getElementById("more");
  more.hidden = rows.length <= limit;
  more.onclick = () => { limit += 500; showTable(); };
}
function showRow(pair) {
  const row = element("tr", undefined, pair.order === chosen ? "row chosen" : "row");
  row.id = `pair-${pair.order}`;
  for (const [key, , right] of columns) {
    const cell = element("td", undefined, right ? "right" : key === "a" ? "name" : "");
    if (key === "status") {
      const dot = element("span", undefined, "dot"); dot.style.background = colour(pair.status); cell.append(dot, pair.status);
    } else if (key === "a") {
      cell.textContent = pair.a;
      if (pair.b !== pair.a) cell.append(element("br"), element("span", pair.b, "soft"));
    } else if (key === "order" || key === "step") cell.textContent = pair[key];
    else cell.textContent = number(pair[key]);
    row.append(cell);
  }
  row.onclick = () => choose(pair.order === chosen ? null : pair.order, false);
  if (pair.order !== chosen) return [row];
  const detail = element("tr", undefined, "detail"), cell = element("td");
  cell.colSpan = columns.length;
  const lines = [`${pair.type_a} in a, ${pair.type_b} in b; ${pair.phase}; paired by ${pair.how}`,
    pair.members_a.length ? `a also: ${pair.members_a.join(", ")}` : "", pair.members_b.length ? `b also: ${pair.members_b.join(", ")}` : "",
    pair.source_a ? `a ${pair.source_a}` : "", pair.source_b ? `b ${pair.source_b}` : "",
    ...pair.tensors.map((each) => `${each.a} ${each.dtype_a}[${each.shape_a}] and ${each.b} ${each.dtype_b}[${each.shape_b}]: ${each.problem || `error ${number(each.error)}`}${each.layout ? `, ${each.layout}` : ""}`),
    ...pair.notes].filter((line) => line);
  lines.forEach((line) => cell.append(element("div", line)));
  detail.append(cell);
  return [row, detail];
}
function choose(order, move) {
  chosen = order;
  if (move && byOrder.has(order)) {
    const pair = byOrder.get(order);
    if (!matches(pair)) { search.value = ""; status.value = ""; chosenStep.value = ""; }
  }
  showTable(); drawPlot();
  if (move) document.getElementById(`pair-${order}`)?.scrollIntoView({ block: "center" });
}
const steps = [...new Set(pairs.map((pair) => pair.step))];
const plotStep = document.getElementById("plot-step");
steps.forEach((each) => {
  chosenStep.append(new Option(`step ${each}`, each));
  plotStep.append(new Option(`step ${each}`, each));
});
plotStep.value = step;
plotStep.onchange = () => { step = Number(plotStep.value); drawPlot(); };
[search, status, chosenStep].forEach((input) => { input.oninput = () => { limit = 200; showTable(); }; });
window.addEventListener("resize", drawPlot);
showPath(); drawPlot(); showTable();
