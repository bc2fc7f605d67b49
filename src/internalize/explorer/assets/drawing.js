/* Drawing: elements, grids on a canvas, curves, state diagrams and arcs. Texts are set as text, never as HTML. */
"use strict";

const Drawing = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  /** An HTML element. Attributes: `on…` are listeners, `class` and all others are set as they are. */
  function h(tag, attributes = {}, ...children) { return fill(document.createElement(tag), attributes, children); }

  function s(tag, attributes = {}, ...children) { return fill(document.createElementNS(SVG, tag), attributes, children); }

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const percent = (share, digits = 1) => `${(100 * share).toFixed(share === 1 && digits === 1 ? 0 : digits)}\u00a0%`;

  const digits = (n) => String(n).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[d]);

  // A grid of cells -------------------------------------------------------------------------------------------

  /** Cells on a canvas. columns, rows: labels; cell(row, column) → null or {text, shade (0…1), tone
   *  (accent, wrong, soft), mark (outlined)}; choose(row, column): called on a click. */
  function grid(place, { columns, rows, cell, label, choose = null, least = 15, most = 30, widest = null, ratio = 1 }) {
    const font = 11, letters = Math.max(...rows.map((text) => text.length), 1);
    const left = 10 + letters * 6.4, top = 18;
    const room = Math.max(160, widest ?? place.clientWidth) - left - 2;
    const wide = Math.max(least, Math.min(most, Math.floor(room / columns.length)));
    const high = Math.max(14, Math.min(26, Math.round(wide * ratio)));
    const width = left + wide * columns.length + 2, height = top + high * rows.length + 2;
    const canvas = h("canvas", { role: "img", "aria-label": label, class: choose ? "clickable" : null });
    const scale = Math.max(1, window.devicePixelRatio || 1);
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d"), ink = colour("ink"), soft = colour("soft"), paper = colour("paper");
    const tones = { accent: colour("accent"), wrong: colour("wrong"), soft: colour("unspoken") };
    pen.scale(scale, scale);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `${font - 1}px system-ui, sans-serif`;
    pen.fillStyle = soft;
    const every = Math.ceil(Math.max(...columns.map((text) => pen.measureText(text).width + 3)) / wide);
    columns.forEach((text, j) => { if (j % every === 0) pen.fillText(text, left + (j + 0.5) * wide, top / 2); });
    pen.textAlign = "right";
    const skip = high < 12 ? 2 : 1;
    rows.forEach((text, i) => { if (i % skip === 0) pen.fillText(text, left - 6, top + (i + 0.5) * high); });
    pen.textAlign = "center";
    const marked = [];
    for (let i = 0; i < rows.length; i++) for (let j = 0; j < columns.length; j++) {
      const found = cell(i, j);
      if (!found) continue;
      const x = left + j * wide, y = top + i * high, shade = found.shade ?? 1;
      pen.globalAlpha = 0.06 + 0.94 * shade;
      pen.fillStyle = tones[found.tone ?? "accent"];
      pen.fillRect(x + 0.5, y + 0.5, wide - 1, high - 1);
      pen.globalAlpha = 1;
      if (found.tone === "wrong") { // not by colour alone: a stroke from corner to corner
        pen.strokeStyle = tones.wrong;
        pen.beginPath();
        pen.moveTo(x + 2, y + high - 2);
        pen.lineTo(x + wide - 2, y + 2);
        pen.stroke();
      }
      if (found.text !== undefined) {
        const size = Math.min(font, wide * 0.62);
        pen.font = `${size}px system-ui, sans-serif`;
        // a number that loses a digit is another number: it is written smaller, or not at all
        const needs = /^[0-9]+$/.test(found.text) ? size * Math.min(1, (wide - 2) / pen.measureText(found.text).width) : size;
        if (needs < size) pen.font = `${needs}px system-ui, sans-serif`;
        pen.fillStyle = shade > 0.55 && found.tone !== "soft" ? paper : ink;
        if (needs >= 5) pen.fillText(needs < size ? found.text : clip(found.text, pen, wide - 2), x + wide / 2, y + high / 2 + 0.5);
      }
      if (found.mark) marked.push([x, y]);
    }
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    for (const [x, y] of marked) pen.strokeRect(x, y, wide, high);
    if (choose) canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - left) / wide), i = Math.floor((event.clientY - box.top - top) / high);
      if (i >= 0 && i < rows.length && j >= 0 && j < columns.length) choose(i, j);
    });
    canvas.dataset.left = left;
    canvas.dataset.top = top;
    canvas.dataset.wide = wide;
    canvas.dataset.high = high;
    place.replaceChildren(h("div", { class: "scroll" }, canvas));
    return canvas;
  }

  function clip(text, pen, room) {
    if (pen.measureText(text).width <= room) return text;
    let end = text.length;
    while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > room) end--;
    return end > 1 ? `${text.slice(0, end)}…` : text.slice(0, 1);
  }

  // Learning curve --------------------------------------------------------------------------------------------

  /** Accuracy over iterations; lines: [{name, values, dash, tone}]; stages: the stage of every point. */
  function curve(place, { iterations, stages, lines, chance, current, go }) {
    const W = 460, H = 210, left = 44, right = 8, top = 12, bottom = 26;
    const last = iterations[iterations.length - 1] || 1;
    const x = (n) => left + (n / last) * (W - left - right), y = (v) => top + (1 - v) * (H - top - bottom);
    const parts = [], spans = new Map();
    iterations.forEach((n, i) => {
      const known = spans.get(stages[i]);
      if (known) known.end = n;
      else spans.set(stages[i], { start: i ? iterations[i - 1] : 0, end: n });
    });
    for (const value of [0, 0.5, 1]) {
      parts.push(s("line", { x1: left, x2: W - right, y1: y(value), y2: y(value), class: "gridline" }));
      parts.push(s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "tick" }, `${100 * value} %`));
    }
    for (const [stage, { start, end }] of spans) {
      if (stage === current && spans.size > 1)
        parts.push(s("rect", { x: x(start), y: top, width: Math.max(1.5, x(end) - x(start)), height: H - top - bottom, class: "here" }));
      else if (spans.size > 1) parts.push(s("line", { x1: x(end), x2: x(end), y1: top, y2: H - bottom, class: "stage-end" }));
    }
    parts.push(s("line", { x1: left, x2: W - right, y1: y(chance), y2: y(chance), class: "chance" }));
    parts.push(s("text", { x: W - right, y: y(chance) - 4, "text-anchor": "end", class: "tick" }, "chance"));
    for (const line of lines) {
      const points = line.values.map((v, i) => (v === null ? null : `${x(iterations[i]).toFixed(1)},${y(v).toFixed(1)}`));
      const known = points.filter((p) => p);
      parts.push(s("polyline", { points: known.join(" "), class: `line ${line.tone}` }));
      if (known.length === 1) parts.push(s("circle", { cx: known[0].split(",")[0], cy: known[0].split(",")[1], r: line.tone === "id" ? 3 : 5, class: `line ${line.tone}` })); // one measurement is no line
    }
    parts.push(s("text", { x: left, y: H - 8, class: "tick" }, "0"));
    parts.push(s("text", { x: W - right, y: H - 8, "text-anchor": "end", class: "tick" }, `${last.toLocaleString("en")} iterations`));
    const label = `Accuracy over training; stage ${current} is marked. ${lines.map((l) => `${l.name} at the end: ${percent(l.values[l.values.length - 1] ?? 0)}`).join(", ")}`;
    const picture = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label, class: "chart clickable" }, parts);
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect(), n = (((event.clientX - box.left) / box.width) * W - left) / (W - left - right) * last;
      const hit = [...spans].find(([, span]) => n <= span.end);
      if (hit) go(hit[0]);
    });
    place.replaceChildren(picture, h("p", { class: "legend" }, lines.map((l) => h("span", { class: `key ${l.tone}` }, l.name))));
  }

  // State diagram ---------------------------------------------------------------------------------------------

  /** States on a circle, all arrows in grey, and the walk in colour; the step `shown` is emphasised. */
  function diagram(place, { names, table, initial, walk, shown }) {
    const n = names.length, R = 80, radius = Math.min(18, n < 3 ? 18 : 0.42 * 2 * R * Math.sin(Math.PI / n));
    const spot = (q) => {
      const angle = (n === 2 ? Math.PI : -Math.PI / 2) + (2 * Math.PI * q) / n;
      return [R * Math.cos(angle), R * Math.sin(angle)];
    };
    const seen = new Set(), parts = [];
    table.forEach((row, from) => row.forEach((to) => {
      if (from === to || seen.has(`${from} ${to}`)) return;
      seen.add(`${from} ${to}`);
      parts.push(s("path", { d: arc(spot(from), spot(to), 0.16, radius), class: "edge" }));
    }));
    const used = new Map(), steps = [], repeats = new Map();
    for (let t = 1; t < walk.length; t++) repeats.set(`${walk[t - 1]} ${walk[t]}`, (repeats.get(`${walk[t - 1]} ${walk[t]}`) || 0) + 1);
    const squeeze = Math.min(1, 5 / Math.max(1, ...repeats.values()));  // long walks repeat their steps: keep them in the picture
    for (let t = 1; t < walk.length; t++) {
      const from = walk[t - 1], to = walk[t], key = `${from} ${to}`, times = used.get(key) || 0;
      used.set(key, times + 1);
      const path = from === to ? loop(spot(from), radius, squeeze * times) : arc(spot(from), spot(to), 0.16 + 0.09 * squeeze * times, radius);
      const strength = 0.25 + 0.75 * (t / (walk.length - 1));
      steps.push(s("path", { d: path, class: `step${t === shown ? " shown" : ""}`, "stroke-opacity": t === shown ? 1 : strength.toFixed(2), "marker-end": "url(#head)" }));
    }
    const states = names.map((name, q) => {
      const [x, y] = spot(q), last = walk[walk.length - 1] === q, here = shown !== null && walk[shown] === q;
      return s("g", { class: `state${last ? " last" : ""}${here ? " here" : ""}` },
        s("title", {}, name),
        s("circle", { cx: x, cy: y, r: radius }),
        q === initial ? s("circle", { cx: x, cy: y, r: radius - 3.5, class: "ring" }) : null,
        s("text", { x, y: y + 0.36 * Math.min(13, radius), "font-size": Math.min(13, (2.1 * radius) / Math.max(1.6, 0.62 * name.length)) }, name.length > 8 ? `${name.slice(0, 7)}…` : name));
    });
    const marker = s("defs", {}, s("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" }, s("path", { d: "M0 0 L8 4 L0 8 z", class: "arrowhead" })));
    const label = `The walk: ${walk.map((q) => names[q]).join(", ")}`;
    const reach = R + radius + (walk.some((q, t) => t && q === walk[t - 1]) ? 24 : 4), high = n === 2 ? 56 : reach;
    place.replaceChildren(s("svg", { viewBox: `${-reach} ${-high} ${2 * reach} ${2 * high}`, role: "img", "aria-label": label, class: "diagram" }, marker, parts, steps, states));
  }

  /** A bow from one point to another that leaves room for the circles around them. */
  function arc([x1, y1], [x2, y2], lift, radius) {
    const dx = x2 - x1, dy = y2 - y1, length = Math.hypot(dx, dy);
    const cx = (x1 + x2) / 2 + dy * lift, cy = (y1 + y2) / 2 - dx * lift;
    const near = (x, y, by) => { const d = Math.hypot(cx - x, cy - y); return [x + ((cx - x) / d) * by, y + ((cy - y) / d) * by]; };
    const [a, b] = [near(x1, y1, Math.min(radius + 1, length / 3)), near(x2, y2, Math.min(radius + 3, length / 3))];
    return `M${a.map(f)} Q${f(cx)},${f(cy)} ${b.map(f)}`;
  }

  /** A small ear outside the circle of states, larger each time. */
  function loop([x, y], radius, times) {
    const d = Math.hypot(x, y), ux = x / d, uy = y / d, size = radius * (0.75 + 0.14 * Math.min(times, 5));
    const point = (along, across) => `${f(x + ux * along - uy * across)},${f(y + uy * along + ux * across)}`;
    return `M${point(radius * 0.8, -radius * 0.62)} C${point(radius + size, -size)} ${point(radius + size, size)} ${point(radius * 0.9, radius * 0.72)}`;
  }

  const f = (number) => number.toFixed(1);

  // Attention -------------------------------------------------------------------------------------------------

  /** Arcs from one position to those that it reads. names: what stands there; labels: which position it is, σ or q;
   *  shares: one for each position up to `query`. */
  function arcs(place, { names, labels, shares, query, choose }) {
    const room = Math.max(300, place.clientWidth), letters = Math.min(8, Math.max(...names.map((name) => name.length)));
    const step = Math.max(15, Math.min(Math.max(44, 9 * letters), (room - 10) / names.length)), most = Math.max(2, Math.floor(step / 8)), wide = Math.min(step - 2, Math.max(24, 8 * Math.min(letters, most)));
    const W = step * names.length + 10, H = Math.min(190, 60 + 0.3 * W), x = (p) => 5 + (p + 0.5) * step, farthest = Math.max(1, query);
    const curves = [], texts = [];
    shares.forEach((share, p) => {
      if (share < 0.01) return;
      const base = H - 42, lift = 14 + (base * 4 / 3 - 20) * Math.sqrt(Math.abs(query - p) / farthest); // a bow is three quarters as high as its handles
      const d = p === query ? `M${f(x(p) - 4)},${base} c-7,-20 15,-20 8,0` : `M${f(x(p))},${base} C${f(x(p))},${f(base - lift)} ${f(x(query))},${f(base - lift)} ${f(x(query))},${base}`;
      curves.push(s("path", { d, class: "attention", "stroke-width": (0.6 + 7 * share).toFixed(2), "stroke-opacity": (0.15 + 0.85 * Math.sqrt(share)).toFixed(2) }, s("title", {}, `${labels[p]} = ${names[p]}: ${percent(share)}`)));
    });
    names.forEach((name, p) => {
      const button = s("g", { class: `place${p === query ? " here" : ""}` },
        s("rect", { x: x(p) - wide / 2, y: H - 40, width: wide, height: 22, rx: labels[p].startsWith("q") ? 11 : 4 }),
        s("text", { x: x(p), y: H - 25, "font-size": Math.min(12, step * 0.52) }, name.length > most ? `${name.slice(0, most - 1)}…` : name),
        s("text", { x: x(p), y: H - 5, "font-size": Math.min(10, step * 0.5), class: "tick" }, labels[p]));
      button.addEventListener("click", () => choose(p));
      texts.push(button);
    });
    const strongest = shares.map((v, p) => [v, p]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const label = `From ${labels[query]} attention goes to ${strongest.map(([v, p]) => `${labels[p]} = ${names[p]} (${percent(v, 0)})`).join(", ")}`;
    place.replaceChildren(h("div", { class: "scroll" }, s("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, curves, texts)));
  }

  /** One small map for each head of a layer, side by side; choose(head). */
  function maps(place, { heads, chosen, title, choose }) {
    const n = heads[0].length, room = Math.max(280, place.clientWidth - 8);
    const dot = Math.max(1, Math.min(4, Math.floor(56 / n))), size = n * dot, gap = 7;
    const across = Math.max(1, Math.floor((room + gap) / (size + gap))), down = Math.ceil(heads.length / across);
    const W = Math.min(across, heads.length) * (size + gap), H = down * (size + gap), scale = Math.max(1, window.devicePixelRatio || 1);
    const canvas = h("canvas", { role: "img", class: "clickable", "aria-label": `${title}: attention maps of ${heads.length} heads` });
    canvas.width = W * scale;
    canvas.height = H * scale;
    canvas.style.width = `${W}px`;
    canvas.style.height = `${H}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const accent = colour("accent"), ground = colour("card"), ink = colour("ink");
    heads.forEach((rows, head) => {
      const left = (head % across) * (size + gap) + 2, top = Math.floor(head / across) * (size + gap) + 2;
      pen.globalAlpha = 1;
      pen.fillStyle = ground;
      pen.fillRect(left, top, size, size);
      pen.fillStyle = accent;
      rows.forEach((shares, p) => shares.forEach((share, j) => {
        if (share < 0.02) return;
        pen.globalAlpha = Math.sqrt(share);
        pen.fillRect(left + j * dot, top + p * dot, dot, dot);
      }));
      pen.globalAlpha = 1;
      if (head === chosen) {
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.strokeRect(left - 1, top - 1, size + 2, size + 2);
      }
    });
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const head = Math.floor((event.clientY - box.top) / (size + gap)) * across + Math.floor((event.clientX - box.left) / (size + gap));
      if (head >= 0 && head < heads.length) choose(head);
    });
    place.append(h("div", { class: "map-box" }, h("p", { class: "map-title" }, title), canvas));
  }

  return { h, s, grid, curve, diagram, arcs, maps, percent, digits };
})();

if (typeof module !== "undefined") module.exports = Drawing;
