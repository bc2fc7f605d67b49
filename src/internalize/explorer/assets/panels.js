/* The panels below the board: the walk, the learning curve, the matrix, the search, and the model's inside. */
"use strict";

const Panels = (() => {
  const { h, grid, percent, digits } = Drawing;
  const element = (id) => document.getElementById(id);
  const say = (id, text) => { element(id).textContent = text; };

  // The walk --------------------------------------------------------------------------------------------------

  const MOST_STATES = 24;

  function walk(app) {
    const { task } = app, names = task.states.slice(0, task.table.length - task.outputs), few = names.length <= MOST_STATES;
    if (!few) {
      say("walk-text", `${names.length} states are too many for a picture.`);
      element("walk").replaceChildren();
      return;
    }
    const t = app.hovered, states = Models.walk(task, app.symbols), end = states[task.horizon];
    say("walk-text", t
      ? `Step ${t}: symbol ${task.symbols[app.symbols[t - 1]]} leads from ${task.states[states[t - 1]]} to ${task.states[states[t]]}.`
      : `Each symbol leads to the next state. The walk begins at ${task.states[task.initial]} and ends at ${task.states[end]}${task.output ? `, which means ${task.states[task.output[end]]}` : ""}: the right answer.`);
    Drawing.diagram(element("walk"), { names, table: task.table.slice(0, names.length), initial: task.initial, walk: states, shown: t });
  }

  // The learning curve ----------------------------------------------------------------------------------------

  function curve(app) {
    const { about } = app.model, stage = app.stage, panel = element("curve-panel");
    panel.hidden = !about.curve || about.curve.iteration.length === 0;
    if (panel.hidden) return;
    const measured = (name) => {
      const found = stage.measured[name];
      return found ? `${percent(found.accuracy)} [${percent(found.interval[0])}, ${percent(found.interval[1])}]` : "not measured";
    };
    const chain = about.lengthHint && stage.measured.chain_id ? ` Asked for the whole chain: ${measured("chain_id")} and ${measured("chain_ood")}.` : "";
    const target = app.model.target(app.stageIndex, null), missed = target === app.task.horizon ? "" : ` This stage ends at q${digits(target)} and does not say q${digits(app.task.horizon)}: the curve, which asks for q${digits(app.task.horizon)}, falls for that reason.`;
    say("curve-text", `Share of right answers on inputs as in training (ID) and on unlike ones (OOD). At the end${app.model.stages.length > 1 ? ` of stage ${stage.stage}` : ""}: ID ${measured("id")}, OOD ${measured("ood")}, with 95 % intervals.${chain}${missed}${coverage(about)}${app.model.stages.length > 1 ? " Each dotted line ends a stage: states are taken away, and the curve may fall until the model can do without them. Click to go there." : ""}`);
    const lines = [{ name: "ID: inputs as in training", values: about.curve.id, tone: "id" }, { name: "OOD: inputs unlike training", values: about.curve.ood, tone: "ood" }];
    Drawing.curve(element("curve"), {
      iterations: about.curve.iteration, stages: about.curve.stage, lines, current: stage.stage,
      chance: Math.max(...app.data.inputs.id.shares), go: (number) => app.goTo(number),
    });
  }

  /** How often training saw each possible input: without it, nobody knows what a share of right answers means. */
  function coverage({ summary }) {
    const { possible_inputs: possible, views_per_input: views } = summary;
    if (!possible || !views) return "";
    const count = possible < 1e7 ? possible.toLocaleString("en") : possible.toExponential(0).replace(/e\+(\d+)/, (_, power) => ` · 10${power.replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d])}`);
    return views >= 1
      ? ` There are ${count} possible inputs; training saw each of them ${Math.round(views).toLocaleString("en")} times on average.`
      : ` There are ${count} possible inputs; training saw ${views < 1e-4 ? "hardly any" : percent(1 - Math.exp(-views), 2)} of them.`;
  }

  // The matrix ------------------------------------------------------------------------------------------------

  let matrixInputs = "id";

  function matrix(app) {
    const { about } = app.model, panel = element("matrix-panel"), T = app.task.horizon;
    panel.hidden = !about.matrix;
    document.querySelector(".columns").classList.remove("low-matrix");
    if (panel.hidden) return;
    document.querySelector(".columns").classList.toggle("low-matrix", about.matrix.stages.length < 9); // the search stands where there is room
    const { stages, samples } = about.matrix, values = about.matrix[matrixInputs];
    const own = app.model.format(app.stageIndex, app.budget).length;
    const asked = about.lengthHint ? "asked for by its length token" : "made to write that many";
    say("matrix-text", `${stages.length > 1 ? "Rows: stages. " : ""}Columns: how many states the model is ${asked}. Cells: share of right answers (${samples} inputs). The outlined cell is the one you see above. Click to go to another.`);
    element("matrix-inputs").replaceChildren(...["id", "ood"].map((name) =>
      h("button", { type: "button", "aria-pressed": String(name === matrixInputs), onclick: () => { matrixInputs = name; matrix(app); } }, name === "id" ? "as in training (ID)" : "unlike training (OOD)")));
    grid(element("matrix"), {
      columns: Array.from({ length: T }, (_, k) => String(k + 1)),
      rows: stages.length > 1 ? stages.map((stage) => `stage ${stage}`) : ["right, %"],
      label: `Accuracy of ${stages.length} stages at ${T} answer lengths; stage ${app.stage.stage} with ${own} states: ${percent(values[stages.indexOf(app.stage.stage)]?.[own - 1] ?? 0)}`,
      cell: (i, k) => ({ shade: values[i][k] ** 2, text: String(Math.round(100 * values[i][k])), mark: stages[i] === app.stage.stage && k + 1 === own }),
      choose: (i, k) => app.goTo(stages[i], k + 2),
      most: 34,
    });
  }

  // Find me an input ------------------------------------------------------------------------------------------

  const MOST_TRIES = 3000, LONGEST_MS = 8000;
  let search = 0;

  function find(app) {
    const others = app.model.stages.map((stage, i) => ({ stage, i }));
    const kinds = [];
    const button = (text, title, fits) => h("button", { type: "button", title, onclick: () => seek(app, text, fits) }, text);
    kinds.push(button("where it is wrong", "The answer of the model and stage that you see above is wrong.", (symbols) => {
      const answer = app.model.answer(symbols, app.stageIndex, app.budget);
      return answer !== null && !answer.onTarget;
    }));
    if (others.length > 1) {
      const choice = h("select", { "aria-label": "The other stage", id: "other-stage" }, others.map(({ stage, i }) =>
        h("option", { value: i, selected: i === (app.stageIndex > 0 ? 0 : others.length - 1) }, `stage ${stage.stage}`)));
      kinds.push(h("span", { class: "with-choice" }, button("where it disagrees with", "The two stages give different answers.", (symbols) => {
        const [a, b] = [app.stageIndex, Number(choice.value)].map((i) => app.model.answer(symbols, i));
        return a !== null && b !== null && a.state !== b.state;
      }), choice));
    }
    app.models.forEach((model, m) => {
      if (m === app.current) return;
      kinds.push(button(`where “${model.about.label}” differs`, "The two models give different answers.", (symbols) => {
        const [a, b] = [app.model.answer(symbols, app.stageIndex, app.budget), model.answer(symbols, app.stageOf(m), app.budgetOf(m))];
        return a !== null && b !== null && a.state !== b.state;
      }));
    });
    const rare = rarest(app);
    kinds.push(button(`that ends in ${app.task.states[rare.state]}, the rarest state`, `Only ${percent(rare.share, 2)} of the inputs unlike training end there.`, (symbols) =>
      Models.trace(app.task, symbols)[app.task.horizon] === rare.state));
    element("find").replaceChildren(...kinds);
  }

  /** The state in which the fewest inputs unlike training end. */
  function rarest(app) {
    const shares = app.data.inputs.ood.shares;
    let state = -1;
    shares.forEach((share, q) => { if (share > 0 && (state < 0 || share < shares[state])) state = q; });
    return { state, share: shares[state] };
  }

  /** Draw inputs in small portions, so that the page stays quick; half as in training, half unlike it. */
  function seek(app, what, fits) {
    const own = ++search, began = performance.now();
    let tries = 0;
    say("found", "searching …");
    const portion = () => {
      if (own !== search) return;
      const until = performance.now() + 12;
      while (performance.now() < until) {
        const symbols = app.draw(tries % 2 ? "ood" : "id");
        tries++;
        if (fits(symbols)) {
          app.setSymbols(symbols);
          say("found", `Input ${tries.toLocaleString("en")} fits: ${what}.`);
          return;
        }
        if (tries >= MOST_TRIES || performance.now() - began > LONGEST_MS) {
          say("found", `None of ${tries.toLocaleString("en")} inputs fits (half as in training, half unlike it). So such inputs are rare: with 95 % confidence fewer than ${percent(3 / tries, 2)}.`);
          return;
        }
      }
      setTimeout(portion, 0);
    };
    portion();
  }

  // Inside ----------------------------------------------------------------------------------------------------

  const chosen = { layer: 0, head: null, query: null, probeLayer: null };

  function inside(app) {
    const { model } = app, recorded = model.about.kind === "recorded";
    const section = document.querySelector(".inside");
    section.hidden = recorded;
    if (recorded) return;
    const seen = model.inspect(app.symbols, app.stageIndex, app.budget, app.answers[app.current]);
    const { names, labels } = positions(app, seen);
    const from = model.about.kind === "constructed" ? app.task.horizon : 0; // without the dummies in front
    say("inside-text", model.about.kind === "constructed"
      ? "This network was not trained: its weights were written by hand, following the paper's theorem 3."
      : `${model.about.label}, stage ${app.stage.stage}: ${model.about.shape.depth} layer${model.about.shape.depth > 1 ? "s" : ""} with ${model.about.shape.heads} head${model.about.shape.heads > 1 ? "s" : ""} each. Everything below is computed from the input above.`);
    attention(app, seen, names, labels, from);
    if (model.about.kind === "constructed") registers(app, seen, labels, from);
    else probes(app, seen, labels);
    lens(app, seen, labels);
  }

  /** What stands at every position, and which position it is: σ₁ … q₀ … */
  function positions(app, seen) {
    const { model, task } = app, T = task.horizon, made = model.about.kind === "constructed";
    if (made) {
      const names = seen.tokens.map((token, p) => (p < 2 * T ? task.symbols[token] : task.states[token]));
      return { names, labels: names.map((_, p) => (p < T ? "0" : p < 2 * T ? `σ${digits(p - T + 1)}` : `q${digits(0)}`)) };
    }
    const format = model.format(app.stageIndex, model.budget(app.stageIndex, app.budget)), prompt = T + 1 + (model.about.lengthHint ? 1 : 0);
    const label = (p) => (p < T ? `σ${digits(p + 1)}` : p === T ? `q${digits(0)}` : p < prompt ? "LEN" : p - prompt < format.length ? `q${digits(format[p - prompt])}` : "+");
    return { names: seen.tokens.map((token) => model.nameOf(token).replace("LEN ", "")), labels: seen.tokens.map((_, p) => label(p)) };
  }

  function attention(app, seen, names, labels, from) {
    const layers = seen.attention.length, heads = seen.attention[0].length;
    chosen.layer = Math.min(chosen.layer, layers - 1);
    if (chosen.head !== null && chosen.head >= heads) chosen.head = null;
    const last = seen.tokens.length - 1, ended = app.model.about.kind !== "constructed" && app.answers[app.current].tokens.length > 1;
    const start = ended ? last - 1 : last; // the position that says the answer
    const query = Math.min(chosen.query ?? start, last);
    const rows = seen.attention[chosen.layer], of = chosen.head === null ? rows : [rows[chosen.head]];
    const shares = Array.from(of[0][query], (_, p) => of.reduce((sum, head) => sum + head[query][p], 0) / of.length);
    const which = chosen.head === null ? `the mean of all ${heads} heads` : `head ${chosen.head + 1}`;
    say("attention-text", `To compute what comes next, a position reads earlier ones; attention says how much of each. Arcs: from ${labels[query]}, layer ${chosen.layer + 1}, ${which}. Click on another token, or on a head's map below (rows: who reads; columns: what is read; click it again for the mean).`);
    Drawing.arcs(element("arcs"), {
      names: names.slice(from), labels: labels.slice(from), shares: shares.slice(from), query: query - from,
      choose: (p) => { chosen.query = p + from; inside(app); },
    });
    const place = element("maps");
    place.replaceChildren();
    seen.attention.forEach((maps, layer) => Drawing.maps(place, {
      heads: maps.map((head) => head.slice(from).map((shares) => Array.from(shares).slice(from))),
      chosen: layer === chosen.layer ? chosen.head : -1,
      title: layers > 1 ? `Layer ${layer + 1}` : `All ${heads} heads`,
      choose: (head) => { chosen.head = layer === chosen.layer && head === chosen.head ? null : head; chosen.layer = layer; inside(app); },
    }));
  }

  function layerButtons(count, redraw) {
    element("probe-layers").replaceChildren(...Array.from({ length: count }, (_, layer) =>
      h("button", { type: "button", "aria-pressed": String(layer === chosen.probeLayer), onclick: () => { chosen.probeLayer = layer; redraw(); } },
        layer === 0 ? "before layer 1" : `after layer ${layer}`)));
  }

  /** Where this view has no probes: why, and the way to those that there are. */
  function noProbes(app, stage) {
    const { stages } = app.model, way = (text, go) => h("button", { type: "button", onclick: go }, text), others = stages.filter((other) => other.probes);
    element("probes").replaceChildren();
    if (stage.probes) {
      say("probes-text", "The probes were fitted on answers of another length.");
      element("probe-layers").replaceChildren(way("ask for the answer alone", () => app.goTo(stage.stage, stage.shown.length + 1)));
      return;
    }
    say("probes-text", `To keep the page small it has no probes for this stage${others.length ? "; these have some:" : ". internalize explore --megabytes gives it more room."}`);
    element("probe-layers").replaceChildren(...others.map((other) => way(`stage ${other.stage}`, () => app.goTo(other.stage))));
  }

  /** What linear probes read: trained beside untrained. */
  function probes(app, seen, names) {
    const { model, task, stageIndex: i } = app, stage = model.stages[i], panel = element("probes-panel"), T = task.horizon;
    panel.hidden = task.states.length < 2 || (app.budget !== null && !model.about.lengthHint);
    if (panel.hidden) return;
    say("probes-title", "Which states can be read inside, though they are not said?");
    const fitted = model.about.lengthHint ? model.budget(i, app.budget) === stage.shown.length + 1 : true;
    if (!stage.probes || !fitted) {
      noProbes(app, stage);
      return;
    }
    const depth = model.about.shape.depth, prompt = T + 1 + (model.about.lengthHint ? 1 : 0), places = prompt + stage.shown.length;
    const targets = app.probeTargets(depth, prompt, stage.shown.length), both = app.probes(app.current, i, targets);
    const control = app.streamOf(model, -1, seen.tokens); // it reads the same tokens as the trained one
    if (chosen.probeLayer === null || chosen.probeLayer > depth) chosen.probeLayer = depth;
    layerButtons(depth + 1, () => probes(app, seen, names));
    const tests = Math.round(model.about.probeSamples / 3);
    say("probes-text", `A linear probe is the simplest reader: one weighted sum of what a position holds, fitted to tell one of the states. Each cell shows what it reads for your input: blue where it is right, struck through where it is wrong, and the paler, the closer this probe is to guessing (on ${tests} other inputs). The same probes on the untrained network are the control: what they read there, nobody learned.`);
    const shownPlaces = Math.min(places, seen.tokens.length), columns = names.slice(0, shownPlaces);
    const place = element("probes");
    place.replaceChildren();
    for (const [name, title, streams, reader] of [["trained", "trained", seen.stream, both.trained], ["untrained", "untrained (control)", control, both.untrained]]) {
      const box = h("div", { class: "probe-box" }), area = h("div", {});
      box.append(h("h4", {}, title), area);
      place.append(box);
      const index = new Map();
      targets.forEach(([layer, position, t], n) => { if (layer === chosen.probeLayer) index.set(`${position} ${t}`, n); });
      let good = 0, all = 0;
      grid(area, {
        columns, rows: Array.from({ length: T }, (_, k) => `q${digits(k + 1)}`), least: 13, most: 26, ratio: 0.8, widest: place.clientWidth > 760 ? place.clientWidth / 2 - 12 : place.clientWidth,
        label: "",
        cell: (row, position) => {
          const n = index.get(`${position} ${row + 1}`);
          if (n === undefined) return null;
          const state = reader.read(n, streams[position][chosen.probeLayer]), right = state === app.states[row + 1];
          const chance = stage.probes.chance[row], better = Math.max(0, (stage.probes[name][n] - chance) / Math.max(1e-9, 1 - chance));
          all++;
          if (right) good++;
          return { text: task.states[state], tone: right ? "accent" : "wrong", shade: right ? better ** 1.5 : 0.75 * better ** 1.5 };
        },
      }).setAttribute("aria-label", `Probes on the ${title} network read ${good} of ${all} states rightly`);
    }
  }

  /** The hand-written network needs no probe: its numbers are the states. */
  function registers(app, seen, names, from) {
    const { about } = app.model, layers = about.shape.depth + 1, count = about.registers.length;
    element("probes-panel").hidden = false;
    say("probes-title", "What each position holds");
    say("probes-text", `No probe is needed here. After layer l, a position holds the sum of the 2ˡ tokens that end there${count > 1 ? ", modulo each prime power of n" : ""}: windows double, and after ${about.shape.depth} layers the last position has added everything.`);
    element("probe-layers").replaceChildren();
    const area = h("div", {});
    element("probes").replaceChildren(area);
    const rows = [];
    for (let layer = 0; layer < layers; layer++) about.registers.forEach((name, r) => rows.push([layer, r, `${layer === 0 ? "at first" : `layer ${layer}`}${count > 1 ? `, ${name}` : ""}`]));
    grid(area, {
      columns: names.slice(from), rows: rows.map((row) => row[2]), label: "What every position holds after every layer", widest: element("probes").clientWidth,
      cell: (i, p) => ({ text: String(Math.round(seen.stream[p + from][rows[i][0]][rows[i][1]])), tone: "accent", shade: p === names.length - from - 1 ? 0.9 : 0.25 }),
    });
  }

  function lens(app, seen, names) {
    const { model } = app, panel = element("lens-panel");
    panel.hidden = model.about.kind === "constructed";
    if (panel.hidden) return;
    const depth = model.about.shape.depth, truth = app.answers[app.current].tokens, start = seen.tokens.length - truth.length + 1;
    say("lens-text", "The logit lens stops the network early: the last step (layer norm and unembedding) is applied to what each layer holds. Cells: the likeliest next token, the stronger, the likelier. Only from the outlined cells on, the model writes.");
    const said = seen.stream.map((layers) => layers.map((stream) => {
      const shares = Models.softmax(seen.network.logits(stream)), token = Models.argmax(shares);
      return { token, share: shares[token] };
    }));
    grid(element("lens"), {
      columns: names, least: 15, rows: Array.from({ length: depth + 1 }, (_, k) => (k === depth ? "before layer 1" : `after layer ${depth - k}`)), ratio: 0.9, most: 34,
      label: "Logit lens: the likeliest next token after every layer at every position",
      cell: (row, p) => {
        const { token, share } = said[p][depth - row];
        return { text: token < model.firstState ? `σ${model.nameOf(token)}` : model.nameOf(token), shade: share ** 2, tone: "accent", mark: row === 0 && p >= start - 1 };
      },
    });
  }

  /** What belonged to another input or model: the position that was clicked, and what a search said. */
  function forget() {
    chosen.query = null;
    search++;
    say("found", "");
  }

  return { walk, curve, matrix, find, inside, forget };
})();
