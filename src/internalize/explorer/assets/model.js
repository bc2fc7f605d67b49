/* The models that answer in the page: a GPT-2 forward pass around its language, and recorded answers.
 *
 * Plain JavaScript on typed arrays. It knows nothing of the page, and runs under Node as well.
 * Weights are 32-bit numbers (perhaps rounded to 16 bits before), sums are made with 64 bits.
 */
"use strict";

const Models = (() => {
  // Numbers out of text ---------------------------------------------------------------------------------------

  function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  let halves = null; // every 16-bit number as a 32-bit one

  function tableOfHalves() {
    halves = new Float32Array(65536);
    for (let bits = 0; bits < 65536; bits++) {
      const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
      if (exponent === 0) halves[bits] = sign * fraction * 2 ** -24;
      else if (exponent === 31) halves[bits] = fraction ? NaN : sign * Infinity;
      else halves[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    }
  }

  /** Little-endian bytes as numbers; precision: float16, float32 or float64. */
  function numbersOf(bytes, precision) {
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    if (precision === "float64") return new Float64Array(buffer);
    if (precision === "float32") return new Float32Array(buffer);
    if (halves === null) tableOfHalves();
    const packed = new Uint16Array(buffer), numbers = new Float32Array(packed.length);
    for (let i = 0; i < packed.length; i++) numbers[i] = halves[packed[i]];
    return numbers;
  }

  /** One long array as a table of arrays: sizes is a list of [name, length]. */
  function cut(numbers, sizes) {
    const table = {};
    let at = 0;
    for (const [name, length] of sizes) {
      table[name] = numbers.subarray(at, at + length);
      at += length;
    }
    if (at !== numbers.length) throw new Error(`expected ${at} weights, found ${numbers.length}`);
    return table;
  }

  // Small pieces ----------------------------------------------------------------------------------------------

  const EPSILON = 1e-5, ROTARY_BASE = 10000;

  function layerNorm(x, gain, bias, out) {
    const d = x.length;
    let mean = 0, square = 0;
    for (let i = 0; i < d; i++) mean += x[i];
    mean /= d;
    for (let i = 0; i < d; i++) square += (x[i] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / d + EPSILON);
    for (let i = 0; i < d; i++) out[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    return out;
  }

  /** out = bias + x·W, where W is stored as (inputs, outputs). */
  function affine(x, weight, bias, out) {
    const outputs = out.length;
    for (let o = 0; o < outputs; o++) out[o] = bias[o];
    for (let i = 0, row = 0; i < x.length; i++, row += outputs) {
      const factor = x[i];
      for (let o = 0; o < outputs; o++) out[o] += factor * weight[row + o];
    }
    return out;
  }

  function gelu(x) {
    for (let i = 0; i < x.length; i++) {
      const v = x[i];
      x[i] = 0.5 * v * (1 + Math.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    }
    return x;
  }

  function softmax(scores) {
    let top = -Infinity, sum = 0;
    for (const score of scores) if (score > top) top = score;
    for (let i = 0; i < scores.length; i++) sum += scores[i] = Math.exp(scores[i] - top);
    for (let i = 0; i < scores.length; i++) scores[i] /= sum;
    return scores;
  }

  function argmax(values, from = 0, to = values.length) {
    let best = from;
    for (let i = from + 1; i < to; i++) if (values[i] > values[best]) best = i;
    return best;
  }

  // GPT-2 -----------------------------------------------------------------------------------------------------

  /** A GPT-2 type transformer, read one token at a time with its keys and values kept. */
  class Transformer {
    /** shape: depth, width, heads, mlp, positions (absolute, rotary or none), vocabulary, context. */
    constructor(shape, weights) {
      this.shape = shape;
      this.weights = weights;
      const { width, mlp } = shape;
      this.normed = new Float64Array(width);
      this.qkv = new Float64Array(3 * width);
      this.mixed = new Float64Array(width);
      this.hidden = new Float64Array(mlp);
      this.update = new Float64Array(width);
    }

    newCache() {
      const { depth, width, context } = this.shape;
      const make = () => Array.from({ length: depth }, () => new Float64Array(context * width));
      return { length: 0, keys: make(), values: make() };
    }

    /** Read one token after those in the cache. Returns the residual stream after the last layer.
     *  record: {attention, stream}, to which this position's weights and streams are added. */
    read(token, cache, record = null) {
      const { depth, width, context, positions } = this.shape;
      const place = cache.length;
      if (place >= context) throw new Error(`reads at most ${context} tokens`);
      const w = this.weights, x = new Float64Array(width);
      for (let i = 0; i < width; i++) x[i] = w["wte.weight"][token * width + i];
      if (positions === "absolute") for (let i = 0; i < width; i++) x[i] += w["wpe.weight"][place * width + i];
      if (record) record.stream.push([x.slice()]);
      if (record) record.attention.push([]);
      for (let layer = 0; layer < depth; layer++) {
        this.attend(x, layer, place, cache, record);
        const name = `h.${layer}.`;
        layerNorm(x, w[name + "ln_2.weight"], w[name + "ln_2.bias"], this.normed);
        gelu(affine(this.normed, w[name + "mlp.c_fc.weight"], w[name + "mlp.c_fc.bias"], this.hidden));
        affine(this.hidden, w[name + "mlp.c_proj.weight"], w[name + "mlp.c_proj.bias"], this.update);
        for (let i = 0; i < width; i++) x[i] += this.update[i];
        if (record) record.stream[place].push(x.slice());
      }
      cache.length = place + 1;
      return x;
    }

    attend(x, layer, place, cache, record) {
      const { width, heads, positions } = this.shape, w = this.weights, name = `h.${layer}.`;
      const size = width / heads, scale = 1 / Math.sqrt(size), qkv = this.qkv;
      layerNorm(x, w[name + "ln_1.weight"], w[name + "ln_1.bias"], this.normed);
      affine(this.normed, w[name + "attn.c_attn.weight"], w[name + "attn.c_attn.bias"], qkv);
      if (positions === "rotary") {
        rotate(qkv, 0, heads, size, place);
        rotate(qkv, width, heads, size, place);
      }
      const keys = cache.keys[layer], values = cache.values[layer];
      for (let i = 0; i < width; i++) {
        keys[place * width + i] = qkv[width + i];
        values[place * width + i] = qkv[2 * width + i];
      }
      const rows = record ? [] : null, scores = new Float64Array(place + 1), mixed = this.mixed.fill(0);
      for (let head = 0; head < heads; head++) {
        const at = head * size;
        for (let j = 0; j <= place; j++) {
          let sum = 0;
          for (let i = at, k = j * width + at; i < at + size; i++, k++) sum += qkv[i] * keys[k];
          scores[j] = sum * scale;
        }
        softmax(scores);
        for (let j = 0; j <= place; j++) {
          const share = scores[j];
          for (let i = at, k = j * width + at; i < at + size; i++, k++) mixed[i] += share * values[k];
        }
        if (rows) rows.push(Float32Array.from(scores));
      }
      if (record) record.attention[place].push(rows);
      affine(mixed, w[name + "attn.c_proj.weight"], w[name + "attn.c_proj.bias"], this.update);
      for (let i = 0; i < width; i++) x[i] += this.update[i];
    }

    /** What the model would say with this stream: the last layer norm, then the tied unembedding. */
    logits(stream) {
      const { width, vocabulary } = this.shape, w = this.weights, out = new Float64Array(vocabulary);
      layerNorm(stream, w["ln_f.weight"], w["ln_f.bias"], this.normed);
      for (let token = 0; token < vocabulary; token++) {
        let sum = 0;
        for (let i = 0, k = token * width; i < width; i++, k++) sum += this.normed[i] * w["wte.weight"][k];
        out[token] = sum;
      }
      return out;
    }
  }

  /** Rotary positions: turn the pairs (i, i + size/2) of every head, from `start` on. */
  function rotate(x, start, heads, size, place) {
    const half = size / 2;
    for (let i = 0; i < half; i++) {
      const angle = place * ROTARY_BASE ** (-i / half), cos = Math.cos(angle), sin = Math.sin(angle);
      for (let head = 0; head < heads; head++) {
        const k = start + head * size + i, a = x[k], b = x[k + half];
        x[k] = a * cos - b * sin;
        x[k + half] = a * sin + b * cos;
      }
    }
  }

  // A model that was trained ----------------------------------------------------------------------------------

  /** The answers of a trained model: its language around its network, at each of its stages. */
  class Trained {
    /** about: the model's part of the page's data; task: symbols, states, table, initial, horizon;
     *  bytes(i): the packed weights of the stage with index i, or of the untrained model for i = -1. */
    constructor(about, task, bytes) {
      this.about = about;
      this.task = task;
      this.bytes = bytes;
      this.networks = new Map();
      this.firstState = task.symbols.length;
      this.eos = this.firstState + task.states.length;
      this.limit = task.horizon + 2;
    }

    get stages() { return this.about.stages; }

    network(i) {
      if (!this.networks.has(i)) {
        const weights = cut(numbersOf(this.bytes(i), this.about.precision), this.about.tensors);
        this.networks.set(i, new Transformer(this.about.shape, weights));
      }
      return this.networks.get(i);
    }

    /** The budget that is meant where none is said: what the stage was measured by where prompts tell the
     *  length (LEN_2 for mixtures), the format's length where EOS was never learned, otherwise null (as long as
     *  the model wants). */
    budget(i, budget) { return budget || this.stages[Math.max(i, 0)].budget; }

    prompt(symbols, budget) {
      const ends = [this.firstState + this.task.initial];
      if (this.about.lengthHint) ends.push(this.eos + budget - 1);
      return [...symbols, ...ends];
    }

    /** Which states the answer should show. */
    format(i, budget) {
      const stage = this.stages[i], T = this.task.horizon;
      if (!budget) return stage.shown;
      const own = stage.formats.find((shown) => shown.length === budget - 1);
      return own || Array.from({ length: budget - 1 }, (_, k) => T - budget + 2 + k);
    }

    /** The t of the last state that the answer should show: T, except at some stages that leave q_T out. */
    target(i, budget) { return this.format(Math.max(i, 0), this.budget(i, budget)).at(-1); }

    answer(symbols, i, budget = null) {
      const chosen = this.budget(i, budget), network = this.network(i), cache = network.newCache();
      let stream = null;
      for (const token of this.prompt(symbols, chosen)) stream = network.read(token, cache);
      return this.write(network, cache, stream, symbols, chosen, this.target(i, budget));
    }

    /** Greedy decoding from a prompt that was read. */
    write(network, cache, stream, symbols, budget, target) {
      const forced = budget && !this.about.lengthHint ? budget - 1 : null;
      const limit = forced === null ? this.limit : forced + 1;
      const tokens = [], probabilities = [], logits = [];
      for (let count = 0; ; count++) {
        const raw = network.logits(stream), allowed = raw.slice();
        if (forced !== null && count < forced) allowed[this.eos] = -Infinity;
        const token = forced === count ? this.eos : argmax(allowed);
        logits.push(raw);
        tokens.push(token);
        probabilities.push(forced === count ? 1 : softmax(allowed)[token]);
        if (token === this.eos || count + 1 === limit) break;
        stream = network.read(token, cache);
      }
      return this.read(tokens, probabilities, logits, symbols, forced !== null, target);
    }

    /** right: the last state is q_T, as the paper counts; onTarget: it is the state that this stage asks for. */
    read(tokens, probabilities, logits, symbols, forced, target) {
      const states = trace(this.task, symbols), ended = tokens[tokens.length - 1] === this.eos, before = tokens[tokens.length - 2] - this.firstState;
      const state = ended && before >= 0 && before < this.task.states.length ? before : -1;
      return {
        tokens, probabilities, logits, forced, state, ended,
        passes: tokens.length,
        operations: this.operations(tokens.length),
        right: state === states[symbols.length],
        onTarget: state === states[target],
      };
    }

    /** Floating-point operations: two for each multiplication of a product; the last token is never read. */
    operations(written) {
      const { depth, width, mlp, vocabulary } = this.about.shape;
      const prompt = this.task.horizon + 1 + (this.about.lengthHint ? 1 : 0);
      let sum = written * 2 * width * vocabulary;
      for (let seen = 1; seen < prompt + written; seen++)
        sum += depth * (2 * (4 * width * width + 2 * width * mlp) + 4 * width * seen);
      return sum;
    }

    /** The answers after each symbol is replaced by each other one: a list of {place, symbol, answer}.
     *  From the last symbol to the first, so that what was read before a replaced symbol is read only once. */
    counterfactuals(symbols, i, budget = null) {
      const chosen = this.budget(i, budget), network = this.network(i), cache = network.newCache();
      const prompt = this.prompt(symbols, chosen), found = [];
      for (const token of prompt) network.read(token, cache);
      for (let place = symbols.length - 1; place >= 0; place--)
        for (let symbol = 0; symbol < this.task.symbols.length; symbol++) {
          if (symbol === symbols[place]) continue;
          cache.length = place;
          let stream = network.read(symbol, cache);
          for (const token of prompt.slice(place + 1)) stream = network.read(token, cache);
          const changed = symbols.slice();
          changed[place] = symbol;
          found.push({ place, symbol, answer: this.write(network, cache, stream, changed, chosen, this.target(i, budget)) });
        }
      return found;
    }

    /** The pass once more with everything kept: the tokens read, attention[layer][head][position] (shares of
     *  the positions up to it) and stream[position][layer] (0: the embedding). */
    inspect(symbols, i, budget = null, answer = null) {
      const network = this.network(i), cache = network.newCache(), record = { attention: [], stream: [] };
      const written = answer || this.answer(symbols, i, budget);
      const tokens = [...this.prompt(symbols, this.budget(i, budget)), ...written.tokens.slice(0, -1)];
      for (const token of tokens) network.read(token, cache, record);
      const { depth, heads } = this.about.shape;
      const attention = Array.from({ length: depth }, (_, layer) =>
        Array.from({ length: heads }, (_, head) => record.attention.map((rows) => rows[layer][head])));
      return { tokens, attention, stream: record.stream, network };
    }

    nameOf(token) {
      const { symbols, states } = this.task;
      if (token < this.firstState) return symbols[token];
      if (token < this.eos) return states[token - this.firstState];
      return token === this.eos ? "end" : `LEN ${token - this.eos + 1}`;
    }
  }

  // Recorded answers ------------------------------------------------------------------------------------------

  /** A model too large for a page: what it answered to some inputs. */
  class Recorded extends Trained {
    constructor(about, task) {
      super(about, task, () => { throw new Error("this model is too large: its answers were recorded"); });
      this.known = new Map(about.recorded.inputs.map((symbols, n) => [symbols.join(" "), n]));
    }

    answer(symbols, i, budget = null) {
      const n = this.known.get(symbols.join(" "));
      if (n === undefined || (budget && budget !== this.budget(i, null))) return null;
      const { tokens, probabilities, operations } = this.about.recorded.answers[i][n];
      const forced = this.stages[i].budget !== null && !this.about.lengthHint;
      return { ...this.read(tokens, probabilities, [], symbols, forced, this.target(i, budget)), operations };
    }
  }

  // The task, and probes --------------------------------------------------------------------------------------

  /** q_0 … q_T. */
  function walk(task, symbols) {
    const states = [task.initial];
    for (const symbol of symbols) states.push(task.table[states[states.length - 1]][symbol]);
    return states;
  }

  /** What should be said: q_0 … q_T, or the output of q_T in its place where the task has outputs. */
  function trace(task, symbols) {
    const states = walk(task, symbols);
    return task.output ? [...states.slice(0, -1), task.output[states[symbols.length]]] : states;
  }

  function lastState(task, symbols) {
    return trace(task, symbols)[symbols.length];
  }

  /** Linear probes packed as: scales, biases (32 bits each), then 8-bit weights; one group of classes-1 rows
   *  for each entry of `targets`, a list of [layer, position, t]. The last class takes what is left of 1. */
  class Probes {
    constructor(bytes, targets, classes, width) {
      const rows = targets.length * (classes - 1);
      this.targets = targets;
      this.classes = classes;
      this.width = width;
      this.scales = numbersOf(bytes.subarray(0, 4 * rows), "float32");
      this.biases = numbersOf(bytes.subarray(4 * rows, 8 * rows), "float32");
      this.weights = new Int8Array(bytes.slice(8 * rows, 8 * rows + rows * width).buffer);
    }

    /** The state that probe n reads in a residual stream. */
    read(n, stream) {
      const shares = new Float64Array(this.classes);
      let rest = 1;
      for (let c = 0; c < this.classes - 1; c++) {
        const row = n * (this.classes - 1) + c;
        let sum = 0;
        for (let i = 0, k = row * this.width; i < this.width; i++, k++) sum += this.weights[k] * stream[i];
        shares[c] = sum * this.scales[row] + this.biases[row];
        rest -= shares[c];
      }
      shares[this.classes - 1] = rest;
      return argmax(shares);
    }
  }

  return { Trained, Recorded, Transformer, Probes, bytesOf, numbersOf, cut, softmax, argmax, walk, trace, lastState };
})();

if (typeof module !== "undefined") module.exports = Models;
