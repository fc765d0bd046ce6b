// The charts. Each draws into its section and is drawn again when a scale or a brush changes.

function title(section, text, note = "") {
  section.replaceChildren(element("h2", {}, text, element("small", {}, note)));
}

function tools(section, ...buttons) {
  section.append(element("div", { class: "tools" }, ...buttons));
}

function toggle(label, isOn, act) {
  const button = element("button", { type: "button", "aria-pressed": String(isOn) }, label);
  button.addEventListener("click", act);
  return button;
}

function empty(section, text) {
  section.append(element("p", { class: "empty" }, text));
}

function mark(svg, x, y, trial, radius = done.length > 300 ? 3 : 4) {
  const isBest = trial.number === study.best;
  const dot = shape("circle", { class: `dot ${trial.state}${isBest ? " best" : ""}`, cx: x, cy: y, r: isBest ? radius + 2 : radius });
  hover(dot, () => describe(trial));
  svg.append(dot);
  return dot;
}

function drawHistory() {
  const section = document.getElementById("history");
  title(section, "History", `best ${study.target} so far`);
  const values = done.map((trial) => trial.value);
  if (!values.length) return empty(section, "No trial has finished yet.");
  if (extent(values)[0] > 0) tools(section, toggle("log", view.isLog, () => { view.isLog = !view.isLog; drawAll(); }));
  const width = 700, height = 320, left = 62, right = 12, top = 10, bottom = 40;
  const svg = canvas(width, height, "values of the trials in their order");
  const last = Math.max(1, ...study.trials.map((trial) => trial.number));
  const x = linear(0, last, left + 6, width - right);
  const y = targetScale(values, view.isLog, height - bottom, top);
  x.ticks = x.ticks.filter(Number.isInteger);
  leftAxis(svg, y, left, width - left - right);
  bottomAxis(svg, x, height - bottom);
  svg.append(shape("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "trial"));
  let best = null, path = "";
  for (const trial of done) {
    const before = best;
    best = best === null ? trial.value : better(best, trial.value);
    path += before === null ? `M${x.at(trial.number)},${y.at(best)}` : `H${x.at(trial.number)}V${y.at(best)}`;
  }
  svg.append(shape("path", { class: "frontier", d: `${path}H${x.at(last)}` }));
  for (const trial of study.trials) if (trial.value === null && BAD.includes(trial.state)) cross(svg, x.at(trial.number), top + 4, trial);
  for (const trial of study.trials) if (trial.value === null && trial.state === "pruned" && trial.course.length) {
    const at = trial.course[trial.course.length - 1][1];
    if (!view.isLog || at > 0) mark(svg, x.at(trial.number), Math.min(height - bottom, Math.max(top, y.at(at))), trial, 3);
  }
  for (const trial of done) if (trial.number !== study.best) mark(svg, x.at(trial.number), y.at(trial.value), trial);
  for (const trial of done) if (trial.number === study.best) mark(svg, x.at(trial.number), y.at(trial.value), trial);
  section.append(svg, legend());
}

function cross(svg, x, y, trial) {
  const path = shape("path", { d: `M${x - 4},${y - 4}l8,8m0,-8l-8,8`, stroke: "var(--bad)", "stroke-width": 2, fill: "none" });
  const area = shape("rect", { x: x - 7, y: y - 7, width: 14, height: 14, fill: "transparent" });
  hover(area, () => describe(trial));
  svg.append(path, area);
}

function legend() {
  const states = [...new Set(study.trials.map((trial) => trial.state))];
  const entries = states.map((state) => element("span", { class: `state ${state}` }, state));
  return element("div", { class: "legend" }, ...entries);
}

function drawImportance() {
  const section = document.getElementById("importance");
  title(section, "Importance", "share in the differences of " + study.target);
  if (!study.importance.length) return empty(section, "Known after four finished trials that differ.");
  const row = 34, width = 460, label = 150;
  const svg = canvas(width, study.importance.length * row + 6, "importance of the parameters");
  study.importance.forEach(([name, share], index) => {
    const y = index * row + 8, room = width - label - 60;
    svg.append(shape("text", { class: "name", x: label - 10, y: y + 15, "text-anchor": "end" }, shortened(name, 20)));
    svg.append(shape("rect", { class: "track", x: label, y: y + 3, width: room, height: 16, rx: 4 }));
    svg.append(shape("rect", { class: "bar", x: label, y: y + 3, width: Math.max(2, room * share), height: 16, rx: 4 }));
    svg.append(shape("text", { x: width - 50, y: y + 15 }, `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`));
  });
  section.append(svg);
}

function drawParallel() {
  const section = document.getElementById("parallel");
  const shown = done.filter(isWithin);
  title(section, "Parallel coordinates", `${shown.length} of ${done.length} finished trials; drag along an axis to choose, click it to forget`);
  if (!done.length || !study.parameters.length) return empty(section, "No trial has finished yet.");
  const width = 1180, height = 340, left = 70, right = 80, top = 34, bottom = 18;
  const svg = canvas(width, height, "every finished trial as a line through its parameters");
  const axes = [...study.parameters, { name: study.target, kind: "target" }];
  const gap = (width - left - right) / Math.max(1, axes.length - 1);
  const values = done.map((trial) => trial.value);
  const scales = axes.map((axis) => axis.kind === "target"
    ? targetScale(values, view.isLog, height - bottom, top)
    : scaleFor(axis, height - bottom, top));
  const ranked = [...done].sort((a, b) => sign * (b.value - a.value));
  ranked.forEach((trial, index) => {
    const points = axes.map((axis, place) => {
      const value = axis.kind === "target" ? trial.value : trial.parameters[axis.name];
      return value === undefined ? null : [left + place * gap, scales[place].at(value)];
    });
    const path = "M" + points.filter(Boolean).join("L"); // past a parameter the trial does not have
    const line = shape("path", { class: `thread${isWithin(trial) ? "" : " out"}`, d: path, stroke: colour(ranked.length > 1 ? index / (ranked.length - 1) : 1) });
    if (isWithin(trial)) line.style.opacity = Math.max(0.25, Math.min(0.75, 120 / shown.length));
    hover(line, () => describe(trial));
    line.addEventListener("mouseenter", () => line.classList.add("on"));
    line.addEventListener("mouseleave", () => line.classList.remove("on"));
    svg.append(line);
  });
  axes.forEach((axis, place) => drawAxis(svg, axis, scales[place], left + place * gap, top, height - bottom));
  section.append(svg, element("div", { class: "legend" }, "yellow is best, violet worst"));
}

function drawAxis(svg, axis, scale, x, top, bottom) {
  svg.append(shape("line", { x1: x, x2: x, y1: top, y2: bottom, stroke: "var(--calm)" }));
  svg.append(shape("text", { class: "name", x, y: top - 16, "text-anchor": "middle" }, shortened(axis.name, 18)));
  for (const tick of ticksAt(scale.ticks, 9)) {
    const y = scale.at(tick);
    const text = shape("text", { x: x + 6, y: y + 4, stroke: "var(--card)", "stroke-width": 5, "paint-order": "stroke" }, shortened(number(tick), 14));
    svg.append(shape("line", { class: "axis", x1: x - 3, x2: x + 3, y1: y, y2: y }), text);
  }
  const brush = view.brushes.get(axis.name);
  if (brush) svg.append(shape("rect", { class: "brush", x: x - 8, width: 16, y: brush.top, height: brush.bottom - brush.top, rx: 3 }));
  const handle = shape("rect", { class: "handle", x: x - 14, width: 28, y: top - 8, height: bottom - top + 16 });
  handle.addEventListener("pointerdown", (event) => brushing(event, svg, axis, scale, top, bottom));
  svg.append(handle);
}

function brushing(event, svg, axis, scale, top, bottom) {
  event.preventDefault();
  const pixel = (one) => {
    const box = svg.getBoundingClientRect();
    return Math.min(bottom, Math.max(top, ((one.clientY - box.top) / box.height) * svg.viewBox.baseVal.height));
  };
  const from = pixel(event);
  const move = (one) => {
    const [high, low] = [from, pixel(one)].sort((a, b) => a - b);
    if (low - high < 4) view.brushes.delete(axis.name);
    else view.brushes.set(axis.name, { top: high, bottom: low, kind: axis.kind, holds: (value) => value !== undefined && scale.at(value) >= high - 0.5 && scale.at(value) <= low + 0.5 });
  };
  const end = (one) => {
    move(one);
    window.removeEventListener("pointerup", end);
    drawAll();
  };
  window.addEventListener("pointerup", end);
}

function isWithin(trial) {
  for (const [name, brush] of view.brushes)
    if (!brush.holds(brush.kind === "target" ? trial.value : trial.parameters[name])) return false;
  return true;
}

function drawSlices() {
  const section = document.getElementById("slices");
  title(section, "Slices", `${study.target} by each parameter; darker is earlier`);
  if (!done.length) return empty(section, "No trial has finished yet.");
  const grid = element("div", { class: "slices" });
  const shown = done.filter(isWithin);
  const last = Math.max(1, ...done.map((trial) => trial.number));
  for (const parameter of study.parameters) {
    const width = 280, height = 210, left = 52, right = 10, top = 22, bottom = 28;
    const svg = canvas(width, height, `${study.target} by ${parameter.name}`);
    const x = scaleFor(parameter, left + 8, width - right);
    const y = targetScale(done.map((trial) => trial.value), view.isLog, height - bottom, top);
    y.ticks = ticksAt(y.ticks, 5);
    leftAxis(svg, y, left, width - left - right);
    bottomAxis(svg, x, height - bottom, 4);
    svg.append(shape("text", { class: "name", x: left, y: 11 }, shortened(parameter.name, 30)));
    for (const trial of shown) {
      if (trial.parameters[parameter.name] === undefined) continue;
      const dot = mark(svg, x.at(trial.parameters[parameter.name]), y.at(trial.value), trial, 3.5);
      if (trial.number !== study.best) dot.style.fill = colour(0.15 + 0.75 * (trial.number / last));
    }
    grid.append(svg);
  }
  section.append(grid);
}

function drawCourses() {
  const section = document.getElementById("courses");
  const told = study.trials.filter((trial) => trial.course.length > 1);
  section.hidden = !told.length;
  if (!told.length) return;
  title(section, "Courses", `${study.target} while the trials ran`);
  const sound = told.filter((trial) => !BAD.includes(trial.state));
  const points = told.flatMap((trial) => trial.course);
  const values = (sound.length ? sound : told).flatMap((trial) => trial.course.map(([, value]) => value));
  const width = 1180, height = 280, left = 62, right = 12, top = 10, bottom = 40;
  const svg = canvas(width, height, "live values of the trials");
  const x = linear(...extent(points.map(([step]) => step)), left + 6, width - right);
  const isLog = (view.isLog || wantsLog(values)) && extent(points.map(([, value]) => value))[0] > 0;
  const y = targetScale(values, isLog, height - bottom, top);
  const clip = shape("clipPath", { id: "within" });
  clip.append(shape("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom }));
  svg.append(clip);
  leftAxis(svg, y, left, width - left - right);
  bottomAxis(svg, x, height - bottom, 14);
  svg.append(shape("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "step"));
  const colours = { finished: "var(--accent)", pruned: "var(--warn)", diverged: "var(--bad)", failed: "var(--bad)" };
  const ordered = [...told].sort((a, b) => (a.number === study.best) - (b.number === study.best));
  for (const trial of ordered) {
    const isBest = trial.number === study.best;
    const line = shape("path", { class: `thread${isBest ? " on" : ""}`, d: "M" + trial.course.map(([step, value]) => `${x.at(step)},${y.at(value)}`).join("L"), "clip-path": "url(#within)", stroke: isBest ? "var(--good)" : colours[trial.state] || "var(--calm)" });
    line.style.opacity = isBest ? 1 : Math.max(0.06, Math.min(0.45, 25 / told.length));
    hover(line, () => describe(trial));
    svg.append(line);
  }
  section.append(svg, legend());
}
