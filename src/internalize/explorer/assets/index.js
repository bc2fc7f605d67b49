/* The index of runs: a table that can be filtered and sorted, and the curve of the run that one points at. */
"use strict";

(() => {
  const { h, s, percent } = Drawing;
  const element = (id) => document.getElementById(id);
  const { runs, folder } = JSON.parse(element("data").textContent);
  const COLUMNS = [
    ["run", "run"], ["task", "task"], ["T", "T"], ["method", "method"], ["seed", "seed"], ["state", "state"],
    ["ID", "id"], ["OOD", "ood"], ["tokens", "tokens"], ["curve", "curve"], ["took", "seconds"],
  ];
  const NUMBERS = new Set(["T", "seed", "id", "ood", "tokens", "seconds"]);
  const NAMED = new Set(["task", "T", "method", "seed"]);  // in the run's name too: narrow screens leave them out
  const kindOf = (key) => [NUMBERS.has(key) && "number-column", (NAMED.has(key) || key === "curve") && "spare-column"].filter(Boolean).join(" ") || null;
  const chosen = { text: "", task: "", method: "", state: "", by: "run", down: false };

  function duration(seconds) {
    if (seconds === null) return "–";
    const whole = Math.round(seconds), minutes = Math.round(seconds / 60);
    if (whole < 60) return `${whole} s`;
    return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function cellText(run, key) {
    const value = run[key];
    if (key === "seconds") return duration(value);
    if (value === null || value === undefined) return "–";
    const soFar = run.stage ? ` (${run.stage})` : "";
    if (key === "tokens") return `${value.toFixed(1)}${run.speaks ? "!" : ""}${soFar}`;
    return key === "id" || key === "ood" ? percent(value) + soFar : String(value);
  }

  function shown() {
    const words = chosen.text.toLowerCase().split(/\s+/).filter((word) => word);
    const fits = (run) => ["task", "method", "state"].every((key) => !chosen[key] || String(run[key]) === chosen[key]) && words.every((word) => run.run.toLowerCase().includes(word));
    const sign = chosen.down ? -1 : 1, by = chosen.by;
    return runs.filter(fits).sort((a, b) => {
      const [x, y] = [a[by], b[by]];
      if (x === null || x === undefined) return 1; // what is not known comes last, whichever way
      if (y === null || y === undefined) return -1;
      return sign * (NUMBERS.has(by) ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
    });
  }

  function draw() {
    const found = shown();
    element("lead").textContent = `${found.length.toLocaleString("en")} of ${runs.length.toLocaleString("en")} runs in ${folder}; ${found.filter((run) => run.internalized === true).length.toLocaleString("en")} of them internalized: they answer at once, and are right on more than 95 % of inputs.`;
    const head = h("tr", {}, COLUMNS.map(([title, key]) => key === "curve" ? h("th", { scope: "col", class: kindOf(key) }, title) : h("th", { scope: "col", "aria-sort": chosen.by === key ? (chosen.down ? "descending" : "ascending") : "none", class: kindOf(key) },
      h("button", { type: "button", class: "link", onclick: () => { chosen.down = chosen.by === key ? !chosen.down : NUMBERS.has(key); chosen.by = key; draw(); } }, `${title}${chosen.by === key ? (chosen.down ? " ↓" : " ↑") : ""}`))));
    document.querySelector("#runs thead").replaceChildren(head);
    document.querySelector("#runs tbody").replaceChildren(...found.slice(0, 2000).map((run) => {
      const row = h("tr", { tabindex: 0, class: run.internalized === true ? "internalized" : null, onmouseenter: () => look(run), onfocus: () => look(run) },
        COLUMNS.map(([, key]) => h("td", { class: kindOf(key) }, key === "run" && run.explorer ? h("a", { href: run.explorer }, run.run) : key === "curve" ? spark(run) : cellText(run, key))));
      return row;
    }));
    if (found.length > 2000) document.querySelector("#runs tbody").append(h("tr", {}, h("td", { colspan: COLUMNS.length }, `… and ${(found.length - 2000).toLocaleString("en")} more: filter to see them`)));
    if (found.length) look(found[0]);
    else element("aside").replaceChildren();
  }

  /** The curve as small as a word: accuracy on inputs as in training. */
  function spark(run) {
    const points = run.curve.filter((point) => point[1] !== null), last = points.length ? points[points.length - 1][0] || 1 : 1;
    if (points.length < 2) return "";
    const line = points.map(([n, share]) => `${(1 + (58 * n) / last).toFixed(1)},${(15 - 14 * share).toFixed(1)}`).join(" ");
    return s("svg", { viewBox: "0 0 60 16", width: 60, height: 16, class: "spark", "aria-hidden": "true" }, s("polyline", { points: line, class: "line id" }));
  }

  /** The curve of one run, and why it failed if it did. */
  function look(run) {
    const W = 300, H = 150, left = 42, points = run.curve, last = points.length ? points[points.length - 1][0] || 1 : 1;
    const x = (n) => left + (n / last) * (W - left - 6), y = (v) => 10 + (1 - v) * (H - 34);
    const parts = [0, 0.5, 1].flatMap((value) => [s("line", { x1: left, x2: W - 6, y1: y(value), y2: y(value), class: "gridline" }), s("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end", class: "tick" }, `${100 * value} %`)]);
    for (const [k, tone] of [[2, "ood"], [1, "id"]]) {
      const line = points.filter((point) => point[k] !== null).map((point) => `${x(point[0]).toFixed(1)},${y(point[k]).toFixed(1)}`).join(" ");
      if (line) parts.push(s("polyline", { points: line, class: `line ${tone}` }));
      if (line && !line.includes(" ")) parts.push(s("circle", { cx: line.split(",")[0], cy: line.split(",")[1], r: tone === "id" ? 3 : 5, class: `line ${tone}` }));
    }
    parts.push(s("text", { x: W - 6, y: H - 6, "text-anchor": "end", class: "tick" }, last.toLocaleString("en")));
    const picture = points.length ? s("svg", { viewBox: `0 0 ${W} ${H}`, class: "chart", role: "img", "aria-label": `Accuracy of ${run.run} over training` }, parts) : h("p", { class: "explain" }, "Nothing was measured on the way.");
    element("aside").replaceChildren(
      h("h2", {}, run.run), picture,
      h("p", { class: "legend" }, h("span", { class: "key id" }, "ID"), h("span", { class: "key ood" }, "OOD")),
      h("p", { class: "explain" }, run.message ? `${run.state}: ${run.message}` : `${run.state}, ID ${cellText(run, "id")}, OOD ${cellText(run, "ood")}${run.internalized === true ? ", internalized" : ""}`),
      run.explorer ? h("p", {}, h("a", { href: run.explorer }, "Open its explorer")) : "");
  }

  function choice(key, title) {
    const values = [...new Set(runs.map((run) => run[key]).filter((value) => value !== null && value !== undefined).map(String))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return h("select", { "aria-label": title, onchange: (event) => { chosen[key] = event.target.value; draw(); } }, h("option", { value: "" }, `every ${title}`), values.map((value) => h("option", { value }, value)));
  }

  element("filters").append(
    h("input", { type: "text", id: "filter", placeholder: "part of a name", "aria-label": "Part of a run's name", oninput: (event) => { chosen.text = event.target.value; draw(); } }),
    choice("task", "task"), choice("method", "method"), choice("state", "state"));
  draw();
  document.documentElement.dataset.drawn = "1";
})();
