// What was recorded, as numbers and as words. Joined with reading.js, panel.js and page.js into one strict script.
const look = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const state = { call: 0, head: -1, mode: "write", shown: look.graphs.length > 1 ? [0, 1] : [0], active: null, kept: false };
const SVG = "http://www.w3.org/2000/svg";

// Elements are made one by one and text is only ever set as text.
function make(parent, name, attributes = {}, text = null) {
  const inSvg = name === "svg" || parent.namespaceURI === SVG;
  const element = inSvg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return parent.appendChild(element);
}
const clear = (element) => element.replaceChildren();

// ---- numbers
const unpacked = new Map();
function unpack(text) {
  if (!unpacked.has(text)) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    unpacked.set(text, Uint16Array.from({ length: bytes.length / 2 }, (_, i) => bytes[2 * i] + 256 * bytes[2 * i + 1]));
  }
  return unpacked.get(text);
}
const call = () => look.calls[state.call];
const inside = (graph) => call().graphs[graph];
const size = (graph) => unpack(look.graphs[graph].x).length / 2;
const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;

function weight(kind, graph, node, slot) {
  const packed = inside(graph)[kind];
  if (!packed) return 0;
  const values = unpack(packed), heads = call().heads, at = (node * call().slots + slot) * heads;
  const one = (head) => (values[at + head] / 65535) ** 2;
  if (state.head >= 0) return one(state.head);
  let sum = 0;
  for (let head = 0; head < heads; head++) sum += one(head);
  return sum / heads;
}
// A value of a slot in the chosen head, or its mean over the heads; null where a module has no such value.
function value(kind, graph, slot, map = (one) => one) {
  const rows = inside(graph)[kind];
  if (!rows) return null;
  const row = state.head >= 0 && rows[slot].length > 1 ? [rows[slot][state.head]] : rows[slot];
  return mean(row.map(map));
}
const share = (graph, slot) => value("anchor", graph, slot);
// Mass in units of the anchor, (1 - a) / a nodes as heavy as it, as a geometric mean over the heads: r copies of a
// graph have r times as much. Without an anchor there is only log Z.
const mass = (graph, slot) => call().anchored
  ? Math.exp(value("anchor", graph, slot, (a) => Math.log1p(-a) - Math.log(a)))
  : value("log_mass", graph, slot, (one) => (one === null ? -Infinity : one));
function spread(graph, slot) {
  let entropy = 0;
  for (let node = 0; node < size(graph); node++) {
    const w = weight("write", graph, node, slot);
    if (w > 0) entropy -= w * Math.log(w);
  }
  return Math.exp(entropy);
}
function short(number) {
  if (number === null || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return number.toExponential(1);
  return size >= 100 ? number.toFixed(0) : size >= 10 ? number.toFixed(1) : number.toFixed(2);
}
const percent = (number) => {
  if (number === null) return "–";
  return `${number > 5e-6 && number < 0.0005 ? Number((100 * number).toPrecision(1)) : (100 * number).toFixed(number < 0.0995 ? 1 : 0)} %`;
};
const massText = (graph, slot) => (call().anchored ? `×${short(mass(graph, slot))}` : short(mass(graph, slot)));
function hue(slot) {
  const wheel = (slot * 137.508 + 205) % 300;
  return wheel < 250 ? wheel : wheel + 60;  // the anchor's purple is left out
}
// A slot's colour as far as a node is sure of it, and grey for the rest.
const mixed = (slot, sure) => `color-mix(in oklab, ${colour(slot)} ${(100 * sure).toFixed(0)}%, var(--blank))`;
// A circle; other types of nodes are squares, diamonds and triangles.
function outline(kind, x, y, r) {
  const at = (dx, dy) => `${(x + r * dx).toFixed(1)} ${(y + r * dy).toFixed(1)}`;
  if (kind % 4 === 1) return `M${at(-0.9, -0.9)}L${at(0.9, -0.9)}L${at(0.9, 0.9)}L${at(-0.9, 0.9)}Z`;
  if (kind % 4 === 2) return `M${at(0, -1.25)}L${at(1.25, 0)}L${at(0, 1.25)}L${at(-1.25, 0)}Z`;
  if (kind % 4 === 3) return `M${at(0, -1.2)}L${at(1.1, 0.85)}L${at(-1.1, 0.85)}Z`;
  return `M${at(-1, 0)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
}
const colour = (slot) => `hsl(${hue(slot).toFixed(0)} 62% var(--light))`;
const nodeName = (graph, node) => {
  const { ids, symbols } = look.graphs[graph];
  return `${symbols.length ? symbols[node] : "node"} ${ids ? ids[node] : node}`;
};
const facts = (graph, node) => Object.entries(look.graphs[graph].facts).map(([name, values]) => `${name} ${values[node]}`).join(", ");
// Of ten thousand nodes each writes little to a slot, but it writes.
const lightest = (graph) => Math.min(0.0005, 0.05 / look.graphs[graph].total);
function ranked(count, score, least = 0.0005) {
  return Array.from({ length: count }, (_, i) => [i, score(i)]).filter((pair) => pair[1] > least).sort((a, b) => b[1] - a[1]);
}
