/* The transformer of the paper's theorem 3, with weights written by hand, answering like the trained ones.
 *
 * No residual, no layer norm, heads that are summed; all numbers have 64 bits. Runs under Node as well.
 */
"use strict";

((Models) => {
  const { cut, numbersOf, softmax, lastState } = Models;

  /** Weights written by hand: softmax attention whose heads are summed, a ReLU network, nothing else. */
  class Constructed {
    constructor(about, task, bytes) {
      this.about = about;
      this.task = task;
      this.weights = cut(numbersOf(bytes, "float64"), about.tensors);
    }

    get stages() { return this.about.stages; }

    format() { return [this.task.horizon]; }

    budget() { return null; }

    target() { return this.task.horizon; }

    /** What every position holds after each layer, and the attention of each layer and head. */
    inspect(symbols) {
      const { positions, depth, heads } = this.about.shape, E = this.about.shape.embedding;
      const tokens = [...symbols.map(() => 0), ...symbols, this.task.initial], w = this.weights;
      let x = tokens.map((token, p) =>
        Float64Array.from({ length: E }, (_, i) => w.tokens[token * E + i] + w.positions[p * E + i]));
      const attention = [], stream = tokens.map((_, p) => [x[p]]);
      for (let layer = 0; layer < depth; layer++) {
        const total = tokens.map(() => new Float64Array(E));
        attention.push([]);
        for (let head = 0; head < heads; head++) attention[layer].push(this.attend(x, layer, head, total));
        x = total.map((mixed) => this.mlp(mixed, layer));
        for (let p = 0; p < positions; p++) stream[p].push(x[p]);
      }
      return { tokens, attention, stream };
    }

    attend(x, layer, head, total) {
      const { embedding: E, headSize: size } = this.about.shape, name = `${layer}.${head}.`;
      const read = (part) => x.map((v) => product(this.weights[name + part], v, size));
      const queries = read("query"), keys = read("key"), values = read("value"), rows = [];
      for (let p = 0; p < x.length; p++) {
        const scores = new Float64Array(p + 1), mixed = new Float64Array(size);
        for (let j = 0; j <= p; j++) for (let i = 0; i < size; i++) scores[j] += queries[p][i] * keys[j][i];
        softmax(scores);
        for (let j = 0; j <= p; j++) for (let i = 0; i < size; i++) mixed[i] += scores[j] * values[j][i];
        const out = product(this.weights[name + "output"], mixed, E);
        for (let i = 0; i < E; i++) total[p][i] += out[i];
        rows.push(Float32Array.from(scores));
      }
      return rows;
    }

    mlp(x, layer) {
      const count = this.about.shape.mlpLayers;
      for (let k = 0; k < count; k++) {
        const bias = this.weights[`${layer}.bias.${k}`];
        x = product(this.weights[`${layer}.weight.${k}`], x, bias.length);
        for (let i = 0; i < x.length; i++) {
          x[i] += bias[i];
          if (k < count - 1 && x[i] < 0) x[i] = 0;
        }
      }
      return x;
    }

    /** The numbers that the last position holds, as a state; -1 where they are no state's. */
    decode(registers) {
      const { sizes, states } = this.about;
      let index = 0;
      for (let k = 0; k < sizes.length; k++) {
        const value = Math.round(registers[k]);
        if (!(value >= 0 && value < sizes[k])) return -1;
        index = index * sizes[k] + value;
      }
      return states[index];
    }

    answer(symbols) {
      const { stream } = this.inspect(symbols), last = stream[stream.length - 1];
      const state = this.decode(last[last.length - 1]), right = state === lastState(this.task, symbols), tokens = [this.task.symbols.length + state];
      return {
        tokens, probabilities: [1], logits: [], forced: false, state, ended: true,
        passes: 1, operations: this.about.operations, right, onTarget: right,
      };
    }

    counterfactuals(symbols) {
      const found = [];
      for (let place = symbols.length - 1; place >= 0; place--)
        for (let symbol = 0; symbol < this.task.symbols.length; symbol++) {
          if (symbol === symbols[place]) continue;
          const changed = symbols.slice();
          changed[place] = symbol;
          found.push({ place, symbol, answer: this.answer(changed) });
        }
      return found;
    }

    nameOf(token) { return this.task.states[token - this.task.symbols.length] ?? "none"; }
  }

  /** (outputs, inputs) matrix times a vector. */
  function product(matrix, x, outputs) {
    const out = new Float64Array(outputs), inputs = x.length;
    for (let o = 0, k = 0; o < outputs; o++) for (let i = 0; i < inputs; i++, k++) out[o] += matrix[k] * x[i];
    return out;
  }

  Models.Constructed = Constructed;
})(typeof module === "undefined" ? Models : require("./model.js"));
