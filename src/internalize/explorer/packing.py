"""Weights, probes and hand-written networks as bytes, in the order in which the page reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from internalize.constructions.counter import CounterConstruction
from internalize.curricula import Shown
from internalize.explorer.subject import Subject, Weights

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
    shape, prompt = subject.config.model, subject.renderer.prompt_length
    count = len(probe_targets(shape.depth, prompt, subject.config.horizon, shown))
    return 2 * count * (subject.task.states - 1) * (8 + shape.width)


def pack_probes(subject: Subject, weights: Weights, start: Weights, shown: Shown) -> tuple[Json, bytes]:
    """The probes of a stage's model and those of the untrained one: how good they are, and their weights."""
    T, prompt = subject.config.horizon, subject.renderer.prompt_length
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
