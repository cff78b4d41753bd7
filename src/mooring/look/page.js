// Words, the table and the controls.
// ---- words
function slotSentence(graph, slot) {
  const parts = [`slot ${slot} of ${look.graphs[graph].name}`];
  const amount = mass(graph, slot);
  if (call().anchored) parts.push(`mass ${short(amount)} nodes as heavy as its anchor, anchor's share ${percent(share(graph, slot))}`);
  else if (amount !== null) parts.push(`log Z ${short(amount)}, no anchor`);
  parts.push(`content norm ${short(value(inside(graph).content ? "content" : "slot", graph, slot))}`);
  return parts.join(": ").replace(": content", ", content");
}
// Shares of a whole on one scale for all, with a mark where they would be if all were alike.
function bars(parent, title, rows, empty, among) {
  make(parent, "h2", {}, title);
  if (!rows.length) return make(parent, "p", {}, empty);
  make(parent, "p", {}, `0 to 100 %; the mark is an equal share, ${(100 / among).toFixed(among > 100 ? 2 : 1)} %`);
  const list = make(parent, "ol");
  for (const [name, amount] of rows.slice(0, 5)) {
    const item = make(list, "li");
    make(item, "span", {}, name);
    const bar = make(item, "span", { class: "bar" });
    make(bar, "meter", { min: 0, max: 1, value: amount, "aria-label": `${name}, ${percent(amount)}` });
    make(bar, "span", { class: "tick", "aria-hidden": "true" }).style.left = `${(100 / among).toFixed(2)}%`;
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
    const writes = ranked(amount, (m) => weight("write", graph, index, m), lightest(graph)), reads = ranked(amount, (m) => weight("read", graph, index, m));
    const about = make(details, "div");
    make(about, "h2", {}, `${nodeName(graph, index)}, ${look.graphs[graph].name}`);
    make(about, "p", {}, facts(graph, index) || "no further values in the data");
    const name = ([m, w]) => [`slot ${m}`, w];
    const none = (kind) => (inside(graph)[kind] ? `It does not ${kind}.` : `This module has no ${kind} weights.`);
    bars(make(details, "div"), "writes: its share of each slot’s content", writes.map(name), none("write"), look.graphs[graph].total);
    bars(make(details, "div"), "reads: each slot’s share of what it gets", reads.map(name), none("read"), amount);
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
    const writers = ranked(size(shown), (i) => weight("write", shown, i, index), lightest(shown));
    if (inside(shown).write) line(`written by ${short(spread(shown, index))} nodes in effect`);
    const none = inside(shown).write ? "Nobody writes to it." : "This module has no write weights.";
    bars(box, "its nodes", writers.map(([i, w]) => [nodeName(shown, i), w]), none, look.graphs[shown].total);
  }
  const heaviest = ranked(size(graph), (i) => weight("write", graph, i, index), lightest(graph)).slice(0, 3);
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

// ---- the address of the page names what is shown, so that it can be sent as a link
const ordinal = (text, count) => (/^\d+$/.test(text) && Number(text) < count ? Number(text) : null);
function address() {
  const parts = { memory: state.call, head: state.head, colour: state.mode, graphs: state.shown.join(",") };
  if (state.kept && state.active) parts[state.active.kind] = `${state.active.place},${state.active.index}`;
  return new URLSearchParams(parts).toString();
}
let written = null;
function remember() {
  const now = address();
  if (written === null || now === written) return;
  written = now;
  // A frame in a notebook has no address of its own.
  try { history.replaceState(null, "", `#${now}`); } catch { written = now; }
}
function restore() {
  const parts = new URLSearchParams(location.hash.slice(1)), get = (name) => parts.get(name) || "";
  state.call = ordinal(get("memory"), look.calls.length) ?? state.call;
  state.head = ordinal(get("head"), call().heads) ?? -1;
  if ([...by("mode").options].some((one) => one.value === get("colour"))) state.mode = get("colour");
  const shown = get("graphs").split(",").map((text) => ordinal(text, look.graphs.length));
  if (shown.length <= 2 && shown.every((one) => one !== null)) state.shown = shown;
  by("mode").value = state.mode;
  by("first").value = state.shown[0];
  by("second").value = state.shown.length > 1 ? state.shown[1] : -1;
  redraw();
  for (const [kind, count] of [["node", size], ["slot", () => call().slots]]) {
    const [place, index] = get(kind).split(",");
    const panel = panels[ordinal(place, panels.length)];
    if (!panel || ordinal(index, count(panel.graph)) === null) continue;
    choose({ place: Number(place), graph: panel.graph, kind, index: Number(index) });
    state.kept = true;
  }
  written = address();
}

// ---- controls
let panels = [];
function choose(active) {
  const before = state.active;
  if (before === active || (before && active && before.place === active.place && before.kind === active.kind && before.index === active.index)) return;
  state.active = active;
  panels.forEach((panel) => panel.paint());
  describe();
  remember();
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
  by("verdict").textContent = verdict();
  explainColours();
  describe();
  tabulate();
  remember();
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
factNames().forEach((name) => make(by("mode"), "option", { value: `${FACT}${name}` }, `their ${name}`));
by("first").parentElement.hidden = by("beside").hidden = look.graphs.length === 1;
const show = () => { const second = Number(by("second").value); state.shown = [Number(by("first").value), ...(second >= 0 ? [second] : [])]; redraw(); };
const on = (id, event, act) => by(id).addEventListener(event, act);
on("call", "change", (event) => { state.call = Number(event.target.value); redraw(); });
on("before", "click", () => { state.call -= 1; redraw(); });
on("after", "click", () => { state.call += 1; redraw(); });
on("head", "change", (event) => { state.head = Number(event.target.value); redraw(); });
on("mode", "change", (event) => { state.mode = event.target.value; explainColours(); panels.forEach((panel) => panel.paint()); remember(); });
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
restore();
addEventListener("hashchange", restore);
document.documentElement.dataset.drawn = performance.now().toFixed(0);
