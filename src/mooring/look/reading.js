// What the numbers say: how many slots are in use, how sure a node is of its slot, what its own values are.
// ---- slots in use
const counted = new Map();
// e to the mean entropy of how nodes spread over the slots, nodes counting by their total; as mooring.look.measure.
function inUse(kind, graph) {
  const packed = inside(graph)[kind];
  if (!packed) return null;
  const name = [state.call, state.head, graph, kind].join();
  if (counted.has(name)) return counted.get(name);
  const values = unpack(packed), { slots, heads } = call(), chosen = state.head >= 0 ? [state.head] : Array.from({ length: heads }, (_, head) => head);
  let whole = 0, entropy = 0;
  for (let node = 0; node < size(graph); node++) for (const head of chosen) {
    let total = 0, logs = 0;
    for (let slot = 0; slot < slots; slot++) {
      const w = (values[(node * slots + slot) * heads + head] / 65535) ** 2;
      total += w;
      if (w > 0) logs += w * Math.log(w);
    }
    if (total > 0) { whole += total; entropy += total * Math.log(total) - logs; }
  }
  counted.set(name, whole > 0 ? Math.exp(Math.max(0, entropy / whole)) : null);
  return counted.get(name);
}
// The share of a node's heaviest slot above what chance would give: 0 where all slots are alike, 1 where there is one.
function confidence(graph, node) {
  const { slots } = call();
  let total = 0, most = 0, top = -1;
  for (let slot = 0; slot < slots; slot++) {
    const w = weight(routed(), graph, node, slot);
    total += w;
    if (w > most) [most, top] = [w, slot];
  }
  if (total === 0) return [-1, 0];
  return [top, slots === 1 ? 1 : Math.max(0, (most / total - 1 / slots) / (1 - 1 / slots))];
}
const routed = () => (state.mode === "read" ? "read" : "write");

// ---- the verdict
function verdict() {
  const [first, second] = state.shown, { slots } = call();
  const parts = [];
  if (slots === 1) parts.push("One slot: a virtual node with a single state");
  for (const [kind, says, alike, single] of slots === 1 ? [] : [
    ["read", "reads use", "nearly one virtual node", "every node reads one slot"],
    ["write", "writes spread over", "slots hold nearly the same", "every node writes to one slot"],
  ]) {
    const used = inUse(kind, first);
    if (used === null) continue;
    const words = used > 0.9 * slots ? `: ${alike}` : used < 1.25 ? `: ${single}` : "";
    parts.push(`${says} ${used.toFixed(1)} of ${slots} slots${words}`);
  }
  if (second !== undefined) parts.push(compared(first, second));
  const text = parts.filter((part) => part).join("; ");
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}
// Masses and contents of one graph against those of another: copies have r times the mass and the same content.
function compared(first, second) {
  const [a, b] = [first, second].map((graph) => inside(graph).log_mass), moved = inside(second).moved;
  if (first === second || !a || !b || !moved || first !== 0) return "";
  const ratios = a.flatMap((row, slot) => row.map((one, head) => (one === null || b[slot][head] === null ? NaN : Math.exp(b[slot][head] - one))));
  const known = ratios.filter((one) => Number.isFinite(one));
  if (!known.length) return "";
  const [low, high] = [Math.min(...known), Math.max(...known)], away = Math.max(...moved.flat().filter((one) => one !== null));
  const masses = high / low < 1.02 ? `masses ×${short(Math.sqrt(low * high))}` : `masses ×${short(low)} to ×${short(high)}`;
  return `${look.graphs[second].name}: ${masses}, ${away < 0.01 ? "content unchanged" : `content up to ${percent(away)} away`}`;
}

// ---- a node's own values
const FACT = "fact:";
const factName = () => (state.mode.startsWith(FACT) ? state.mode.slice(FACT.length) : null);
const factNames = () => [...new Set(look.graphs.flatMap((one) => Object.keys(one.facts)))];
const FEW = 12;
// How the values of a fact are coloured, the same in every graph: few of them one by one, many numbers on a scale.
function palette(name) {
  const values = look.graphs.flatMap((one) => one.facts[name] || []), kinds = [...new Set(values)];
  const numbers = kinds.filter((one) => typeof one === "number");
  if (kinds.length <= FEW || numbers.length < kinds.length) {
    kinds.sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
    return { of: (one) => colour(kinds.indexOf(one)), key: kinds.slice(0, FEW).map((one) => [colour(kinds.indexOf(one)), String(one)]), more: kinds.length - FEW };
  }
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const scale = (part) => `hsl(${(250 - 190 * part).toFixed(0)} 65% calc(var(--light) + ${(30 * part - 14).toFixed(0)}%))`;
  return { of: (one) => scale((one - low) / (high - low)), key: [0, 0.5, 1].map((part) => [scale(part), short(low + part * (high - low))]), more: 0 };
}
function explainColours() {
  const key = by("key"), name = factName();
  clear(key);
  if (name === null) {
    key.append("full colour: all of a node goes to one slot; grey: to all slots alike");
    return;
  }
  const { key: entries, more } = palette(name);
  key.append(`${name}: `);
  for (const [fill, text] of entries) {
    const swatch = make(key, "svg", { width: 11, height: 11, class: "swatch", "aria-hidden": "true" });
    make(swatch, "rect", { width: 11, height: 11, rx: 3, fill });
    key.append(`${text} `);
  }
  if (more > 0) key.append(`and ${more} more`);
}

// ---- pictures
const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight", "text-anchor", "dominant-baseline", "paint-order"];
// The drawing as a file of its own: what the page's style says stands in every element.
function standalone(svg) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((one, i) => {
    const style = getComputedStyle(one);
    for (const name of LOOKS) to[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "role", "tabindex", "aria-activedescendant"]) to[i].removeAttribute(name);
  });
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = document.createElementNS(SVG, "rect");
  for (const [name, one] of Object.entries({ width, height, fill: getComputedStyle(svg.parentElement).backgroundColor })) ground.setAttribute(name, one);
  copy.prepend(ground);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}
function save(svg, name, kind) {
  const { text, width, height } = standalone(svg);
  const offer = (blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  if (kind === "svg") return offer(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image(), canvas = document.createElement("canvas");
  image.onload = () => {
    canvas.width = 2 * width;
    canvas.height = 2 * height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(offer, "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  return undefined;
}
