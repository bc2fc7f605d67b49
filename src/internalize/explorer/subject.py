"""A chain run as the page needs it: all that the explorer asks of runs and of analysis goes through here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from internalize.analysis.matrix import forced_hits
from internalize.analysis.open_run import OpenChain, TracedInputs, open_chain
from internalize.analysis.probe import stream_of
from internalize.constructions.counter import CounterConstruction, build_counter
from internalize.curricula import Shown
from internalize.errors import BadInput
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.evaluation import modes
from internalize.measure.predictor import TransformerPredictor
from internalize.measure.probes import count_hits, solve_probes
from internalize.models.gpt2 import GPT2
from internalize.sequences import Renderer
from internalize.tasks import Semiautomaton

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Subject:
    """One run: its task, its stages, what was measured, and its models."""

    chain: OpenChain

    @property
    def title(self) -> str:
        return self.chain.title

    @property
    def path(self) -> Path:
        return self.chain.run.path

    @property
    def config(self) -> ChainConfig:
        return self.chain.experiment.config

    @property
    def task(self) -> Semiautomaton:
        return self.chain.experiment.task

    @property
    def renderer(self) -> Renderer:
        return self.chain.experiment.renderer

    @property
    def parameters(self) -> int:
        return self.chain.experiment.costs.parameters()

    @property
    def obstacle(self) -> str:
        """Why the page's own forward pass cannot run this model, in words; empty if it can."""
        if self.config.model.network is not None:
            return "a network of your own, which does not run in a page"
        if self.config.answer_positions is not None:
            return "its positions count from the end, which those of a page do not"
        return "its prompts hold pauses, which a page does not write" if self.renderer.vocabulary.pauses else ""

    @cached_property
    def stages(self) -> list[int]:
        return list(self.chain.stages)

    @property
    def total_stages(self) -> int:
        """Of the curriculum, though the training may have ended before the last one."""
        return self.chain.experiment.curriculum.stages

    def stage_label(self, stage: int) -> str:
        return self.chain.experiment.curriculum.label(stage)

    def shown(self, stage: int) -> Shown:
        return self.chain.own_shown(stage)

    def own_budget(self, stage: int) -> int | None:
        """Tokens that the stage is asked for if nobody says otherwise; None: as many as the model wants."""
        if self.config.scored == "states":
            return len(self.shown(stage)) + 1
        return modes(self.chain.experiment.curriculum, stage)[0].budget

    def formats(self, stage: int) -> tuple[Shown, ...]:
        return self.chain.experiment.curriculum.formats(stage)

    def evaluations(self) -> list[dict[str, Any]]:
        return list(self.chain.run.metrics("evaluation"))

    def summary(self) -> dict[str, Any]:
        """The final results; empty for a run that is not finished."""
        status = self.chain.run.status()
        return dict(status.get("summary", {}))

    def provenance(self) -> dict[str, Any]:
        return self.chain.run.provenance()

    def inputs(self) -> dict[str, tuple[str, list[float]]]:
        """id, ood → the distribution's name and the probability of each symbol."""
        return {k: (d.name, list(d.probabilities)) for k, d in self.chain.both_inputs().items()}

    def final_shares(self) -> dict[str, list[float]]:
        """id, ood → how often inputs end in each state."""
        return {k: self.chain.final_shares(d).tolist() for k, d in self.chain.both_inputs().items()}

    def draw(self, name: str, samples: int, purpose: str) -> TracedInputs:
        """Fresh inputs of the distribution `id` or `ood`."""
        return self.chain.draw(self.chain.both_inputs()[name], samples, 0, f"explorer/{purpose}")

    def predictor(self, stage: int) -> TransformerPredictor:
        """The model of a stage, asked as its curriculum asked it."""
        return self.chain.predictor(None, stage)

    def predictor_of(self, stage: int, weights: Weights) -> TransformerPredictor:
        """The same with other weights."""
        predictor = self.predictor(stage)
        predictor.model.load(weights, "explorer")
        return TransformerPredictor(predictor.model, predictor.renderer, predictor.budget)

    def weights(self, stage: int) -> Weights:
        return {name: tensor.cpu() for name, tensor in self.chain.model(stage).weights().items()}

    def untrained(self) -> Weights:
        """What the run began with."""
        return {name: tensor.cpu() for name, tensor in self.chain.untrained().weights().items()}

    def accuracy_by_budget(self, stage: int, name: str, samples: int) -> list[float]:
        """For K = 1 … T: how often the last of K states that the model writes itself is q_T. This is one row of
        the internalization matrix, free-running, on the inputs `id` or `ood`."""
        hits, _ = forced_hits(self.predictor(stage), self.draw(name, samples, "matrix"))
        return [count / samples for count in hits]

    def probes(self, weights: Weights, shown: Shown, samples: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """Linear probes for every layer, position and state, fitted to the model with these weights.

        Returns for each layer (positions, width+1, T·classes) weights; how often they are right on inputs that
        they were not fitted to (layers+1, positions, T); and the share of the commonest q_t there (T,).
        """
        examples = self.chain.draw(self.chain.experiment.inputs, samples, 0, "explorer/probes")
        tokens = self.renderer.sequence(examples.symbols, examples.states, shown)[:, :-1]
        model = self.chain.experiment.new_model()
        if not isinstance(model, GPT2):
            raise BadInput("run", f"{self.title} trained a network of its own: only GPT-2 can be looked into")
        model.load(weights, "explorer")
        fitted, classes, labels = 2 * samples // 3, self.task.states, examples.states[:, 1:].cpu()
        probes = solve_probes(stream_of(model), tokens[:fitted], labels[:fitted], classes)
        held = labels[fitted:]
        hits = count_hits(stream_of(model), tokens[fitted:], held, classes, probes)
        commonest = torch.stack([column.bincount().max() for column in held.T])
        return probes, hits.double() / len(held), commonest.double() / len(held)

    def construction(self) -> CounterConstruction | None:
        """The transformer of theorem 3 for the same task, where the task is a counter."""
        n, table = self.task.states, self.task.table.cpu()
        numbers = torch.arange(n)
        if n < 2 or self.task.symbols != n or not bool((table == (numbers[:, None] + numbers) % n).all()):
            return None
        return build_counter(n, self.config.horizon, self.renderer.initial_state)


def open_subject(path: Path | str) -> Subject:
    """path: the run's folder or the beginning of its hash."""
    return Subject(open_chain(path, "cpu"))


PROBE_SAMPLES = 900
"""Inputs for the probes: two thirds to fit them, the rest to test them."""

Json = dict[str, Any]


def round_weights(weights: Weights, precision: str) -> Weights:
    """The weights as the page will have them, again as 32-bit numbers."""
    if precision == "float32":
        return weights
    return {name: tensor.half().float() for name, tensor in weights.items()}


def pack_weights(weights: Weights, precision: str) -> bytes:
    """All tensors one after another, little-endian."""
    kind = "<f2" if precision == "float16" else "<f4"
    return b"".join(tensor.numpy().astype(kind).tobytes() for tensor in weights.values())


def probe_targets(layers: int, prompt: int, horizon: int, shown: Shown) -> list[tuple[int, int, int]]:
    """(layer, position, t) of every probe: at σ_i the states q_1 … q_i, which alone are determined there;
    from q_0 on all of them."""
    places = prompt + len(shown)
    return [
        (layer, place, t)
        for layer in range(layers + 1)
        for place in range(places)
        for t in range(1, min(place + 1, horizon) + 1)
    ]


def probes_size(subject: Subject, shown: Shown) -> int:
    """Bytes that `pack_probes` will take, before anything is fitted."""
    shape, prompt = subject.config.model, subject.renderer.prompt_length(len(shown) + 1)
    count = len(probe_targets(shape.depth, prompt, subject.config.horizon, shown))
    return 2 * count * (subject.task.states - 1) * (8 + shape.width)


def pack_probes(subject: Subject, weights: Weights, start: Weights, shown: Shown) -> tuple[Json, bytes]:
    """The probes of a stage's model and those of the untrained one: how good they are, and their weights."""
    T, prompt = subject.config.horizon, subject.renderer.prompt_length(len(shown) + 1)
    targets = probe_targets(subject.config.model.depth, prompt, T, shown)
    content, right, chance = b"", [], torch.zeros(T)
    for chosen in (weights, start):
        probes, accuracy, chance = subject.probes(chosen, shown, PROBE_SAMPLES)
        content += _pack_one(probes, targets, subject.task.states)
        right.append([round(float(accuracy[layer, place, t - 1]), 3) for layer, place, t in targets])
    about = {
        "trained": right[0],
        "untrained": right[1],
        "chance": [round(float(share), 3) for share in chance],
    }
    return about, content


def _pack_one(probes: list[Tensor], targets: list[tuple[int, int, int]], classes: int) -> bytes:
    """Scales and biases with 32 bits, then weights with 8 bits. The last class is left out: a probe's outputs
    sum to one."""
    rows, biases = [], []
    for layer, place, t in targets:
        columns = probes[layer][place][:, (t - 1) * classes : t * classes - 1].T  # (classes-1, width+1)
        rows.append(columns[:, :-1])
        biases.append(columns[:, -1])
    weight = torch.cat(rows).numpy()
    scale = np.maximum(np.abs(weight).max(axis=1), 1e-12) / 127
    small = np.round(weight / scale[:, None]).astype(np.int8)
    parts = scale.astype("<f4"), torch.cat(biases).numpy().astype("<f4"), small
    return b"".join(part.tobytes() for part in parts)


def pack_construction(construction: CounterConstruction) -> tuple[Json, bytes]:
    """The transformer of theorem 3, with all its 64 bits."""
    network, shape = construction.network, construction.shape
    tensors: dict[str, Tensor] = {"tokens": network.tokens, "positions": network.positions}
    for i, layer in enumerate(network.blocks):
        attention = layer.attention
        for head in range(shape.heads):
            for part in ("query", "key", "value", "output"):
                tensors[f"{i}.{head}.{part}"] = getattr(attention, part)[head]
        for k, (weight, bias) in enumerate(zip(layer.mlp.weights, layer.mlp.biases, strict=True)):
            tensors |= {f"{i}.weight.{k}": weight, f"{i}.bias.{k}": bias}
    T = construction.horizon
    about = {
        "kind": "constructed",
        "title": "theorem 3",
        "method": "constructed",
        "label": "Written by hand",
        "parameters": shape.parameters,
        "shape": {
            "depth": shape.depth,
            "heads": shape.heads,
            "positions": shape.positions,
            "embedding": shape.embedding,
            "headSize": shape.head_size,
            "mlp": shape.mlp_width,
            "mlpLayers": len(shape.mlp_widths) + 1,
        },
        "registers": list(construction.register_names()),
        "sizes": list(construction.unembedding.sizes),
        "states": construction.unembedding.states.tolist(),
        "operations": shape.flops,
        "tensors": [[name, tensor.numel()] for name, tensor in tensors.items()],
        "lengthHint": False,
        "stages": [{"stage": 1, "label": f"q{T} alone", "shown": [T], "formats": [[T]], "measured": {}}],
        "summary": {},
    }
    content = b"".join(tensor.detach().numpy().astype("<f8").tobytes() for tensor in tensors.values())
    return about, content
