/* The board: the input, the true states, the slider, and below them what every model writes, column by column. */
"use strict";

function makeBoard(app) {
  const { h, percent, digits } = Drawing;
  const { task, models, chosen, recorded, calm, setSymbols, flip, stop, toggle, update } = app, T = task.horizon;

  let columns = T + 2; // q_0, q_1 … q_T, end

  /** One more column where an answer is too long: otherwise it would only take room away. */
  function fit() {
    const long = (answer, m) => answer && columnsOf(models[m], chosen.stages[m], chosen.budgets[m], answer.tokens).some(({ column }) => column > T + 1);
    columns = T + 2 + (app.answers.some(long) ? 1 : 0);
  }

  /** A place in a row of the board: column 0 is q_0. */
  function cell(column, attributes, ...children) {
    const made = h("span", attributes, ...children);
    made.style.gridColumn = String(column + 1);
    return made;
  }

  function track(children, label) {
    const made = h("div", { class: "track", role: label ? "img" : null, "aria-label": label }, children);
    made.style.setProperty("--count", columns);
    return made;
  }

  function row(kind, label, middle, right) {
    return h("div", { class: `row ${kind}` }, h("div", { class: "row-label" }, label), middle, h("div", { class: "row-cost" }, right));
  }

  function symbolRow() {
    const buttons = chosen.symbols.map((symbol, t) => {
      const name = task.symbols[symbol];
      const button = h("button", {
        type: "button", class: "symbol", "data-place": t, disabled: recorded.length > 0,
        "aria-label": `symbol ${t + 1} is ${name}; press for the next one`,
        onclick: (event) => { flip(t, event.shiftKey ? -1 : 1); },
      }, short(name));
      const made = cell(t + 1, { class: "slot", "data-t": t + 1 }, button);
      return made;
    });
    return row("symbols", [h("strong", {}, "Input"), h("small", {}, recorded.length ? "recorded inputs" : "click to change")], track(buttons, null), null);
  }

  function truthRow() {
    const tokens = app.states.map((q, t) => cell(t, { class: "slot", "data-t": t || null }, h("span", { class: `token truth${t === 0 ? " start" : ""}${t === T ? " goal" : ""}`, title: `q${digits(t)} = ${task.states[q]}` }, short(task.states[q]))));
    const label = `True states: ${app.states.map((q) => task.states[q]).join(", ")}`;
    return row("true", [h("strong", {}, "True states"), h("small", {}, task.counter ? `the sum so far, modulo ${task.states.length}` : `q${digits(0)} … q${digits(T)}, step by step`)], track(tokens, label), null);
  }

  const LONGEST = 7;
  const short = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);

  /** In which column each token of an answer stands: below the state that it should show, then on and on. */
  function columnsOf(model, i, budget, tokens) {
    const format = model.format(i, model.budget(i, budget));
    let last = 0;
    return tokens.map((token, k) => {
      const ends = model.about.kind !== "constructed" && token === model.eos;
      last = !ends && k < format.length ? format[k] : last + 1;
      return { column: last, t: !ends && k < format.length ? format[k] : null, ends };
    });
  }

  function modelRow(model, m, costs, how) {
    const i = chosen.stages[m], budget = chosen.budgets[m], answer = app.answers[m], here = m === chosen.current;
    const children = [];
    if (answer) {
      const places = columnsOf(model, i, budget, answer.tokens), spoken = new Set();
      const typed = here && (how === "input" || how === "film") && !calm.matches, pause = how === "film" ? 70 : 28;
      places.forEach(({ column, t, ends }, k) => {
        if (t !== null) spoken.add(t);
        if (column >= columns) return;
        const slot = tokenSlot(model, answer, k, column, t, ends);
        if (typed) {
          slot.classList.add("typed-in");
          slot.style.animationDelay = `${k * pause}ms`;
        }
        children.push(slot);
      });
      for (let t = 1; t <= T; t++) if (!spoken.has(t)) children.push(cell(t, { class: "slot", "data-t": t }, h("span", { class: "unspoken", title: `q${digits(t)} is not said` })));
      const over = places.filter(({ column }) => column >= columns).length;
      if (over) children.push(cell(columns - 1, { class: "slot" }, h("span", { class: "over", title: "further tokens" }, `+${over + 1}`)));
    }
    const kind = `model${here ? " current" : ""}`;
    return row(kind, modelLabel(model, m, answer), track(children, answer ? spokenAnswer(model, m, answer) : "no answer was recorded for this input"), costBars(answer, costs, measured(m)));
  }

  function tokenSlot(model, answer, k, column, t, ends) {
    const name = model.nameOf(answer.tokens[k]), p = answer.probabilities[k];
    const state = answer.tokens[k] - task.symbols.length;
    const right = ends || (t !== null && state === app.states[t]);
    const last = t !== null && k === answer.tokens.length - (model.about.kind === "constructed" ? 1 : 2);
    const title = ends ? `end of the answer, probability ${p.toFixed(3)}` : `${t === null ? "a token too many" : `q${digits(t)}`}: says ${name}, ${right ? "right" : `wrong (true: ${t === null ? "none" : task.states[app.states[t]]})`}, probability ${p.toFixed(3)}`;
    const bar = h("span", { class: "probability" }, h("span", {}));
    bar.firstChild.style.width = `${Math.max(4, 100 * p)}%`;
    const mark = h("span", { class: `token ${ends ? "end" : right ? "right" : "wrong"}${last ? " answer" : ""}`, title }, ends ? "■" : short(name));
    const text = p >= 0.995 ? "" : p.toFixed(2).replace(/^0/, "");
    return cell(column, { class: "slot", "data-t": t }, mark, model.about.kind === "constructed" ? null : bar, model.about.kind === "constructed" ? null : h("span", { class: "number" }, text));
  }

  function modelLabel(model, m, answer) {
    const { about } = model, here = m === chosen.current, stages = model.stages;
    const button = h("button", { type: "button", class: "model-name", "aria-pressed": String(here), title: about.title, onclick: () => { stop(); chosen.current = m; Panels.forget(); update("model"); } }, about.label);
    const stage = stages.length > 1 ? `stage ${stages[chosen.stages[m]].stage} · ` : "";
    let verdict = "not recorded";
    if (answer) verdict = answer.state < 0 ? "no answer" : `says ${task.states[answer.state]}`;
    const target = model.target(chosen.stages[m], chosen.budgets[m]), own = target === T ? "" : ` for q${digits(target)}`;
    const mark = answer ? h("span", { class: answer.onTarget ? "good" : "bad" }, `${answer.onTarget ? " ✓ right" : " ✗ wrong"}${own}`) : null;
    return [button, h("small", {}, `${stage}${verdict}`, mark)];
  }

  function spokenAnswer(model, m, answer) {
    const said = answer.tokens.map((token, k) => `${model.nameOf(token)} (${percent(answer.probabilities[k], 0)})`).join(", ");
    return `${model.about.label} writes ${said}. The answer is ${answer.onTarget ? "right" : "wrong"}.`;
  }

  /** How many inputs as in training this model answers rightly as it stands here; null where nobody measured. */
  function measured(m) {
    const model = models[m], i = chosen.stages[m], budget = chosen.budgets[m], { about } = model, { measured: found } = model.stages[i];
    const cell = () => about.matrix?.id[about.matrix.stages.indexOf(model.stages[i].stage)]?.[budget - 2] ?? null;
    if (about.lengthHint && budget === T + 1 && found.chain_id) return found.chain_id.accuracy;
    if (budget !== null && budget !== model.stages[i].budget) return cell();
    return found?.id?.[model.target(i, null) === T ? "accuracy" : "target"] ?? null;
  }

  function costBars(answer, costs, share) {
    if (!answer) return null;
    const bar = (value, top, text, title) => {
      const line = h("span", { class: "bar" }, h("span", {}));
      line.firstChild.style.width = `${Math.max(2, (100 * value) / top)}%`;
      return h("span", { class: "cost", title }, line, h("span", { class: "amount" }, text));
    };
    return [
      share === null ? null : bar(share, 1, `${percent(share, share < 1 && share > 0.995 ? 1 : 0)} right`, "of all inputs drawn as in training, so many are answered rightly"),
      bar(answer.passes, costs.passes, `${answer.passes} pass${answer.passes === 1 ? "" : "es"}`, "forward passes: one for each token written"),
      bar(answer.operations, costs.operations, operations(answer.operations), "floating-point operations for the whole answer"),
    ];
  }

  function operations(n) {
    return n >= 1e9 ? `${(n / 1e9).toFixed(1)} G op.` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} M op.` : `${Math.round(n / 1e3)} k op.`;
  }

  /** The slider over stages, play, and the budget where one can be asked for. */
  function stageRow() {
    const { model } = app, { about } = model, stages = model.stages, i = app.stageIndex;
    if (stages.length < 2 && !about.lengthHint) return null;
    const parts = [];
    if (stages.length > 1) {
      const play = h("button", { type: "button", id: "play", class: "play", "aria-label": app.playing ? "Stop the film" : "Play training as a film", onclick: toggle }, app.playing ? "❚❚" : "▶");
      const slider = h("input", { type: "range", id: "stage", min: 0, max: stages.length - 1, step: 1, value: i, "aria-label": "Stage of training", "aria-valuetext": `stage ${app.stage.stage} of ${about.totalStages}: ${app.stage.label}`, oninput: (event) => { stop(); chosen.stages[chosen.current] = Number(event.target.value); chosen.budgets[chosen.current] = null; update("stage"); } });
      const ticks = h("div", { class: "ticks", "aria-hidden": "true" }, stages.map((stage, k) => h("span", { class: k === i ? "here" : null }, stages.length <= 14 || k === 0 || k === stages.length - 1 || k === i ? String(stage.stage) : "")));
      parts.push(play, h("div", { class: "slider" }, slider, ticks));
    }
    if (about.lengthHint) parts.push(budgetSlider());
    const id = app.stage.measured.id, ood = app.stage.measured.ood;
    const target = model.target(i, null), key = target === T ? "accuracy" : "target";
    const asked = app.stage.budget === 2 ? "asked for the answer alone: " : `asked for ${app.stage.budget - 1} states: `;
    const measured = id ? h("p", { class: "measured", title: "measured at the end of this stage" }, `${about.lengthHint ? asked : target === T ? "" : `its last state, q${digits(target)}, is `}right on ${percent(id[key])} of inputs as in training, ${percent(ood[key])} of unlike ones`) : null;
    const words = h("div", { class: "stage-words" }, h("p", {}, stageWords()), measured);
    return h("div", { class: "stage-row" }, h("div", { class: "stage-controls" }, parts), words);
  }

  function stageWords() {
    const { model, stage } = app, { about } = model;
    if (app.budget && !about.lengthHint) {
      const free = h("button", { type: "button", class: "link", onclick: () => { chosen.budgets[chosen.current] = null; update("stage"); } }, "let it choose again");
      return [h("strong", {}, `Stage ${stage.stage} of ${about.totalStages}`), `, made to write ${app.budget - 1} state${app.budget === 2 ? "" : "s"}; `, free, "."];
    }
    if (about.lengthHint) return ["One token in the prompt tells the model how long its answer must be."];
    const hidden = T - stage.shown.length;
    const story = hidden === 0 ? "every state is written." : stage.shown.length === 1 && stage.shown[0] === T ? "only the answer is left." : `${hidden} state${hidden === 1 ? " is" : "s are"} no longer written.`;
    return [h("strong", {}, `Stage ${stage.stage} of ${about.totalStages}`), `: ${story}`];
  }

  function budgetSlider() {
    const value = app.model.budget(app.stageIndex, app.budget) - 1;
    return h("label", { class: "budget" }, h("span", {}, "Budget"),
      h("input", { type: "range", id: "budget", min: 1, max: T, step: 1, value, "aria-label": "States in the answer", "aria-valuetext": `${value} states`, oninput: (event) => { chosen.budgets[chosen.current] = Number(event.target.value) + 1; update("stage"); } }),
      h("output", {}, `${value} state${value === 1 ? "" : "s"}`));
  }

  // All stages at once ------------------------------------------------------------------------------------------

  let climbed = { key: null, steps: [] };

  /** What every stage answers to this input (of a mixture: at every budget). */
  function allSteps() {
    const { model } = app, mixed = model.about.lengthHint, key = [chosen.current, mixed && app.stageIndex, ...chosen.symbols].join(" ");
    if (climbed.key !== key) {
      const asked = mixed ? Array.from({ length: T }, (_, k) => [app.stageIndex, T + 1 - k]) : model.stages.map((_, i) => [i, null]);
      climbed = { key, steps: asked.map(([i, budget]) => ({ i, budget, answer: model.answer(chosen.symbols, i, budget) })) };
    }
    return climbed.steps;
  }

  /** The staircase: one line of dots for each stage, in the columns of the board. */
  function stairsRow() {
    const { model } = app, mixed = model.about.lengthHint;
    if (model.stages.length < 2 && !mixed) return null;
    const steps = allSteps(), isHere = ({ i, budget }) => (mixed ? budget === model.budget(i, app.budget) : i === app.stageIndex && app.budget === null);
    const name = ({ i, budget }) => (mixed ? `${budget - 1} state${budget === 2 ? "" : "s"}` : `stage ${model.stages[i].stage}`);
    const go = ({ i, budget }) => { stop(); chosen.stages[chosen.current] = i; chosen.budgets[chosen.current] = budget; update("stage"); };
    const verdict = ({ answer }) => (answer === null ? "not recorded" : answer.onTarget ? "right" : "wrong");
    const lines = steps.map((step, k) => {
      const dots = step.answer === null ? [] : stairDots(model, step);
      const numbered = steps.length <= 9 || k === 0 || k === steps.length - 1 || isHere(step);
      const number = cell(0, { class: "stair-number" }, numbered ? String(mixed ? step.budget - 1 : model.stages[step.i].stage) : "");
      const line = track([number, ...dots], null);
      line.className = `track stair${isHere(step) ? " here" : ""}`;
      line.title = `${name(step)}: ${verdict(step)}`;
      line.addEventListener("click", () => go(step));
      return line;
    });
    const longest = Math.max(1, ...steps.map(({ answer }) => answer?.passes ?? 0));
    const bars = steps.map((step) => {
      const bar = h("span", { class: `stair-bar${isHere(step) ? " here" : ""}` }, h("span", {}));
      bar.firstChild.style.width = `${(100 * (step.answer?.passes ?? 0)) / longest}%`;
      return bar;
    });
    const wrong = steps.filter(({ answer }) => answer && !answer.onTarget), label = `${mixed ? "All budgets" : "All stages"} on this input: ${steps.map((step) => `${name(step)} ${verdict(step)}`).join(", ")}`;
    const made = row("stairs", [h("strong", {}, mixed ? "All budgets at once" : "All stages at once"), h("small", {}, "same input; click a line", wrong.length ? h("span", { class: "bad" }, `; ${wrong.length} of ${steps.length} wrong`) : "")],
      h("div", { class: "stair-lines", role: "img", "aria-label": label }, lines), [h("div", { class: "stair-bars" }, bars), h("span", { class: "amount" }, "passes")]);
    made.style.setProperty("--pitch", `${Math.max(7, Math.min(14, 128 / steps.length))}px`);
    return made;
  }

  function stairDots(model, { i, budget, answer }) {
    const spoken = new Set(), made = [];
    columnsOf(model, i, budget, answer.tokens).forEach(({ column, t, ends }, k) => {
      if (t !== null) spoken.add(t);
      if (ends || column >= columns) return;
      const right = t !== null && answer.tokens[k] - task.symbols.length === app.states[t], last = k === answer.tokens.length - 2;
      made.push(cell(column, { class: `dot ${right ? "right" : "wrong"}${last ? " answer" : ""}` }));
    });
    for (let t = 1; t <= T; t++) if (!spoken.has(t)) made.push(cell(t, { class: "dot" }));
    return made;
  }

  /** All counterfactuals: each symbol replaced by each other one. */
  function flipRow() {
    const { model } = app;
    if (model.about.kind === "recorded" || (task.symbols.length - 1) * T > 400) return null;
    const before = app.answers[chosen.current].state, slots = Array.from({ length: T }, () => []);
    let changed = 0, wrong = 0;
    for (const { place, symbol, answer } of model.counterfactuals(chosen.symbols, app.stageIndex, app.budget)) {
      if (answer.state !== before) changed++;
      if (!answer.onTarget) wrong++;
      const title = `If symbol ${place + 1} were ${task.symbols[symbol]}, it would say ${answer.state < 0 ? "nothing" : task.states[answer.state]}: ${answer.onTarget ? "right" : "wrong"}${answer.state === before ? ", as now" : ""}`;
      slots[place].push([symbol, h("button", { type: "button", tabindex: -1, class: `flip ${answer.onTarget ? "right" : "wrong"}${answer.state === before ? " same" : ""}`, title, "aria-label": title, onclick: () => { const next = chosen.symbols.slice(); next[place] = symbol; setSymbols(next); } }, h("i", {}, short(task.symbols[symbol])), short(answer.state < 0 ? "–" : task.states[answer.state]))]);
    }
    const all = (task.symbols.length - 1) * T;
    const cells = slots.map((found, place) => cell(place + 1, { class: "slot flips", "data-t": place + 1 }, found.sort((a, b) => a[0] - b[0]).map((pair) => pair[1])));
    return row("flips-row", [h("strong", {}, "One symbol changed"), h("small", { title: "for each symbol: what it could be instead → what the model would answer" }, `symbol → answer; ${changed} of ${all} change it`, wrong ? h("span", { class: "bad" }, `; ${wrong} wrong`) : "")], track(cells, null), null);
  }

  return { symbolRow, truthRow, stageRow, modelRow, stairsRow, flipRow, spokenAnswer, fit, LONGEST };
}
