/* The page: what is chosen, when it is drawn, the controls, and the words. */
"use strict";

const App = (() => {
  const { h, percent } = Drawing;
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent);
  const task = data.task, T = task.horizon;
  const bytes = (name) => Models.bytesOf(element(name).textContent);

  const models = data.models.map((about, m) => {
    if (about.kind === "recorded") return new Models.Recorded(about, task);
    if (about.kind === "constructed") return new Models.Constructed(about, task, bytes(`weights-${m}-0`));
    return new Models.Trained(about, task, (i) => bytes(`weights-${m}-${i < 0 ? "untrained" : i}`));
  });
  const recorded = models.filter((model) => model.about.kind === "recorded");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  // What is chosen --------------------------------------------------------------------------------------------

  const most = Math.max(...models.map((model) => model.stages.length));
  const main = models.findIndex((model) => model.stages.length === most);
  const chosen = {
    symbols: null,
    current: main,
    stages: models.map((model, m) => (m === main ? 0 : model.stages.length - 1)),
    budgets: models.map((model) => (model.about.lengthHint && model.stages.length === 1 ? T + 1 : null)),
  };
  let playing = 0, hovered = null, drawn = 0;

  const app = {
    data, task, models, answers: [], states: [],
    get symbols() { return chosen.symbols; },
    get current() { return chosen.current; },
    get model() { return models[chosen.current]; },
    get stageIndex() { return chosen.stages[chosen.current]; },
    get stage() { return app.model.stages[app.stageIndex]; },
    get budget() { return chosen.budgets[chosen.current]; },
    get hovered() { return hovered; },
    stageOf: (m) => chosen.stages[m],
    budgetOf: (m) => chosen.budgets[m],
    get playing() { return playing !== 0; },
    chosen, recorded, calm, goTo, setSymbols, draw, probes, probeTargets, streamOf, flip, stop, toggle, update,
  };
  const board = makeBoard(app);

  /** Go to a stage by its number, or to the nearest that the page carries; budget: tokens with EOS, or null. */
  function goTo(number, budget = undefined) {
    const { stages } = app.model;
    let best = 0;
    stages.forEach((stage, i) => { if (Math.abs(stage.stage - number) < Math.abs(stages[best].stage - number)) best = i; });
    chosen.stages[chosen.current] = best;
    if (budget !== undefined) {
      const own = !app.model.about.lengthHint && budget === stages[best].shown.length + 1;
      chosen.budgets[chosen.current] = own ? null : budget;
    }
    stop();
    update("stage");
  }

  function setSymbols(symbols) {
    chosen.symbols = symbols;
    Panels.forget();
    update("input");
  }

  /** A random input; from the recorded ones where a model knows no others. */
  function draw(name) {
    if (recorded.length) {
      const { inputs } = recorded[0].about.recorded;
      return inputs[Math.floor(Math.random() * inputs.length)].slice();
    }
    const { probabilities } = data.inputs[name];
    return Array.from({ length: T }, () => {
      let left = Math.random(), symbol = 0;
      while (symbol < probabilities.length - 1 && left >= probabilities[symbol]) left -= probabilities[symbol++];
      return symbol;
    });
  }

  // Probes, unpacked when they are first needed ---------------------------------------------------------------

  const unpacked = new Map();

  function probes(m, i, targets) {
    const key = `${m} ${i}`;
    if (!unpacked.has(key)) {
      const packed = bytes(`probes-${m}-${i}`), half = packed.length / 2, width = models[m].about.shape.width;
      const make = (part) => new Models.Probes(part, targets, task.states.length, width);
      unpacked.set(key, { trained: make(packed.subarray(0, half)), untrained: make(packed.subarray(half)) });
    }
    return unpacked.get(key);
  }

  /** [layer, position, t] of every probe, in the order in which they are packed. */
  function probeTargets(depth, prompt, shown) {
    const targets = [];
    for (let layer = 0; layer <= depth; layer++)
      for (let place = 0; place < prompt + shown; place++)
        for (let t = 1; t <= Math.min(place + 1, T); t++) targets.push([layer, place, t]);
    return targets;
  }

  function streamOf(model, i, tokens) {
    const network = model.network(i), cache = network.newCache(), record = { attention: [], stream: [] };
    for (const token of tokens) network.read(token, cache, record);
    return record.stream;
  }

  // The board -------------------------------------------------------------------------------------------------

  function flip(place, by) {
    const symbols = chosen.symbols.slice(), n = task.symbols.length;
    symbols[place] = (symbols[place] + by + n) % n;
    setSymbols(symbols);
    document.querySelector(`.symbol[data-place="${place}"]`)?.focus({ preventScroll: true });
  }

  function renderBoard(how) {
    const known = app.answers.filter((answer) => answer);
    const costs = { passes: Math.max(1, T + 1, ...known.map((a) => a.passes)), operations: Math.max(1, ...known.map((a) => a.operations)) };
    const order = [chosen.current, ...models.keys()].filter((m, k, all) => all.indexOf(m) === k);
    const focused = document.activeElement?.id;
    const live = element("stage");
    const letters = Math.min(board.LONGEST, Math.max(...[...task.symbols, ...task.states].map((name) => name.length)));
    element("board").style.setProperty("--letters", Math.max(1.5, letters));
    element("board").classList.toggle("long-names", letters > 2);
    board.fit();
    const [first, ...others] = order.map((m) => board.modelRow(models[m], m, costs, how));
    const rows = [board.symbolRow(), board.truthRow(), board.stageRow(), first, slow.stairs, ...others, slow.flips];
    element("board").replaceChildren(...rows.filter((made) => made));
    if (live && focused) element(focused)?.focus({ preventScroll: true });
  }

  /** The slower rows of the board: the old ones stay until the new ones are there, so that nothing jumps. */
  const slow = { stairs: h("div", {}), flips: h("div", {}) };

  function renew(name, made) {
    const next = made ?? h("div", {});
    slow[name].replaceWith(next);
    slow[name] = next;
  }

  // Update ----------------------------------------------------------------------------------------------------

  /** Answer and draw. how: input, stage, model or film. What is slower is drawn after the answers are there. */
  function update(how) {
    const began = performance.now();
    app.states = Models.trace(task, chosen.symbols);
    app.answers = models.map((model, m) => model.answer(chosen.symbols, chosen.stages[m], chosen.budgets[m]));
    renderBoard(how);
    if (element("typed") !== document.activeElement) element("typed").value = inputText();
    const took = performance.now() - began;
    if (!document.documentElement.dataset.firstAnswer) document.documentElement.dataset.firstAnswer = performance.now().toFixed(1);
    document.documentElement.dataset.answer = took.toFixed(2);
    tell();
    const own = ++drawn;
    if (document.hidden) drawRest(own, SLOWER);
    else requestAnimationFrame(() => setTimeout(() => drawRest(own, SLOWER), 0));
  }

  const SLOWER = [
    () => Panels.walk(app), () => renew("stairs", board.stairsRow()), () => renew("flips", board.flipRow()), () => Panels.curve(app),
    () => Panels.matrix(app), () => Panels.find(app), () => Panels.inside(app), footer,
  ];

  /** One part after the other, and none once something newer is to be drawn: so a dragged slider stays quick. */
  function drawRest(own, [first, ...rest]) {
    if (own !== drawn) return;
    first();
    if (rest.length && document.hidden) drawRest(own, rest);
    else if (rest.length) setTimeout(() => drawRest(own, rest), 0);
    else document.documentElement.dataset.drawn = String(own);
  }

  const single = task.symbols.every((name) => [...name].length === 1);

  function inputText() {
    return chosen.symbols.map((symbol) => task.symbols[symbol]).join(single ? "" : " ");
  }

  /** For screen readers: once the slider rests. */
  let waiting = 0;

  function tell() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const answer = app.answers[chosen.current];
      const stage = app.model.stages.length > 1 ? `Stage ${app.stage.stage}. ` : "";
      element("spoken").textContent = answer ? `${stage}${board.spokenAnswer(app.model, chosen.current, answer)} ${answer.passes} forward passes.` : "No answer was recorded for this input.";
    }, 400);
  }

  // Controls --------------------------------------------------------------------------------------------------

  /** Symbols from text, with or without spaces; null and a reason where it is no input. */
  function parse(text) {
    const words = text.trim().split(/[\s,;]+/).filter((word) => word);
    const parts = words.length > 1 || !single ? words : [...(words[0] || "")];
    const symbols = parts.map((name) => task.symbols.indexOf(name));
    const unknown = symbols.indexOf(-1);
    if (unknown >= 0) return { reason: `“${parts[unknown]}” is no symbol; there are ${listed(task.symbols)}` };
    if (symbols.length !== T) return { reason: `${symbols.length} of ${T} symbols` };
    return { symbols };
  }

  const listed = (names) => (names.length > 12 ? `${names.slice(0, 10).join(" ")} … ${names[names.length - 1]}` : names.join(" "));

  function help(text = `${T} symbols out of ${listed(task.symbols)}`) { element("typed-help").textContent = text; }

  function toggle() {
    if (playing) { stop(); update("stage"); return; }
    if (app.model.stages.length < 2) return;
    if (app.stageIndex === app.model.stages.length - 1) chosen.stages[chosen.current] = 0;
    chosen.budgets[chosen.current] = null;
    playing = 1;
    frame();
  }

  /** One stage of the film: it lasts as long as its answer takes to write. */
  function frame() {
    update("film");
    const written = app.answers[chosen.current]?.tokens.length ?? 1;
    playing = setTimeout(() => {
      if (app.stageIndex >= app.model.stages.length - 1) { stop(); update("stage"); return; }
      chosen.stages[chosen.current]++;
      frame();
    }, (calm.matches ? 0 : written * 70) + 650);
  }

  function stop() {
    clearTimeout(playing);
    playing = 0;
  }

  function keys(event) {
    const target = event.target, typing = target.matches?.("input[type=text], select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const sliding = target.matches?.("input[type=range]");
    if (target.matches?.(".symbol") && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      flip(Number(target.dataset.place), event.key === "ArrowUp" ? 1 : -1);
      event.preventDefault();
    } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !sliding) {
      const next = app.stageIndex + (event.key === "ArrowRight" ? 1 : -1);
      if (next >= 0 && next < app.model.stages.length) {
        stop();
        chosen.stages[chosen.current] = next;
        update("stage");
      }
      event.preventDefault();
    } else if (event.key === " " && !target.matches?.("button, a, summary")) {
      toggle();
      event.preventDefault();
    }
  }

  function hover(event) {
    const t = Number(event.target.closest?.("[data-t]")?.dataset.t) || null;
    if (t === hovered) return;
    hovered = t;
    for (const slot of document.querySelectorAll(".slot.hovered")) slot.classList.remove("hovered");
    if (t) for (const slot of document.querySelectorAll(`.slot[data-t="${t}"]`)) slot.classList.add("hovered");
    Panels.walk(app);
  }

  // Words -----------------------------------------------------------------------------------------------------

  function words() {
    const model = models[main], { about } = model, last = model.stages[model.stages.length - 1];
    const what = task.counter
      ? `adds ${T} numbers modulo ${task.states.length}`
      : `follows the ${task.states.length - task.outputs} states of ${task.name} through ${T} symbols`;
    const share = (about.summary.id_accuracy ?? last.measured.id?.accuracy), right = share === undefined ? "" : ` and is right on ${percent(share)} of newly drawn inputs`;
    const chance = Math.max(...data.inputs.id.shares), lost = share !== undefined && share < chance + 0.5 * (1 - chance);
    const own = last.shown.length, ended = last.stage === about.totalStages, guess = ` (guessing: ${percent(chance, 0)})`;
    element("headline").textContent = model.stages.length < 2 || about.kind === "constructed"
      ? (about.lengthHint ? "One network, every length of answer" : "A network that answers here")
      : about.summary.internalized ? "The words go, the answer stays" : lost ? "A network that lost its thread" : ended ? "The words go, and some answers with them" : "The words did not all go";
    const end = ended && own === 1 ? "At the end it says the answer alone" : `Training ended at stage ${last.stage} of ${about.totalStages}: it still writes ${own} state${own === 1 ? "" : "s"}`;
    const live = about.kind !== "recorded", it = live ? "This small transformer" : about.recorded.why.startsWith("a network") ? "This network" : "This transformer";
    const ask = live ? "change a symbol: the models run in this page" : "or draw another input";
    const tryIt = live ? `${about.lengthHint ? "Drag the budget, change" : "Change"} a symbol: the model runs in this page` : "Draw another input";
    const chain = model.stages.length > 1
      ? `${it} ${what}. First it learned to write down every ${task.counter ? "sum" : "state"} on the way. Then these words were taken away, stage by stage. ${end}${right}${about.summary.internalized ? "" : guess}. Drag the slider, ${ask}.`
      : `${it} ${what}${about.lengthHint ? ". One token in the prompt tells it how long its answer must be. Asked for the answer alone, it" : "; it"}${right.replace(" and", "")}${about.lengthHint || about.summary.succeeded ? "" : guess}. ${tryIt}.`;
    element("lead").textContent = chain;
    if (recorded.length) {
      const note = element("recorded-note");
      note.hidden = false;
      const why = (model) => `${model.about.label}: ${model.about.recorded.why}. `;
      note.textContent = `${recorded.map(why).join("")}You see answers that were recorded, for ${recorded[0].about.recorded.inputs.length} inputs; use the random buttons.`;
      element("typed").disabled = true;
    }
  }

  function footer() {
    const about = app.model.about, kept = models.filter((model) => model.about.keptStages > model.stages.length);
    const lines = [
      h("p", {}, "Keys: ← → change the stage, space plays the film; on a symbol ↑ ↓ change it. Console: ", h("code", {}, "internalize.answer([…symbols], stage, budget)"), "."),
      h("p", {}, `${about.title}: ${about.parameters.toLocaleString("en")} parameters${about.precision ? `, here with ${about.precision === "float16" ? 16 : 32} bits each; ${about.agreement[0].toLocaleString("en")} of ${about.agreement[1].toLocaleString("en")} answers as with 32 bits` : ""}.`),
      h("p", {}, `internalize ${data.made.internalize ?? ""}. This answer took ${Number(document.documentElement.dataset.answer).toFixed(1)} ms, the first one ${Math.round(Number(document.documentElement.dataset.firstAnswer))} ms after the page was opened; the page has ${(pageSize / 1e6).toFixed(1)} MB and makes no request.`),
    ];
    if (kept.length) lines.push(h("p", {}, `To keep the page small it carries ${kept.map((model) => `${model.stages.length} of ${model.about.keptStages} stages of ${model.about.title}`).join(", ")}.`));
    element("footer").replaceChildren(...lines);
  }
  const pageSize = [...document.scripts].reduce((sum, script) => sum + script.textContent.length, 0);

  // From the console, and for tests ---------------------------------------------------------------------------

  /** symbols: names, numbers or one text; stage: its number (the last if not given); budget: tokens with EOS;
   *  model: which of the page's models (the one with the slider if not given). */
  function answer(symbols, stage = null, budget = null, model = main) {
    const given = typeof symbols === "string" ? parse(symbols) : { symbols: symbols.map((s) => (typeof s === "number" ? s : task.symbols.indexOf(String(s)))) };
    const ids = given.symbols;
    if (!ids || ids.length !== T || ids.some((s) => !(s >= 0 && s < task.symbols.length))) throw new RangeError(given.reason ?? `needs ${T} symbols out of ${task.symbols.join(" ")}`);
    const asked = models[model], i = stage === null ? asked.stages.length - 1 : asked.stages.findIndex((s) => s.stage === stage);
    if (i < 0) throw new RangeError(`the page carries the stages ${asked.stages.map((s) => s.stage).join(", ")}`);
    if (budget !== null && !(Number.isInteger(budget) && budget >= 2 && budget <= T + 1)) throw new RangeError(`budget must lie in 2…${T + 1}`);
    const found = asked.answer(ids, i, budget);
    if (found === null) return null;
    return {
      state: found.state < 0 ? null : task.states[found.state],
      right: found.right,
      tokens: found.tokens.map((token) => asked.nameOf(token)),
      ids: found.tokens,
      probabilities: found.probabilities,
      logits: found.logits.map((row) => Array.from(row)),
      passes: found.passes,
      operations: found.operations,
    };
  }

  window.internalize = { answer, models: models.map((model) => model.about.title), task: task.name };

  // Begin -----------------------------------------------------------------------------------------------------

  element("random-id").addEventListener("click", () => setSymbols(draw("id")));
  element("random-ood").addEventListener("click", () => setSymbols(draw("ood")));
  element("random-id").title = `drawn as in training: ${data.inputs.id.name}`;
  element("random-ood").title = `drawn unlike training: ${data.inputs.ood.name}`;
  element("typed").addEventListener("input", (event) => {
    const { symbols, reason } = parse(event.target.value);
    event.target.setAttribute("aria-invalid", String(!symbols));
    help(reason);
    if (symbols) setSymbols(symbols);
  });
  element("typed").addEventListener("blur", () => { element("typed").value = inputText(); element("typed").setAttribute("aria-invalid", "false"); help(); });
  document.addEventListener("keydown", keys);
  document.addEventListener("click", (event) => { if (event.detail > 0) event.target.closest?.("button")?.blur(); });
  element("board").addEventListener("mouseover", hover);
  element("board").addEventListener("mouseleave", hover);
  const narrow = matchMedia("(max-width: 900px)"), placeWalk = () => { // on a phone the board comes first
    document.querySelector(narrow.matches ? ".columns" : ".top")[narrow.matches ? "prepend" : "append"](element("walk-panel"));
  };
  narrow.addEventListener("change", placeWalk);
  placeWalk();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update("stage"));
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; update("stage"); } });

  /** The first input: not a dull one, and the same every time. */
  function firstInput() {
    if (recorded.length) return recorded[0].about.recorded.inputs[0].slice();
    let seed = 20;
    return Array.from({ length: T }, () => {
      seed = (seed * 48271) % 2147483647;
      return Math.floor((((seed >> 7) % 9973) / 9973) * task.symbols.length);
    });
  }

  const longest = T * (Math.max(...task.symbols.map((name) => name.length)) + (single ? 0 : 1));
  element("typed").style.width = `${Math.max(17, Math.min(38, 3 + 0.64 * longest))}rem`;
  words();
  help();
  setSymbols(firstInput());
  return app;
})();
