// The drawing and its controls.
// ---- one graph and its slots
function Panel(graph, place) {
  const one = look.graphs[graph], count = size(graph), xs = unpack(one.x);
  const figure = make(by("panels"), "figure");
  const caption = make(figure, "figcaption");
  make(caption, "b", {}, one.name);
  caption.append(` · ${one.total.toLocaleString("en")} nodes${one.note ? ` · ${one.note}` : ""}`);
  const svg = make(figure, "svg", { role: "group", "aria-label": `${one.name} and its slots` });
  const links = make(svg, "g", { "aria-hidden": "true" });
  const list = (kind, label) => make(svg, "g", { role: "listbox", tabindex: "0", "aria-label": label, "data-kind": kind });
  const graphList = list("node", `nodes of ${one.name}`), slotList = list("slot", `slots of ${one.name}`);
  const cursor = make(svg, "circle", { class: "cursor", r: 0, "aria-hidden": "true" });
  const extent = [0, 1].map((axis) => 2 * xs.reduce((most, x, i) => (i % 2 === axis ? Math.max(most, Math.abs(x - 32767)) : most), 1));
  let nodes = [], slots = [], at = { node: [], slot: [] }, radius = 4, coloured = "", chosen = null, laid = 0;

  // Width decides: slots beside the graph, or below it.
  function arrange() {
    laid = figure.clientWidth;
    const width = Math.max(280, laid), amount = call().slots, tall = count > 500 ? 640 : 480;
    const below = width < 430, cell = { wide: 58, high: 52 };
    const columns = below ? Math.max(1, Math.floor((width - 20) / cell.wide)) : Math.ceil(amount / Math.floor(tall / cell.high));
    const side = below ? 0 : columns * cell.wide + 14, area = { wide: width - side, high: below ? width * 0.85 : tall };
    const rows = Math.ceil(amount / columns), height = below ? area.high + rows * cell.high + 10 : tall;
    const fit = Math.min((area.wide - 40) / extent[0], (area.high - 40) / extent[1]);
    at.node = Array.from({ length: count }, (_, i) => [area.wide / 2 + (xs[2 * i] - 32767) * fit, area.high / 2 + (xs[2 * i + 1] - 32767) * fit]);
    at.slot = Array.from({ length: amount }, (_, i) => {
      const column = below ? i % columns : Math.floor(i / rows), row = below ? Math.floor(i / columns) : i % rows;
      return below ? [10 + (column + 0.5) * cell.wide, area.high + (row + 0.42) * cell.high]
        : [area.wide + (column + 0.5) * cell.wide, (height - rows * cell.high) / 2 + (row + 0.42) * cell.high];
    });
    radius = one.symbols.length ? 9 : Math.max(2.2, Math.min(9, 70 / Math.sqrt(count + 1)));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    draw(area, height, below);
  }

  function draw(area, height, below) {
    clear(graphList); clear(slotList);
    coloured = "";
    chosen = null;
    make(graphList, "rect", { class: "frame", x: 3, y: 3, width: area.wide - 6, height: area.high - 6 });
    make(slotList, "rect", below ? { class: "frame", x: 3, y: area.high, width: area.wide - 6, height: height - area.high - 3 }
      : { class: "frame", x: area.wide, y: 3, width: svg.viewBox.baseVal.width - area.wide - 3, height: height - 6 });
    const ends = unpack(one.edges);
    let path = "";
    for (let i = 0; i < ends.length; i += 2) {
      const [a, b] = at.node[ends[i]], [c, d] = at.node[ends[i + 1]];
      path += `M${a.toFixed(1)} ${b.toFixed(1)}L${c.toFixed(1)} ${d.toFixed(1)}`;
    }
    make(graphList, "path", { class: "edges", d: path, "aria-hidden": "true", "stroke-opacity": Math.min(1, 40 / Math.sqrt(ends.length + 1)).toFixed(2) });
    nodes = at.node.map(([x, y], i) => make(graphList, "circle", {
      id: `p${place}n${i}`, class: "node", role: "option", "aria-selected": "false", "aria-label": nodeName(graph, i),
      cx: x.toFixed(1), cy: y.toFixed(1), r: radius }));
    one.symbols.forEach((symbol, i) => make(graphList, "text", { class: "symbol", x: at.node[i][0], y: at.node[i][1], "aria-hidden": "true" }, symbol));
    slots = at.slot.map(([x, y], i) => drawSlot(x, y, i));
    paint();
  }

  function drawSlot(x, y, slot) {
    const group = make(slotList, "g", {
      id: `p${place}s${slot}`, class: "slot", role: "option", "aria-selected": "false", "aria-label": slotSentence(graph, slot),
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
    make(group, "circle", { class: "disc", r: 16 });
    make(group, "circle", { r: 13, stroke: colour(slot) });
    const part = share(graph, slot);
    if (part !== null && part > 0.004) {
      const turn = 2 * Math.PI * Math.min(part, 0.9999);
      const end = `${(13 * Math.sin(turn)).toFixed(2)} ${(-13 * Math.cos(turn)).toFixed(2)}`;
      make(group, "path", { class: "anchor", d: `M0 -13A13 13 0 ${part > 0.5 ? 1 : 0} 1 ${end}` });
    }
    make(group, "text", { y: 4 }, slot);
    make(group, "text", { class: "mass", y: 30 }, massText(graph, slot));
    return group;
  }

  function paint() {
    const active = state.active, here = active && active.place === place, amount = call().slots;
    clear(links);
    const slot = active && active.kind === "slot" ? active.index : -1, node = here && active.kind === "node" ? active.index : -1;
    const strength = colourNodes(slot);
    graphList.classList.toggle("faded", node >= 0);
    if (chosen) { chosen.classList.remove("chosen"); chosen.setAttribute("aria-selected", "false"); }
    chosen = node >= 0 ? nodes[node] : null;
    if (chosen) { chosen.classList.add("chosen"); chosen.setAttribute("aria-selected", "true"); }
    slots.forEach((group, m) => {
      const touched = node < 0 || weight("write", graph, node, m) > 0.0005 || weight("read", graph, node, m) > 0.02;
      group.setAttribute("opacity", (slot >= 0 ? m === slot : touched) ? "1" : "0.3");
      group.setAttribute("aria-selected", String(m === slot && here));
    });
    if (node >= 0) for (const kind of ["write", "read"]) {
      ranked(amount, (m) => weight(kind, graph, node, m)).slice(0, 8).forEach(([m, w], i, all) => link(kind, node, m, w / all[0][1]));
    }
    if (here && slot >= 0) {
      ranked(count, (i) => strength[i]).slice(0, 16).forEach(([i, w], _, all) => link(state.mode, i, slot, w / all[0][1]));
    }
    const spot = here ? at[active.kind][active.index] : null;
    cursor.setAttribute("r", spot ? (active.kind === "node" ? radius + 3.5 : 18) : 0);
    if (spot) { cursor.setAttribute("cx", spot[0]); cursor.setAttribute("cy", spot[1]); }
    for (const group of [graphList, slotList]) {
      if (here && active.kind === group.dataset.kind) group.setAttribute("aria-activedescendant", `p${place}${active.kind[0]}${active.index}`);
      else group.removeAttribute("aria-activedescendant");
    }
  }

  // Every node in the colour of its heaviest slot, or all in that of one slot, as strong as their weight in it.
  function colourNodes(slot) {
    const strength = slot >= 0 ? nodes.map((_, i) => weight(state.mode, graph, i, slot)) : null;
    const now = [state.call, state.head, state.mode, slot].join();
    if (now === coloured) return strength;
    coloured = now;
    const most = strength ? strength.reduce((a, b) => Math.max(a, b), 1e-12) : 1;
    nodes.forEach((circle, i) => {
      let top = slot, least = strength ? strength[i] : 0;
      for (let m = 0; !strength && m < call().slots; m++) {
        const one = weight(state.mode, graph, i, m);
        if (one > least) [top, least] = [m, one];
      }
      circle.classList.toggle("silent", least === 0);
      circle.setAttribute("fill", least === 0 ? "none" : colour(top));
      circle.setAttribute("fill-opacity", strength ? (0.12 + 0.88 * Math.sqrt(least / most)).toFixed(2) : 1);
    });
    return strength;
  }

  function link(kind, node, slot, strength) {
    const [a, b] = at.node[node], [c, d] = at.slot[slot], bend = (kind === "write" ? -0.16 : 0.16);
    const middle = [(a + c) / 2 - (d - b) * bend, (b + d) / 2 + (c - a) * bend];
    make(links, "path", { class: `link ${kind}`, d: `M${a} ${b}Q${middle[0]} ${middle[1]} ${c} ${d}`, "stroke-width": (0.6 + 4.4 * strength).toFixed(1) });
  }

  function nearest(event) {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = null, least = 18 ** 2;
    for (const kind of ["slot", "node"]) at[kind].forEach(([a, b], index) => {
      const distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < (kind === "slot" ? 24 ** 2 : least)) { best = { place, graph, kind, index }; least = Math.min(least, distance); }
    });
    return best;
  }

  // The next one in the direction of an arrow: near, and not far off the line.
  function beside(kind, index, key) {
    const spots = at[kind], [x, y] = spots[index], [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
    let best = index, least = Infinity;
    spots.forEach(([a, b], i) => {
      const along = (a - x) * dx + (b - y) * dy, off = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (i !== index && along > 0.5 && along + 2 * off < least) { least = along + 2 * off; best = i; }
    });
    return best;
  }

  svg.addEventListener("pointermove", (event) => { if (!state.kept) choose(nearest(event)); });
  svg.addEventListener("pointerleave", () => { if (!state.kept) choose(null); });
  svg.addEventListener("click", (event) => { const found = nearest(event); state.kept = false; choose(found); state.kept = found !== null; });
  for (const group of [graphList, slotList]) {
    const kind = group.dataset.kind;
    const current = () => (state.active && state.active.place === place && state.active.kind === kind ? state.active.index : 0);
    const go = (index) => { if (at[kind].length) choose({ place, graph, kind, index }); };
    group.addEventListener("focus", () => { if (group.matches(":focus-visible")) { state.kept = false; go(current()); } });
    group.addEventListener("keydown", (event) => {
      if (event.key.startsWith("Arrow")) go(beside(kind, current(), event.key));
      else if (event.key === "Home") go(0);
      else if (event.key === "End") go(at[kind].length - 1);
      else if (event.key === "Enter" || event.key === " ") state.kept = !state.kept;
      else if (event.key === "Escape") { state.kept = false; choose(null); }
      else return;
      event.preventDefault();
    });
  }
  return { arrange, paint, graph, figure, laid: () => laid };
}

// ---- words
function slotSentence(graph, slot) {
  const parts = [`slot ${slot} of ${look.graphs[graph].name}`];
  const amount = mass(graph, slot);
  if (call().anchored) parts.push(`mass ${short(amount)} nodes as heavy as its anchor, anchor's share ${percent(share(graph, slot))}`);
  else if (amount !== null) parts.push(`log Z ${short(amount)}, no anchor`);
  parts.push(`content norm ${short(value(inside(graph).content ? "content" : "slot", graph, slot))}`);
  return parts.join(": ").replace(": content", ", content");
}
function bars(parent, title, rows, empty) {
  make(parent, "h2", {}, title);
  if (!rows.length) return make(parent, "p", {}, empty);
  const list = make(parent, "ol");
  for (const [name, amount] of rows.slice(0, 5)) {
    const item = make(list, "li");
    make(item, "span", {}, name);
    make(item, "meter", { min: 0, max: rows[0][1], value: amount, "aria-label": `${name}, ${percent(amount)}` });
    make(item, "span", {}, percent(amount));
  }
  if (rows.length > 5) make(parent, "p", {}, `and ${rows.length - 5} more`);
  return list;
}

function describe() {
  const details = by("details"), active = state.active;
  clear(details);
  by("status").textContent = "";
  by("help").hidden = active !== null;
  if (!active) return;
  const { graph, kind, index } = active, amount = call().slots;
  if (kind === "node") {
    const writes = ranked(amount, (m) => weight("write", graph, index, m)), reads = ranked(amount, (m) => weight("read", graph, index, m));
    const about = make(details, "div");
    make(about, "h2", {}, `${nodeName(graph, index)}, ${look.graphs[graph].name}`);
    make(about, "p", {}, facts(graph, index) || "no further values in the data");
    const name = ([m, w]) => [`slot ${m}`, w];
    const none = (kind) => (inside(graph)[kind] ? `It does not ${kind}.` : `This module has no ${kind} weights.`);
    bars(make(details, "div"), "writes: its share of each slot’s content", writes.map(name), none("write"));
    bars(make(details, "div"), "reads: each slot’s share of what it gets", reads.map(name), none("read"));
    const say = (verb, rows) => (rows.length ? `${verb} ${rows.slice(0, 3).map(([m, w]) => `slot ${m} ${percent(w)}`).join(", ")}` : `${verb} nothing`);
    const called = [nodeName(graph, index), facts(graph, index)].filter((part) => part).join(", ");
    by("status").textContent = `${called}: ${say("writes", writes)}; ${say("reads", reads)}.`;
    return;
  }
  for (const shown of state.shown) {
    const box = make(details, "div");
    make(box, "h2", {}, `slot ${index}, ${look.graphs[shown].name}`);
    const line = (text) => make(box, "p", {}, text);
    if (call().anchored) {
      line(`mass: ${short(mass(shown, index))} nodes as heavy as the anchor`);
      line(`anchor’s share: ${percent(share(shown, index))}`);
    } else if (mass(shown, index) !== null) line(`log Z: ${short(mass(shown, index))} (no anchor to measure it by)`);
    if (inside(shown).content) {
      const moved = shown === 0 ? "" : `; content is ${percent(value("moved", shown, index))} away from ${look.graphs[0].name}’s`;
      line(`content norm: ${short(value("content", shown, index))}${moved}`);
    }
    line(`slot as read, norm: ${short(value("slot", shown, index))}`);
    const writers = ranked(size(shown), (i) => weight("write", shown, i, index));
    if (inside(shown).write) line(`written by ${short(spread(shown, index))} nodes in effect`);
    const none = inside(shown).write ? "Nobody writes to it." : "This module has no write weights.";
    bars(box, "its nodes", writers.map(([i, w]) => [nodeName(shown, i), w]), none);
  }
  const heaviest = ranked(size(graph), (i) => weight("write", graph, i, index)).slice(0, 3);
  const listed = heaviest.map(([i, w]) => `${nodeName(graph, i)} ${percent(w)}`).join(", ");
  by("status").textContent = `${slotSentence(graph, index)}. Heaviest: ${listed || "none"}.`;
}

function tabulate() {
  const table = by("table");
  clear(table);
  const head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  make(head, "th", { scope: "col" }, "slot");
  const titles = [call().anchored ? "mass in anchors" : "log Z", "anchor’s share", "content norm", "slot norm"];
  for (const graph of state.shown) for (const name of titles) make(head, "th", { scope: "col" }, `${look.graphs[graph].name}: ${name}`);
  for (let slot = 0; slot < call().slots; slot++) {
    const row = make(body, "tr");
    make(row, "th", { scope: "row" }, slot);
    for (const graph of state.shown) {
      const norms = ["content", "slot"].map((kind) => short(value(kind, graph, slot)));
      for (const text of [short(mass(graph, slot)), percent(share(graph, slot)), ...norms]) make(row, "td", {}, text);
    }
  }
}

// ---- controls
let panels = [];
function choose(active) {
  const before = state.active;
  if (before === active || (before && active && before.place === active.place && before.kind === active.kind && before.index === active.index)) return;
  state.active = active;
  panels.forEach((panel) => panel.paint());
  describe();
}
function fill(select, names, chosen) {
  clear(select);
  names.forEach(([value, name]) => { make(select, "option", { value }, name).selected = String(value) === String(chosen); });
}
function redraw() {
  fill(by("head"), [[-1, "mean of all"], ...Array.from({ length: call().heads }, (_, head) => [head, `${head + 1}`])], Math.min(state.head, call().heads - 1));
  state.head = Number(by("head").value);
  by("head").parentElement.hidden = call().heads === 1;
  by("before").disabled = state.call === 0;
  by("after").disabled = state.call === look.calls.length - 1;
  by("call").value = state.call;
  by("means").textContent = call().anchored ? "×n below a slot: mass of n nodes as heavy as its anchor" : "below a slot: log Z";
  clear(by("panels"));
  document.querySelector("main").className = state.shown.length === 1 ? "single" : "";
  panels = state.shown.map((graph, place) => Panel(graph, place));
  panels.forEach((panel) => { panel.arrange(); watcher.observe(panel.figure); });
  // A slot that is looked at stays so in another memory or graph; a node does not.
  const { place, kind, index } = state.active || {};
  state.active = kind === "slot" && index < call().slots && place < panels.length ? { place, kind, index, graph: state.shown[place] } : null;
  panels.forEach((panel) => panel.paint());
  describe();
  tabulate();
}
const watcher = new ResizeObserver((entries) => entries.forEach((entry) => {
  const panel = panels.find((one) => one.figure === entry.target);
  // A frame that is loaded before it is seen has no width yet when it is drawn first.
  if (panel && panel.laid() !== entry.target.clientWidth) panel.arrange();
}));
const numbered = look.graphs.map((one, i) => [i, `${one.name} (${one.total.toLocaleString("en")} nodes)`]);
fill(by("call"), look.calls.map((one, i) => [i, `${i + 1} of ${look.calls.length}: ${one.name}, ${one.module}`]), 0);
fill(by("first"), numbered, 0);
fill(by("second"), [[-1, "none"], ...numbered], state.shown.length > 1 ? 1 : -1);
by("first").parentElement.hidden = by("beside").hidden = look.graphs.length === 1;
const show = () => { const second = Number(by("second").value); state.shown = [Number(by("first").value), ...(second >= 0 ? [second] : [])]; redraw(); };
const on = (id, event, act) => by(id).addEventListener(event, act);
on("call", "change", (event) => { state.call = Number(event.target.value); redraw(); });
on("before", "click", () => { state.call -= 1; redraw(); });
on("after", "click", () => { state.call += 1; redraw(); });
on("head", "change", (event) => { state.head = Number(event.target.value); redraw(); });
on("mode", "change", (event) => { state.mode = event.target.value; panels.forEach((panel) => panel.paint()); });
on("first", "change", show);
on("second", "change", show);
on("controls", "submit", (event) => event.preventDefault());
on("theme", "click", () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
by("notes").textContent = look.note;
if (look.card) {
  by("audit").hidden = false;
  const head = make(make(by("card"), "thead"), "tr"), body = make(by("card"), "tbody", { class: "words" });
  for (const name of ["finding", "verdict"]) make(head, "th", { scope: "col" }, name);
  for (const one of look.card.findings) {
    const row = make(body, "tr");
    make(row, "th", { scope: "row" }, one.name.replaceAll("_", " "));
    make(row, "td", {}, one.verdict);
  }
}
redraw();
document.documentElement.dataset.drawn = performance.now().toFixed(0);
