// The page: reads the study, fills what is text, and draws the charts.

const study = JSON.parse(document.getElementById("data").textContent);
const sign = study.goal === "maximize" ? -1 : 1;
const BAD = ["diverged", "failed", "timeout"];
const done = study.trials.filter((trial) => trial.value !== null);
const view = { isLog: wantsLog(done.map((trial) => trial.value)), brushes: new Map(), sort: "number", isUp: true };

function better(one, other) {
  return sign * one <= sign * other ? one : other;
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function describe(trial) {
  const lines = [`trial ${trial.number}: ${trial.state}`];
  if (trial.value !== null) lines.push(`${study.target} ${number(trial.value)}`);
  for (const [name, value] of Object.entries(trial.parameters)) lines.push(`${name} ${number(value)}`);
  if (trial.seconds !== null) lines.push(duration(trial.seconds));
  if (trial.reason) lines.push(trial.reason);
  return lines.join("\n");
}

function hover(target, text) {
  const tip = document.getElementById("tip");
  target.addEventListener("mousemove", (event) => {
    tip.textContent = text();
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - box.height - 8)}px`;
  });
  target.addEventListener("mouseleave", () => { tip.hidden = true; });
}

function fillHead() {
  document.getElementById("study").textContent = study.study;
  const about = [`${study.goal} ${study.target}`];
  if (study.search.tuner) about.push(study.search.tuner);
  if (study.search.pruner && study.search.pruner !== "none") about.push(`pruner ${study.search.pruner}`);
  if (study.search.command) about.push(study.search.command);
  document.getElementById("about").textContent = about.join(" · ");
}

function fillTiles() {
  const best = study.trials.find((trial) => trial.number === study.best);
  const count = (...states) => study.trials.filter((trial) => states.includes(trial.state)).length;
  const total = study.trials.reduce((sum, trial) => sum + (trial.seconds || 0), 0);
  const tiles = [
    [best ? number(best.value) : "none", `best ${study.target}${best ? `, trial ${best.number}` : ""}`],
    [String(done.length), "finished"],
    [String(count("pruned")), "pruned"],
    [String(count("diverged")), "diverged"],
    [String(count("failed", "timeout")), "failed"],
    [duration(total), "in trials"],
  ];
  const section = document.getElementById("tiles");
  for (const [value, label] of tiles) section.append(element("div", { class: "tile" }, element("b", {}, value), element("span", {}, label)));
}

function fillBest() {
  const best = study.trials.find((trial) => trial.number === study.best);
  if (!best) return;
  const section = document.getElementById("best");
  section.hidden = false;
  title(section, `Best: trial ${best.number}`, `${study.target} ${number(best.value)}`);
  const chips = Object.entries(best.parameters).map(([name, value]) => element("div", {}, element("span", {}, `${name} `), number(value)));
  section.append(element("div", { class: "chips" }, ...chips));
  if (!best.command) return;
  const command = element("div", { class: "command" }, element("pre", {}, best.command));
  section.append(command);
  if (!navigator.clipboard) return; // a browser that gives a file none
  const copy = element("button", { type: "button" }, "copy");
  copy.addEventListener("click", () => navigator.clipboard.writeText(best.command).then(() => { copy.textContent = "copied"; }));
  command.append(copy);
}

function listed(numbers) {
  const rest = numbers.length - 12;
  return `trials ${numbers.slice(0, 12).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}

function fillDiverged() {
  const culprits = new Map();
  for (const trial of study.trials) {
    if (!trial.origin) continue;
    const key = `${trial.origin.op} ${trial.origin.file} ${trial.origin.line}`;
    if (!culprits.has(key)) culprits.set(key, { origin: trial.origin, numbers: [] });
    culprits.get(key).numbers.push(trial.number);
  }
  if (!culprits.size) return;
  const section = document.getElementById("diverged");
  section.hidden = false;
  title(section, "Why trials diverged", "the op that made the first NaN or Inf");
  for (const { origin, numbers } of culprits.values()) {
    const where = origin.file ? `${origin.file}:${origin.line}` : "no line of yours";
    const block = element("div", { class: "culprit" }, element("div", {}, element("code", {}, origin.op)), element("div", {}, element("span", {}, `${where} · ${listed(numbers)}`)));
    if (origin.code) block.append(element("pre", {}, origin.code.trim()));
    section.append(block);
  }
}

function drawTrials() {
  const section = document.getElementById("trials");
  title(section, "Trials", "click a column to sort");
  const columns = [
    ["number", "trial", (trial) => trial.number],
    ["state", "state", (trial) => trial.state],
    ["value", study.target, (trial) => trial.value],
    ...study.parameters.map((parameter) => [`p:${parameter.name}`, parameter.name, (trial) => trial.parameters[parameter.name]]),
    ["seconds", "time", (trial) => trial.seconds],
    ["reason", "why", (trial) => trial.reason],
  ];
  const [, , key] = columns.find(([name]) => name === view.sort);
  const order = (a, b) => {
    const [one, other] = [key(a), key(b)];
    if (one === other) return a.number - b.number;
    if (one === null || one === undefined || one === "") return 1;
    if (other === null || other === undefined || other === "") return -1;
    return (one < other ? -1 : 1) * (view.isUp ? 1 : -1);
  };
  const isText = (name) => name === "state" || name === "reason";
  const head = element("tr");
  for (const [name, label] of columns) {
    const arrow = name === view.sort ? (view.isUp ? " ↑" : " ↓") : "";
    const cell = element("th", { class: `${isText(name) ? "text" : ""}${name === view.sort ? " by" : ""}` }, label + arrow);
    cell.addEventListener("click", () => { view.isUp = name === view.sort ? !view.isUp : true; view.sort = name; drawTrials(); });
    head.append(cell);
  }
  const body = element("tbody");
  for (const trial of study.trials.filter((one) => !view.brushes.size || isWithin(one)).sort(order)) {
    const row = element("tr", trial.number === study.best ? { class: "best" } : {});
    for (const [name, , value] of columns) {
      if (name === "state") row.append(element("td", { class: "text" }, element("span", { class: `state ${trial.state}` }, trial.state)));
      else if (name === "reason") row.append(element("td", { class: "why" }, trial.reason));
      else row.append(element("td", {}, name === "seconds" ? duration(trial.seconds) : number(value(trial))));
    }
    body.append(row);
  }
  section.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body)));
}

function drawAll() {
  drawHistory();
  drawImportance();
  drawParallel();
  drawSlices();
  drawCourses();
  drawTrials();
}

function startTheme() {
  const root = document.documentElement;
  const asked = new URLSearchParams(location.search).get("theme");
  root.dataset.theme = asked || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });
}

startTheme();
fillHead();
fillTiles();
fillBest();
fillDiverged();
drawAll();
