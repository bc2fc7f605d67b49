/* The page of text runs: a question, what remains of the chain at every stage, and the answer. All was recorded. */
"use strict";

(() => {
  const { h, percent } = Drawing;
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent);
  const { rows, models } = data;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const most = Math.max(...models.map((model) => model.stages.length));
  const main = models.findIndex((model) => model.stages.length === most);
  const chosen = { row: 0, current: main, stages: models.map((model, m) => (m === main ? 0 : model.stages.length - 1)), file: data.files[0].name };
  let playing = 0, found = "";

  const model = () => models[chosen.current];
  const stageIndex = () => chosen.stages[chosen.current];
  const stage = () => model().stages[stageIndex()];
  const nameOf = (about, i) => (about.mixture ? `budget ${about.stages[i].stage}` : `stage ${about.stages[i].stage}`);

  /** What was recorded: {said, places, answer, right, tokens}. */
  function recorded(m, i, r) {
    const [said, places, answer, right, tokens] = models[m].answers[i][r];
    return { said, places, answer, right, tokens };
  }

  // The question ----------------------------------------------------------------------------------------------

  function choose() {
    const here = rows.flatMap((row, r) => (row.file === chosen.file ? [r] : [])), at = here.indexOf(chosen.row);
    const step = (by) => go(here[(Math.max(0, at) + by + here.length) % here.length]);
    const files = data.files.length < 2 ? [] : [h("div", { class: "buttons", role: "group", "aria-label": "File" }, data.files.map((file) =>
      h("button", { type: "button", "aria-pressed": String(file.name === chosen.file), title: file.name === "id" ? "held-out questions, as in training" : `the file named ${file.name}`,
        onclick: () => { chosen.file = file.name; go(rows.findIndex((row) => row.file === file.name)); } }, file.name === "id" ? "as in training (id)" : file.name)))];
    const seek = (text, title, fits) => h("button", { type: "button", title, onclick: () => find(here, at, fits, text) }, text);
    const last = model().stages.length - 1, other = stageIndex() === last ? 0 : last;
    element("choose").replaceChildren(...files,
      h("div", { class: "buttons" },
        h("button", { type: "button", "aria-label": "Previous question", onclick: () => step(-1) }, "←"),
        h("button", { type: "button", id: "next", onclick: () => step(1) }, "Next question"),
        seek("One that is wrong here", "The next question to which this stage gives a wrong answer", (r) => !recorded(chosen.current, stageIndex(), r).right),
        last > 0 ? seek(`One where ${nameOf(model(), other)} differs`, "The next question to which the two give different answers", (r) => recorded(chosen.current, stageIndex(), r).answer !== recorded(chosen.current, other, r).answer) : null),
      h("p", { class: "help", role: "status" }, found || `question ${at + 1} of ${here.length}`));
  }

  function find(here, at, fits, text) {
    for (let k = 1; k <= here.length; k++) {
      const r = here[(at + k) % here.length];
      if (fits(r)) { go(r); return; }
    }
    found = `${text}: there is none among these ${here.length}`;
    choose();
  }

  function go(r) { chosen.row = r; found = ""; update("input"); }

  function goTo(m, i) { chosen.current = m; chosen.stages[m] = i; stop(); update("stage"); }

  // What was said ---------------------------------------------------------------------------------------------

  const shown = (text) => (text.trim() === "" ? text.replaceAll("\n", "↵").replaceAll(" ", "␣") || "∅" : text.replaceAll("\n", "↵").trim());

  /** The whole chain in a line: words that are gone are faint, those that were said are marked right or wrong. */
  function line(m, i, how) {
    const row = rows[chosen.row], { said, places, answer, right } = recorded(m, i, chosen.row);
    const at = new Map(places.map((place, k) => [place, k])), parts = [];
    let order = 0;
    const delay = () => (how === "film" && m === chosen.current && !calm.matches ? `animation-delay:${order++ * 60}ms` : null);
    const chip = (text, tone, title) => {
      const made = h("span", { class: `word ${tone}`, title }, shown(text)), wait = delay();
      if (wait !== null) { made.style.animationDelay = wait.split(":")[1]; made.classList.add("typed-in"); }
      return made;
    };
    row.chain.forEach((truth, place) => {
      const k = at.get(place);
      if (k === undefined) parts.push(h("span", { class: "word gone", title: "no longer said" }, shown(truth)));
      else if (k >= said.length) parts.push(h("span", { class: "word missing", title: `missing: ${truth}` }, shown(truth)));
      else parts.push(said[k] === truth ? chip(said[k], "right", "as in the true chain") : chip(said[k], "wrong", `the true chain has ${truth}`));
    });
    said.slice(places.length).forEach((text) => parts.push(chip(text, "wrong", "more than it should write")));
    parts.push(h("span", { class: "arrow", "aria-hidden": "true" }, "→"));
    parts.push(chip(answer === null ? "no answer" : answer, right ? "answer right" : "answer wrong", right ? "the right answer" : `the right answer is ${row.answer}`));
    if (!right) parts.push(h("span", { class: "truth-beside" }, `right: ${row.answer}`));
    return h("div", { class: "flow" }, parts);
  }

  function said(how) {
    const row = rows[chosen.row], longest = Math.max(1, ...models.map((_, m) => recorded(m, chosen.stages[m], chosen.row).tokens), row.chain.length + 2);
    const order = [chosen.current, ...models.keys()].filter((m, k, all) => all.indexOf(m) === k);
    const truth = h("div", { class: "said-row" },
      h("div", { class: "row-label" }, h("strong", {}, "What is true"), h("small", {}, row.chain.length ? "the whole chain, and the answer" : "the answer")),
      h("div", { class: "flow" }, row.chain.map((text) => h("span", { class: "word truth" }, shown(text))), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), h("span", { class: "word truth goal" }, shown(row.answer))),
      h("div", {}));
    const all = order.map((m) => {
      const about = models[m], i = chosen.stages[m], { tokens } = recorded(m, i, chosen.row);
      return h("div", { class: `said-row${m === chosen.current ? " current" : ""}` },
        h("div", { class: "row-label" }, h("button", { class: "model-name", type: "button", onclick: () => goTo(m, chosen.stages[m]) }, about.label), h("small", {}, about.stages.length > 1 ? nameOf(about, i) : about.method)),
        line(m, i, how),
        h("div", { class: "row-cost" }, h("div", { class: "cost" }, h("div", { class: "bar" }, bar(tokens / longest)), h("span", {}, `${tokens} tokens`))));
    });
    element("question").replaceChildren(row.question);
    element("said").replaceChildren(truth, ...all);
  }

  function bar(share) {
    const made = h("span", {});
    made.style.width = `${100 * share}%`;
    return made;
  }

  function stageRow() {
    const about = model(), count = about.stages.length, { measured, label } = stage();
    if (count < 2) { element("stage-row").replaceChildren(); return; }
    const slider = h("input", { type: "range", id: "stage", min: 0, max: count - 1, step: 1, value: stageIndex(), "aria-label": about.mixture ? "Budget" : "Stage", "aria-valuetext": `${nameOf(about, stageIndex())}: ${label}`,
      oninput: (event) => { stop(); chosen.stages[chosen.current] = Number(event.target.value); update("stage"); } });
    const every = Math.ceil(count / 24);
    const ticks = h("div", { class: "ticks", "aria-hidden": "true" }, about.stages.map((one, i) => h("span", { class: i === stageIndex() ? "here" : null }, i % every === 0 || i === count - 1 ? String(one.stage) : "")));
    const right = Object.entries(measured).map(([name, { accuracy }]) => `${name} ${percent(accuracy)}`).join(", ");
    const focused = document.activeElement?.id === "stage";
    element("stage-row").replaceChildren(h("div", { class: "stage-row" },
      h("div", { class: "stage-controls" }, h("button", { class: "play", type: "button", "aria-label": playing ? "Stop" : "Play all stages", onclick: toggle }, playing ? "❚❚" : "▶"), h("div", { class: "slider" }, slider, ticks)),
      h("div", { class: "stage-words" }, h("p", {}, h("strong", {}, nameOf(about, stageIndex())), `: ${about.mixture ? "asked for " : about.pauses ? "pauses instead of the rest, " : ""}${label}`), right ? h("p", { class: "measured" }, `right answers: ${right}`) : null)));
    if (focused) element("stage").focus({ preventScroll: true });
  }

  // Panels ----------------------------------------------------------------------------------------------------

  function curve() {
    const { curve: known, mixture } = model(), names = Object.keys(known.files), panel = element("curve-panel");
    panel.hidden = known.iteration.length < 2;
    if (panel.hidden) return;
    const beside = names.find((name) => name !== names[0] && name === chosen.file) ?? names[1];
    const lines = [{ name: names[0] === "id" ? "id: held-out questions, as in training" : names[0], values: known.files[names[0]], tone: "id" }];
    if (beside) lines.push({ name: `${beside}: another file of questions`, values: known.files[beside], tone: "ood" });
    element("curve-text").textContent = `Share of exactly right answers over training. ${mixture ? "Asked for the direct answer." : "Each dotted line ends a stage; the coloured part is the one you see above. Click to go to another."} Chance: always the commonest answer.`;
    Drawing.curve(element("curve"), { iterations: known.iteration, stages: known.stage, lines, chance: data.files[0].chance, current: mixture ? null : stage().stage,
      go: (number) => { const i = model().stages.findIndex((one) => one.stage === number); if (i >= 0 && !mixture) goTo(chosen.current, i); } });
  }

  function matrix() {
    const known = model().matrix, panel = element("matrix-panel");
    panel.hidden = !known;
    if (!known) return;
    const file = known.files[chosen.file] ? chosen.file : Object.keys(known.files)[0], values = known.files[file], at = known.stages.indexOf(stage().stage);
    element("matrix-text").textContent = `Rows: stages. Columns: how many tokens the model is made to write before its answer. Cells: per cent of right answers, at most ${known.samples} questions of ${file}. Outlined: what the stage you see was trained to write. Click to go to a stage.`;
    Drawing.grid(element("matrix"), { columns: known.budgets.map(String), rows: known.stages.map((one) => `stage ${one}`), most: 34,
      label: `Right answers of ${known.stages.length} stages at ${known.budgets.length} budgets of tokens`,
      cell: (i, k) => ({ shade: values[i][k] ** 2, text: String(Math.round(100 * values[i][k])), mark: i === at && known.budgets[k] === known.own[i] }),
      choose: (i) => goTo(chosen.current, model().stages.findIndex((one) => one.stage === known.stages[i])) });
  }

  function all() {
    const about = model(), here = rows.flatMap((row, r) => (row.file === chosen.file ? [r] : []));
    const wrong = here.filter((r) => !recorded(chosen.current, stageIndex(), r).right).length;
    element("all-text").textContent = `Each column is one of the ${here.length} recorded questions of ${chosen.file}, each row a ${about.mixture ? "budget" : "stage"} of the model “${about.label}”. Filled: the answer is right. Struck through: it is wrong. At ${nameOf(about, stageIndex())}, ${wrong === 0 ? "all are right" : wrong === 1 ? "one is wrong" : `${wrong} of ${here.length} are wrong`}. Click to look at one.`;
    Drawing.grid(element("all"), { columns: here.map(() => ""), rows: about.stages.map((_, i) => nameOf(about, i)), least: 10, most: 22,
      label: `${here.length} questions at ${about.stages.length} stages; ${wrong} wrong at ${nameOf(about, stageIndex())}`,
      cell: (i, k) => { const { right } = recorded(chosen.current, i, here[k]); return { shade: right ? 0.55 : 0.25, tone: right ? "accent" : "wrong", mark: i === stageIndex() && here[k] === chosen.row }; },
      choose: (i, k) => { chosen.row = here[k]; goTo(chosen.current, i); } });
  }

  function words() {
    const about = models[main], last = about.stages[about.stages.length - 1];
    const share = about.summary.id_accuracy ?? last.measured.id?.accuracy, chance = data.files[0].chance;
    const lost = share !== undefined && share < chance + 0.5 * (1 - chance);
    const many = about.stages.length > 1, begun = about.curve.files.id?.[0], never = lost && begun !== undefined && begun < 0.5;
    element("headline").textContent = about.mixture ? "One model, every length of answer" : !many ? "A language model answers" : never ? "A model that never learned its chain" : lost ? "A model that lost its thread" : "The words go, the answer stays";
    const right = share === undefined ? "" : ` It is right on ${percent(share)} of the questions held out${lost ? ` (always the commonest answer: ${percent(chance, 0)})` : ""}.`;
    const story = about.mixture ? "One token in front tells it how many words it may write before the answer." : about.pauses ? "First it learned to answer with a chain of words. Then pauses took their place, stage by stage." : many ? "First it learned to answer with a chain of words. Then the words were taken away, stage by stage." : "";
    element("lead").textContent = `This language model has ${about.parameters.toLocaleString("en")} parameters and was trained on ${data.data}. ${story}${right} You see answers that were recorded, to ${rows.length} questions.${many ? ` Drag the slider: what is faint is no longer said.` : ""}`;
  }

  function footer() {
    const about = model();
    element("footer").replaceChildren(
      h("p", {}, "Keys: ← → change the stage, space plays all stages, n shows the next question. Console: ", h("code", {}, "internalize.answer(question, stage)"), "."),
      h("p", {}, `${about.title}: ${about.stages.length} of ${about.mixture ? "its budgets" : `${about.keptStages} kept stages`}. internalize ${data.made.internalize ?? ""}. This page makes no request.`));
  }

  // Update, keys, film ----------------------------------------------------------------------------------------

  let waiting = 0, drawn = 0;

  function update(how) {
    choose();
    stageRow();
    said(how);
    curve();
    matrix();
    all();
    footer();
    if (!document.documentElement.dataset.firstAnswer) document.documentElement.dataset.firstAnswer = performance.now().toFixed(1);
    document.documentElement.dataset.drawn = String(++drawn);
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const { answer, right, tokens } = recorded(chosen.current, stageIndex(), chosen.row);
      element("spoken").textContent = `${nameOf(model(), stageIndex())}: ${answer ?? "no answer"}, ${right ? "right" : "wrong"}, ${tokens} tokens.`;
    }, 400);
  }

  function toggle() {
    if (playing) { stop(); update("stage"); return; }
    const count = model().stages.length;
    if (count < 2) return;
    if (stageIndex() === count - 1) chosen.stages[chosen.current] = 0;
    playing = 1;
    frame();
  }

  function frame() {
    update("film");
    playing = setTimeout(() => {
      if (stageIndex() >= model().stages.length - 1) { stop(); update("stage"); return; }
      chosen.stages[chosen.current]++;
      frame();
    }, (calm.matches ? 0 : 60 * recorded(chosen.current, stageIndex(), chosen.row).tokens) + 700);
  }

  function stop() { clearTimeout(playing); playing = 0; }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input[type=text], select")) return;
    if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !event.target.matches?.("input[type=range]")) {
      const next = stageIndex() + (event.key === "ArrowRight" ? 1 : -1);
      if (next >= 0 && next < model().stages.length) goTo(chosen.current, next);
      event.preventDefault();
    } else if (event.key === " " && !event.target.matches?.("button, a")) { toggle(); event.preventDefault(); }
    else if (event.key === "n") element("next").click();
  });
  document.addEventListener("click", (event) => { if (event.detail > 0) event.target.closest?.("button")?.blur(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update("stage"));
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; update("stage"); } });

  /** question: its text; stage: its number (the last if not given); model: which of the page's. */
  function answer(question, number = null, m = main) {
    const r = rows.findIndex((row) => row.question === question), about = models[m];
    if (r < 0) return null;
    const i = number === null ? about.stages.length - 1 : about.stages.findIndex((one) => one.stage === number);
    if (i < 0) throw new RangeError(`the page carries ${about.stages.map((one) => one.stage).join(", ")}`);
    const { said, answer, right, tokens } = recorded(m, i, r);
    return { chain: said, answer, right, tokens, truth: rows[r].answer };
  }

  window.internalize = { answer, models: models.map((about) => about.title), questions: rows.map((row) => row.question) };
  words();
  update("input");
})();
