// What the page's models say, without a browser: node answer.js PAGE < question.json
// question: {"model": m, "stage": index, "budget": null or tokens, "inputs": [[symbols]], "want": "answers" | …}
"use strict";
const fs = require("fs");
const path = require("path");
const Models = require(path.join(process.argv[2], "model.js"));
require(path.join(process.argv[2], "construction.js"));

const html = fs.readFileSync(process.argv[3], "utf8");
const block = (id) => html.match(new RegExp(`id="${id}">([^<]*)</script>`))[1];
const data = JSON.parse(block("data"));
const { task } = data;
const models = data.models.map((about, m) => {
  const bytes = (i) => Models.bytesOf(block(`weights-${m}-${i < 0 ? "untrained" : i}`));
  if (about.kind === "constructed") return new Models.Constructed(about, task, bytes(0));
  if (about.kind === "recorded") return new Models.Recorded(about, task);
  return new Models.Trained(about, task, bytes);
});

/** What the probes of a stage read at every target, for one input whose answer is the true chain. */
function read(question, symbols) {
  const { about } = models[question.model], width = about.shape.width;
  const packed = Models.bytesOf(block(`probes-${question.model}-${question.stage}`)), half = packed.length / 2;
  const probes = new Models.Probes(packed.subarray(0, half), question.targets, task.states.length, width);
  const network = models[question.model].network(question.stage), cache = network.newCache();
  const record = { attention: [], stream: [] };
  for (const token of question.tokens) network.read(token, cache, record);
  return question.targets.map(([layer, place], n) => probes.read(n, record.stream[place][layer]));
}

function respond(question) {
  const model = models[question.model];
  if (question.want === "probes") return read(question);
  if (question.want === "inspect") {
    const seen = model.inspect(question.inputs[0], question.stage, question.budget);
    return { tokens: seen.tokens, attention: seen.attention.map((heads) => heads.map((rows) => rows.map((row) => Array.from(row)))), stream: seen.stream.map((layers) => layers.map((x) => Array.from(x))) };
  }
  if (question.want === "counterfactuals")
    return model.counterfactuals(question.inputs[0], question.stage, question.budget).map((f) => [f.place, f.symbol, f.answer.tokens]);
  return question.inputs.map((symbols) => {
    const found = model.answer(symbols, question.stage, question.budget);
    if (found === null) return null;
    const logits = question.want === "logits" ? found.logits.map((row) => Array.from(row)) : [];
    return { tokens: found.tokens, state: found.state, right: found.right, passes: found.passes, operations: found.operations, probabilities: found.probabilities, logits };
  });
}

const questions = JSON.parse(fs.readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(questions.map(respond)));
