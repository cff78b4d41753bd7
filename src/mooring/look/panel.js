// One graph and its slots: the drawing, its zoom, and what is pointed at.
function Panel(graph, place) {
  const one = look.graphs[graph], count = size(graph), xs = unpack(one.x);
  const figure = make(by("panels"), "figure");
  const caption = make(figure, "figcaption");
  const about = make(caption, "span");
  make(about, "b", {}, one.name);
  about.append(` · ${one.total.toLocaleString("en")} nodes${one.note ? ` · ${one.note}` : ""}`);
  const tools = make(caption, "span", { class: "tools" });
  const svg = make(figure, "svg", { role: "group", "aria-label": `${one.name} and its slots` });
  const links = make(svg, "g", { "aria-hidden": "true" });
  const list = (kind, label) => make(svg, "g", { role: "listbox", tabindex: "0", "aria-label": label, "data-kind": kind });
  const graphList = list("node", `nodes of ${one.name}`), slotList = list("slot", `slots of ${one.name}`);
  const cursor = make(svg, "circle", { class: "cursor", r: 0, "aria-hidden": "true" });
  const extent = [0, 1].map((axis) => 2 * xs.reduce((most, x, i) => (i % 2 === axis ? Math.max(most, Math.abs(x - 32767)) : most), 1));
  const hole = make(make(svg, "clipPath", { id: `p${place}hole` }), "rect");
  const kinds = one.facts.type ? [...new Set(look.graphs.flatMap((other) => other.facts.type || []))] : [];
  let nodes = [], symbols = [], slots = [], at = { node: [], slot: [] }, radius = 4, least = 4, coloured = "", chosen = null, laid = 0;
  let home = [], room = { wide: 1, high: 1 }, edges = null, view = { zoom: 1, x: 0, y: 0 };

  // Width decides: slots beside the graph, or below it.
  function arrange() {
    laid = figure.clientWidth;
    const width = Math.max(280, laid), amount = call().slots, tall = count > 500 ? 640 : 480;
    const below = width < 430, cell = { wide: 58, high: 52 };
    const columns = below ? Math.max(1, Math.floor((width - 20) / cell.wide)) : Math.ceil(amount / Math.floor(tall / cell.high));
    const side = below ? 0 : columns * cell.wide + 14, area = { wide: width - side, high: below ? width * 0.85 : tall };
    const rows = Math.ceil(amount / columns), height = below ? area.high + rows * cell.high + 10 : tall;
    const fit = Math.min((area.wide - 40) / extent[0], (area.high - 40) / extent[1]);
    home = Array.from({ length: count }, (_, i) => [(xs[2 * i] - 32767) * fit, (xs[2 * i + 1] - 32767) * fit]);
    room = area;
    at.slot = Array.from({ length: amount }, (_, i) => {
      const column = below ? i % columns : Math.floor(i / rows), row = below ? Math.floor(i / columns) : i % rows;
      return below ? [10 + (column + 0.5) * cell.wide, area.high + (row + 0.42) * cell.high]
        : [area.wide + (column + 0.5) * cell.wide, (height - rows * cell.high) / 2 + (row + 0.42) * cell.high];
    });
    least = one.symbols.length ? 9 : Math.max(2.2, Math.min(9, 70 / Math.sqrt(count + 1)));
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
    for (const [name, length] of [["width", area.wide], ["height", area.high]]) hole.setAttribute(name, length);
    // Many edges are a hairball: the more there are, the fainter each.
    const faint = Math.max(0.12, Math.min(1, 14 / Math.sqrt(unpack(one.edges).length / 2 + 1)));
    const shown = make(graphList, "g", { "clip-path": `url(#p${place}hole)`, role: "presentation" });
    edges = ["edges", "edges aromatic"].map((name) => make(shown, "path", { class: name, "aria-hidden": "true", "stroke-opacity": faint.toFixed(2) }));
    nodes = home.map((_, i) => make(shown, "path", {
      id: `p${place}n${i}`, class: "node", role: "option", "aria-selected": "false", "aria-label": nodeName(graph, i) }));
    symbols = one.symbols.map((symbol) => make(shown, "text", { class: "symbol", "aria-hidden": "true" }, symbol));
    slots = at.slot.map(([x, y], i) => drawSlot(x, y, i));
    settle();
  }

  // ---- where nodes are, at the present zoom; they grow less than their distances
  function settle() {
    const { zoom, x, y } = view, middle = [room.wide / 2 + x, room.high / 2 + y];
    at.node = home.map(([a, b]) => [middle[0] + zoom * a, middle[1] + zoom * b]);
    const ends = unpack(one.edges), paths = ["", ""];
    for (let i = 0; i < ends.length; i += 2) {
      const [a, b] = at.node[ends[i]], [c, d] = at.node[ends[i + 1]], order = one.orders[i / 2] || 1;
      // What lies beyond one side of a zoomed drawing is not written out: it is most of a large graph.
      if (Math.max(a, c) < 0 || Math.max(b, d) < 0 || Math.min(a, c) > room.wide || Math.min(b, d) > room.high) continue;
      // As many lines as the order of the bond; the second one of an aromatic bond is dashed.
      const lines = Math.ceil(order), gap = 4 / Math.max(1, Math.hypot(c - a, d - b)), dashed = lines > order ? 1 : 0;
      for (let line = 0; line < lines; line++) {
        const off = (line - (lines - 1) / 2) * gap, [x, y] = [off * (b - d), off * (c - a)];
        paths[line === 0 ? 0 : dashed] += `M${(a + x).toFixed(1)} ${(b + y).toFixed(1)}L${(c + x).toFixed(1)} ${(d + y).toFixed(1)}`;
      }
    }
    edges.forEach((element, i) => element.setAttribute("d", paths[i]));
    radius = Math.max(least, Math.min(9, least * zoom ** 0.4));
    const near = ([x, y]) => x > -radius && y > -radius && x < room.wide + radius && y < room.high + radius;
    nodes.forEach((node, i) => {
      if (near(at.node[i])) node.setAttribute("d", outline(kinds.length ? kinds.indexOf(one.facts.type[i]) : 0, ...at.node[i], radius));
      else if (node.getAttribute("d")) node.setAttribute("d", "");
    });
    symbols.forEach((symbol, i) => { symbol.setAttribute("x", at.node[i][0].toFixed(1)); symbol.setAttribute("y", at.node[i][1].toFixed(1)); });
    figure.classList.toggle("zoomed", zoom > 1);
    paint();
  }
  const visible = ([x, y]) => x >= 0 && y >= 0 && x <= room.wide && y <= room.high;
  // Towards a place of the drawing, which stays where it is.
  function zoomBy(factor, [x, y] = [room.wide / 2, room.high / 2]) {
    const zoom = Math.max(1, Math.min(40, view.zoom * factor)), by = zoom / view.zoom;
    const [dx, dy] = [x - room.wide / 2, y - room.high / 2];
    moveTo({ zoom, x: dx - by * (dx - view.x), y: dy - by * (dy - view.y) });
  }
  function moveTo({ zoom, x, y }) {
    const far = [(zoom - 1) * room.wide / 2, (zoom - 1) * room.high / 2];
    view = { zoom, x: Math.max(-far[0], Math.min(far[0], x)), y: Math.max(-far[1], Math.min(far[1], y)) };
    settle();
  }
  function pointed(event) {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
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
      const touched = node < 0 || weight("write", graph, node, m) > lightest(graph) || weight("read", graph, node, m) > 0.02;
      group.setAttribute("opacity", (slot >= 0 ? m === slot : touched) ? "1" : "0.3");
      group.setAttribute("aria-selected", String(m === slot && here));
    });
    if (node >= 0) for (const kind of ["write", "read"]) {
      ranked(amount, (m) => weight(kind, graph, node, m), lightest(graph)).slice(0, 8).forEach(([m, w]) => link(kind, node, m, w));
    }
    if (here && slot >= 0) {
      ranked(count, (i) => strength[i], lightest(graph)).slice(0, 16).forEach(([i, w]) => link(routed(), i, slot, w));
    }
    const spot = here && (active.kind === "slot" || visible(at.node[active.index])) ? at[active.kind][active.index] : null;
    cursor.setAttribute("r", spot ? (active.kind === "node" ? radius + 3.5 : 18) : 0);
    if (spot) { cursor.setAttribute("cx", spot[0]); cursor.setAttribute("cy", spot[1]); }
    for (const group of [graphList, slotList]) {
      if (here && active.kind === group.dataset.kind) group.setAttribute("aria-activedescendant", `p${place}${active.kind[0]}${active.index}`);
      else group.removeAttribute("aria-activedescendant");
    }
  }

  // Every node in the colour of its heaviest slot, as strong as the slot is above chance; or all in that of one slot, as
  // strong as their weight in it; or by a value of its own.
  function colourNodes(slot) {
    const strength = slot >= 0 ? nodes.map((_, i) => weight(routed(), graph, i, slot)) : null;
    const now = [state.call, state.head, state.mode, slot].join();
    if (now === coloured) return strength;
    coloured = now;
    const most = strength ? strength.reduce((a, b) => Math.max(a, b), 1e-12) : 1;
    const name = strength ? null : factName(), colours = name === null ? null : palette(name);
    nodes.forEach((node, i) => {
      const [top, sure] = strength ? [slot, 1] : colours ? [0, 1] : confidence(graph, i);
      const silent = strength ? strength[i] === 0 : colours ? !one.facts[name] : top < 0;
      node.classList.toggle("silent", silent);
      node.setAttribute("fill", silent ? "none" : colours ? colours.of(one.facts[name][i]) : mixed(top, sure));
      node.setAttribute("fill-opacity", strength ? (0.12 + 0.88 * Math.sqrt(strength[i] / most)).toFixed(2) : 1);
    });
    return strength;
  }

  // As wide as the share is large, so that equal shares are thin lines.
  function link(kind, node, slot, part) {
    if (!visible(at.node[node])) return;
    const [a, b] = at.node[node], [c, d] = at.slot[slot], bend = (kind === "write" ? -0.16 : 0.16);
    const middle = [(a + c) / 2 - (d - b) * bend, (b + d) / 2 + (c - a) * bend];
    make(links, "path", { class: `link ${kind}`, d: `M${a} ${b}Q${middle[0]} ${middle[1]} ${c} ${d}`, "stroke-width": (0.7 + 6 * part).toFixed(1) });
  }

  function nearest(event) {
    const [x, y] = pointed(event);
    let best = null, least = 18 ** 2;
    for (const kind of ["slot", "node"]) at[kind].forEach(([a, b], index) => {
      if (kind === "node" && !visible([a, b])) return;
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

  // A drag moves the drawing, and is no click.
  let grabbed = null, dragged = false;
  svg.addEventListener("pointerdown", (event) => { dragged = false; grabbed = view.zoom > 1 && visible(pointed(event)) ? { from: pointed(event), view } : null; });
  svg.addEventListener("pointermove", (event) => {
    if (grabbed && event.buttons) {
      const [x, y] = pointed(event), [dx, dy] = [x - grabbed.from[0], y - grabbed.from[1]];
      dragged = dragged || Math.hypot(dx, dy) > 4;
      if (dragged) moveTo({ zoom: view.zoom, x: grabbed.view.x + dx, y: grabbed.view.y + dy });
    } else if (!state.kept) choose(nearest(event));
  });
  svg.addEventListener("pointerleave", () => { grabbed = null; if (!state.kept) choose(null); });
  svg.addEventListener("click", (event) => { if (dragged) return; const found = nearest(event); state.kept = false; choose(found); state.kept = found !== null; remember(); });
  svg.addEventListener("dblclick", (event) => { if (visible(pointed(event))) zoomBy(2, pointed(event)); });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomBy(Math.exp(-0.004 * event.deltaY), pointed(event));
  }, { passive: false });
  for (const [text, label, act] of [
    ["+", "Zoom in", () => zoomBy(1.6)], ["−", "Zoom out", () => zoomBy(1 / 1.6)], ["⟲", "Whole graph", () => moveTo({ zoom: 1, x: 0, y: 0 })],
    ["PNG", "Save as PNG", () => save(svg, one.name, "png")], ["SVG", "Save as SVG", () => save(svg, one.name, "svg")],
  ]) make(tools, "button", { type: "button", "aria-label": `${label}, ${one.name}`, title: label }, text).addEventListener("click", act);
  for (const group of [graphList, slotList]) {
    const kind = group.dataset.kind;
    const current = () => (state.active && state.active.place === place && state.active.kind === kind ? state.active.index : 0);
    const go = (index) => { if (at[kind].length) choose({ place, graph, kind, index }); };
    group.addEventListener("focus", () => { if (group.matches(":focus-visible")) { state.kept = false; go(current()); } });
    group.addEventListener("keydown", (event) => {
      if (event.key.startsWith("Arrow")) go(beside(kind, current(), event.key));
      else if (event.key === "Home") go(0);
      else if (event.key === "End") go(at[kind].length - 1);
      else if (kind === "node" && "+=-0".includes(event.key)) {
        if (event.key === "0") moveTo({ zoom: 1, x: 0, y: 0 });
        else zoomBy(event.key === "-" ? 1 / 1.6 : 1.6, at.node[current()]);
      } else if (event.key === "Enter" || event.key === " ") { state.kept = !state.kept; remember(); }
      else if (event.key === "Escape") { state.kept = false; choose(null); }
      else return;
      event.preventDefault();
    });
  }
  return { arrange, paint, graph, figure, laid: () => laid };
}
