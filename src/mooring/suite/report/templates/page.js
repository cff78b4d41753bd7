// Tables that sort and unfold, curves that hide and tell their values, light or dark. The page is whole without it.
const SVG = "http://www.w3.org/2000/svg";

// Elements are made one by one and text is only ever set as text.
function make(parent, name, attributes = {}, text = null) {
  const inSvg = name === "svg" || parent.namespaceURI === SVG;
  const element = inSvg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return parent.appendChild(element);
}

// ---- tables
const ROWS = 12;
const ABSENT = "–";
// The first number of a cell, as in "21.6 ± 8.5", "1,024" or "+0.3"; cells of words are compared as words.
function number(text) {
  const found = text.replaceAll(",", "").replaceAll("−", "-").match(/^[^\w.+-]*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)/i);
  return found ? Number(found[1]) : NaN;
}
function sorted(rows, column, down) {
  const cells = rows.map((row) => row.cells[column].textContent.trim());
  const numbers = cells.map(number), filled = cells.map((cell) => cell !== ABSENT && cell !== "");
  const numeric = numbers.some((value, i) => filled[i] && !Number.isNaN(value)) && numbers.filter((value, i) => filled[i] && Number.isNaN(value)).length * 2 < rows.length;
  const order = rows.map((_, i) => i);
  order.sort((a, b) => {
    const last = [a, b].map((i) => (!filled[i] || (numeric && Number.isNaN(numbers[i])) ? 1 : 0));
    if (last[0] !== last[1] || last[0]) return last[0] - last[1];  // what has no value stays at the end
    const by = numeric ? numbers[a] - numbers[b] : cells[a].localeCompare(cells[b], "en", { numeric: true });
    return down ? -by : by;
  });
  return order.map((i) => rows[i]);
}
function sortable(table) {
  const body = table.tBodies[0], given = [...body.rows], heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  if (given.length < 2) return;
  heads.forEach((head, column) => {
    const title = head.textContent;
    head.textContent = "";
    const button = make(head, "button", { type: "button", title: "Sort by this column" }, title);
    button.addEventListener("click", () => {
      // A column of numbers first shows its largest, one of words its first; a third click gives the order of the page.
      const first = head.classList.contains("left") ? "ascending" : "descending", other = first === "ascending" ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort"), next = now === null ? first : now === first ? other : null;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      if (next) head.setAttribute("aria-sort", next);
      body.append(...(next ? sorted(given, column, next === "descending") : given));
    });
  });
}
function foldable(table) {
  const count = table.tBodies[0].rows.length;
  if (count <= ROWS + 3) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "more";
  const show = (all) => {
    table.classList.toggle("folded", !all);
    button.textContent = all ? `Show ${ROWS} rows` : `Show all ${count} rows`;
    button.setAttribute("aria-expanded", String(all));
  };
  button.addEventListener("click", () => show(table.classList.contains("folded")));
  table.closest(".scroll").after(button);
  show(false);
}

// ---- curves
const short = (value) => (Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4))));
function placed(value, [low, high, log], from, to) {
  const [a, b, c] = log ? [value, low, high].map(Math.log) : [value, low, high];
  return from + ((a - b) / (c - b)) * (to - from);
}
function charted(figure) {
  const source = figure.querySelector("script[type='application/json']");
  if (!source) return;
  const panels = JSON.parse(source.textContent), drawings = [...figure.querySelectorAll("svg")];
  const hidden = new Set(), inks = new Map();
  for (const panel of panels) for (const chart of panel) for (const curve of chart.curves) {
    const known = inks.get(curve.name);
    inks.set(curve.name, known === undefined || known === curve.ink ? curve.ink : null);
  }
  if (inks.size > 1) toggles(figure, inks, hidden);
  panels.forEach((charts, i) => readable(drawings[i], charts.filter((chart) => chart.curves.length), hidden));
}
function toggles(figure, inks, hidden) {
  const group = document.createElement("div");
  group.className = "toggles";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Curves that are shown");
  figure.querySelector(".panels").before(group);
  const paint = () => figure.querySelectorAll("[data-curve]").forEach((part) => part.classList.toggle("off", hidden.has(part.dataset.curve)));
  for (const [name, ink] of inks) {
    const button = make(group, "button", { type: "button", "aria-pressed": "true" });
    const swatch = make(button, "svg", { viewBox: "0 0 14 4", width: 14, height: 4, "aria-hidden": "true" });
    make(swatch, "rect", { width: 14, height: 4, fill: ink || "currentColor" });
    button.append(name);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      paint();
    });
  }
}
const tip = make(document.body, "div", { id: "tip", hidden: "" });
const said = make(document.body, "p", { id: "said", role: "status", "aria-live": "polite" });
function readable(svg, charts, hidden) {
  if (!charts.length) return;
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-roledescription", "chart; left and right arrow keys read its values");
  const line = make(svg, "line", { class: "at", "aria-hidden": "true" });
  let current = null;
  const stops = (chart) => [...new Set(chart.curves.filter((curve) => !hidden.has(curve.name)).flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const across = (chart, x) => placed(x, chart.x, chart.frame[0], chart.frame[2]);
  function show(chart, x, aloud) {
    current = { chart, x };
    const [, top, , bottom] = chart.frame, at = across(chart, x);
    for (const [key, value] of Object.entries({ x1: at, x2: at, y1: top, y2: bottom })) line.setAttribute(key, value);
    line.classList.add("on");
    const rows = chart.curves.filter((curve) => !hidden.has(curve.name) && curve.x.includes(x))
      .map((curve) => [curve, curve.y[curve.x.indexOf(x)]]).sort((a, b) => b[1] - a[1]);
    tip.replaceChildren();
    make(tip, "b", {}, `${chart.label || "x"} ${short(x)}`);
    const list = make(tip, "ul");
    for (const [curve, y] of rows) {
      const item = make(list, "li");
      const swatch = make(item, "svg", { viewBox: "0 0 10 10", width: 10, height: 10, "aria-hidden": "true" });
      make(swatch, "rect", { width: 10, height: 10, fill: curve.ink });
      make(item, "span", {}, curve.name);
      make(item, "span", {}, short(y));
    }
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width, room = tip.getBoundingClientRect();
    const wanted = box.left + at * scale + 14, fits = wanted + room.width < document.documentElement.clientWidth - 8;
    const left = fits ? wanted : Math.max(8, box.left + at * scale - room.width - 14);
    tip.style.left = `${left + scrollX}px`;
    // On a narrow screen it would cover the curves, so it stands below them.
    const narrow = document.documentElement.clientWidth < 640;
    tip.style.top = `${Math.max(scrollY + 4, (narrow ? box.bottom : box.top + top * scale) + scrollY)}px`;
    if (aloud) said.textContent = `${chart.label} ${short(x)}: ${rows.map(([curve, y]) => `${curve.name} ${short(y)}`).join(", ")}`;
  }
  function hide() {
    current = null;
    tip.hidden = true;
    line.classList.remove("on");
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    const chart = charts.find(({ frame }) => x >= frame[0] - 6 && x <= frame[2] + 6 && y >= frame[1] - 6 && y <= frame[3] + 6);
    const places = chart ? stops(chart) : [];
    if (!places.length) return hide();
    const near = places.reduce((best, one) => (Math.abs(across(chart, one) - x) < Math.abs(across(chart, best) - x) ? one : best));
    if (!current || current.chart !== chart || current.x !== near) show(chart, near, false);
    return undefined;
  });
  svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) hide(); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") hide();
    if (step === undefined) return;
    event.preventDefault();
    const all = charts.flatMap((chart) => stops(chart).map((x) => [chart, x]));
    if (!all.length) return;
    const now = current ? all.findIndex(([chart, x]) => chart === current.chart && x === current.x) : -1;
    const next = Math.min(all.length - 1, Math.max(0, now < 0 && step < 0 ? 0 : now + step));
    show(...all[next], true);
  });
}

document.querySelectorAll("table").forEach((table) => { sortable(table); foldable(table); });
document.querySelectorAll("figure").forEach(charted);
const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
// The place in the page, beside its contents.
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (entry.isIntersecting) links.forEach((link, name) => (name === entry.target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
}), { rootMargin: "-20% 0px -75% 0px" });
document.querySelectorAll("main > section[id]").forEach((section) => watcher.observe(section));
