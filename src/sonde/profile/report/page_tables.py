"""The tables of the report's page: they sort, filter and never leave the page."""

TABLES = r"""
function table(id, rows, columns, options) {
  const box = $(id);
  if (!rows.length) { box.append(el("p", { class: "dim", text: "nothing here" })); return; }
  let sorted = options.sort, down = true, words = [];
  const search = el("input", { type: "search", placeholder: "filter", "aria-label": "filter" });
  const count = el("span", { class: "dim" });
  const head = el("tr", {}), body = el("tbody", {});
  columns.forEach((column, index) => {
    head.append(el("th", { class: column.number ? "n" : "", text: column.name,
      title: column.help || "", onclick: () => {
        down = sorted === index ? !down : Boolean(column.number);
        sorted = index;
        draw();
      } }));
  });
  search.addEventListener("input", () => {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    draw();
  });
  const text = new Map(rows.map((row) => [row, columns.map((column) =>
    String(column.plain ? column.plain(row) : column.value(row))).join(" ").toLowerCase()]));
  function draw() {
    const key = columns[sorted].value;
    const chosen = rows.filter((row) => words.every((word) => text.get(row).includes(word)));
    chosen.sort((a, b) => {
      const x = key(a) ?? -Infinity, y = key(b) ?? -Infinity;
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    [...head.children].forEach((cell, index) => {
      cell.classList.toggle("down", index === sorted && down);
      cell.classList.toggle("up", index === sorted && !down);
    });
    body.replaceChildren(...chosen.slice(0, 500).map((row) => el("tr", {},
      ...columns.map((column) => {
        const shown = column.show ? column.show(row) : column.value(row);
        const cell = el("td", { class: column.number ? "n" : column.wrap ? "wrap" : "" });
        if (shown instanceof Node) cell.append(shown); else cell.textContent = shown ?? "";
        return cell;
      }))));
    count.textContent = chosen.length + " of " + rows.length +
      (chosen.length > 500 ? ", the first 500 shown" : "");
  }
  box.append(el("div", { class: "tools" }, search, count),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), body)));
  draw();
}

const number = (name, value, show, help) => ({ name, number: true, value, help,
  show: (row) => (value(row) === null || value(row) === undefined ? "" : show(value(row))) });
function placeCell(place) {
  if (!place) return "";
  const cell = el("span", { class: "mono", text: where(place),
    title: place.file + ":" + place.line + "\n" + place.code });
  if (place.code) cell.append(el("span", { class: "code", text: place.code }));
  return cell;
}
const dotted = (scope) => scope.split("/").slice(1).map((part) => part.split("-")[0]).join(".");
const placeText = (place) => (place ? `${place.file}:${place.line} ${place.code}` : "");

function drawTables() {
  table("tried", P.tried, [
    { name: "variant", value: (r) => r.name },
    { name: "what it brought", value: (r) => r.verdict },
    number("before", (r) => r.before, time), number("after", (r) => r.after, time),
    number("faster by", (r) => (r.before && r.after ? r.before / r.after : null),
      (v) => v.toFixed(2) + " x"),
    number("loss apart", (r) => r.loss_difference, percent),
    { name: "where", value: (r) => where(r.place), show: (r) => placeCell(r.place) },
    { name: "note", value: (r) => r.note, wrap: true },
  ], { sort: 4 });
  if (!P.tried.length) $("triedsection").remove();
  table("ops", P.ops, [
    { name: "op", value: (r) => r.op, wrap: true }, { name: "phase", value: (r) => r.phase },
    number("own time", (r) => r.seconds, time, "a step's time in this op, without Python"),
    number("share", (r) => r.seconds / total, percent),
    number("Python", (r) => r.python_seconds, time, "the time between the op before and this one"),
    number("calls", (r) => r.calls, (v) => (v % 1 ? v.toFixed(1) : v.toFixed(0))),
    number("FLOP", (r) => r.flops, rate), number("bytes", (r) => r.nbytes, size),
    number("of machine", (r) => r.share_of_machine, (v) => percent(Math.min(v, 9.99)),
      "the time this machine needs for the FLOP or the bytes, over the own time"),
    { name: "shapes", value: (r) => r.shapes, wrap: true },
    { name: "module", value: (r) => dotted(r.module), wrap: true },
    { name: "line", value: (r) => where(r.place), plain: (r) => placeText(r.place),
      show: (r) => placeCell(r.place) },
  ], { sort: 2 });
  const modules = [];
  (function walk(node, path) {
    const name = path ? path + "." + node.name : node.name;
    modules.push({ ...node, path: name });
    for (const child of node.children) walk(child, path === null ? "" : name);
  })({ ...P.modules, name: "step" }, null);
  for (const row of modules) {
    row.memory = 0;
    row.path = row.path.replace(/^step\.?/, "") || row.name;
  }
  const held = Object.entries(P.memory ? P.memory.modules : {}).map(([scope, bytes]) =>
    [dotted(scope), bytes]);
  for (const row of modules) {
    row.memory = held.reduce((sum, [scope, bytes]) => sum + (row.name === "step" ||
      scope === row.path || scope.startsWith(row.path + ".") ? bytes : 0), 0);
  }
  table("modules", modules, [
    { name: "module", value: (r) => r.path, wrap: true }, { name: "kind", value: (r) => r.kind },
    number("time", (r) => r.forward + r.backward, time),
    number("share", (r) => (r.forward + r.backward) / total, percent),
    number("forward", (r) => r.forward, time), number("backward", (r) => r.backward, time),
    number("itself", (r) => r.own, time, "without the modules inside it"),
    ...(P.memory ? [number("memory at the peak", (r) => r.memory, size)] : []),
  ], { sort: 2 });
  table("lines", P.lines, [
    { name: "line", value: (r) => where(r.place), plain: (r) => placeText(r.place),
      show: (r) => placeCell(r.place) },
    { name: "function", value: (r) => r.place.function },
    number("time", (r) => r.forward + r.backward + r.optimizer + r.other, time),
    number("share", (r) => (r.forward + r.backward + r.optimizer + r.other) / total, percent),
    number("forward", (r) => r.forward, time), number("backward", (r) => r.backward, time),
    number("optimizer", (r) => r.optimizer, time),
    number("other", (r) => r.other, time, "loading data, and Python while no op runs"),
    number("ops", (r) => r.calls, (v) => v.toFixed(0)),
  ], { sort: 2 });
}

drawHead(); drawParts(); drawFindings(); drawSteps(); drawTimeline(); drawFlame(); drawMemory();
drawTables();
"""
