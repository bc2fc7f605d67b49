"""A construction beside a trained model: who attends to what, and where residues can be read along the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from internalize.constructions.construction import Construction
from internalize.constructions.counter import CounterConstruction
from internalize.constructions.exactness import ConstructionPredictor
from internalize.errors import require
from internalize.models.gpt2 import GPT2
from internalize.models.passes import run_with_attention
from internalize.sequences.rendering import Renderer

RIDGE = 1e-3
"""Weight decay of the linear readers, relative to the mean square of what they read."""


@dataclass(frozen=True)
class TrainedModel:
    """What a comparison needs of a run: its network, its language, and a name for the pictures."""

    name: str
    task: str
    """The task's name, such as C7."""
    model: GPT2
    renderer: Renderer


LoadRun = Callable[[str], TrainedModel]
"""How a run is read; the room of runs knows, this one does not."""


@dataclass(frozen=True)
class Side:
    """One of the two models on the same inputs."""

    name: str
    positions: tuple[str, ...]
    """Names of the positions shown."""
    attention: tuple[Tensor, ...]
    """For each layer (heads, positions, positions), the mean over inputs."""
    readable: dict[int, Tensor]
    """modulus → (layers + 1, positions): how often the state so far, modulo it, can be read there. Row 0 is
    the embedding."""
    accuracy: float
    """Share of inputs whose final state is the model's first word."""


@dataclass(frozen=True)
class Comparison:
    construction: Side
    trained: Side
    inputs: int
    states: int

    def quantity(self, modulus: int) -> str:
        """What is read, in words."""
        return "state so far" if modulus == self.states else f"state so far mod {modulus}"

    def to_json(self) -> dict[str, Any]:
        sides = {"construction": _side_json(self.construction), "trained": _side_json(self.trained)}
        return {"inputs": self.inputs, **sides}


@torch.no_grad()
def compare(construction: Construction, trained: TrainedModel, symbols: Tensor) -> Comparison:
    """Both on the same (count, T) inputs; half of them teach the trained model's readers, half test them."""
    _check_same_task(construction, trained)
    require(len(symbols) >= 2, "samples", f"a comparison needs at least 2 inputs, got {len(symbols)}")
    left, right = construction_side(construction, symbols), trained_side(trained, construction, symbols)
    return Comparison(left, right, len(symbols), construction.states)


def _check_same_task(construction: Construction, trained: TrainedModel) -> None:
    renderer = trained.renderer
    theirs = {
        "symbols": len(renderer.vocabulary.symbol_names),
        "states": len(renderer.vocabulary.state_names),
        "T": renderer.horizon,
        "q_0": renderer.initial_state,
    }
    ours = {
        "symbols": construction.symbols,
        "states": construction.states,
        "T": construction.horizon,
        "q_0": construction.initial_state,
    }
    for key, value in ours.items():
        message = f"{trained.name} has {key} = {theirs[key]}, the construction has {key} = {value}"
        require(theirs[key] == value, "against", message)


def moduli_read(construction: Construction) -> tuple[int, ...]:
    """Every prime power that divides n; for what is no counter the number of states: the state itself."""
    if not isinstance(construction, CounterConstruction):
        return (construction.states,)
    found = []
    for modulus in construction.moduli:
        prime = next(p for p in range(2, modulus + 1) if modulus % p == 0)
        power = prime
        while power <= modulus:
            found.append(power)
            power *= prime
    return tuple(found)


@torch.no_grad()
def construction_side(construction: Construction, symbols: Tensor) -> Side:
    """Its registers are read as they are; the dummies are left out."""
    T, held = construction.horizon, construction.directions.held
    tokens = construction.tokens(symbols)
    records = construction.network.record(tokens)
    layers = [construction.held(symbols, 0)[:, T:].double()]
    layers += [record.output[:, T:, held].double() for record in records]
    targets = construction.held(symbols, len(records))[:, T:]  # the last window holds all that came before
    readable = {}
    for modulus in moduli_read(construction):
        register = _register_of(construction, modulus)
        hits = [(layer[..., register].round() - targets[..., register]) % modulus == 0 for layer in layers]
        readable[modulus] = torch.stack([hit.float().mean(dim=0) for hit in hits])
    weights = tuple(record.weights[:, :, T:, T:].float().mean(dim=0) for record in records)
    answers = ConstructionPredictor(construction).answer(symbols).output
    right = answers == construction.final_states(symbols)
    return Side("construction", construction.position_names(), weights, readable, float(right.float().mean()))


@torch.no_grad()
def trained_side(trained: TrainedModel, construction: Construction, symbols: Tensor) -> Side:
    """Linear readers, one a layer, position and modulus, tested on inputs they were not fitted to."""
    renderer, T = trained.renderer, construction.horizon
    tokens = renderer.prompt(symbols, 2 if renderer.length_hint else None)
    weights, layers, logits = run_with_attention(trained.model, tokens)
    states = construction.trace(symbols)
    place = torch.arange(1, tokens.shape[1] + 1).clamp(max=T)
    targets = states[:, place]
    moduli = moduli_read(construction)
    per_layer = [_readable(layer.double(), targets, moduli) for layer in layers]
    readable = {modulus: torch.stack([layer[modulus] for layer in per_layer]) for modulus in moduli}
    first_word = logits.argmax(dim=-1) - renderer.vocabulary.first_state
    labels = [*(f"σ{i}" for i in range(1, T + 1)), "q0", *(["LEN"] if renderer.length_hint else [])]
    accuracy = float((first_word == states[:, -1]).float().mean())
    return Side(trained.name, tuple(labels), weights, readable, accuracy)


def _readable(stream: Tensor, states: Tensor, moduli: tuple[int, ...]) -> dict[int, Tensor]:
    """(batch, length, width) and (batch, length) states to (length,) for each modulus: readers' accuracy.

    Ridge regression on one-hot residues, fitted on the first half and tested on the second; the readers of
    all positions and moduli are solved for together.
    """
    half = len(stream) // 2
    features = torch.cat([stream, torch.ones_like(stream[..., :1])], dim=-1).transpose(0, 1)
    residues = [states.T % modulus for modulus in moduli]
    wanted = [F.one_hot(r[:, :half], modulus) for r, modulus in zip(residues, moduli, strict=True)]
    known, unseen = features[:, :half], features[:, half:]
    gram = known.transpose(1, 2) @ known
    decay = RIDGE * gram.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None] + 1e-9
    gram = gram + decay * torch.eye(gram.shape[-1])
    reader = torch.linalg.solve(gram, known.transpose(1, 2) @ torch.cat(wanted, dim=-1).double())
    guesses = (unseen @ reader).split(list(moduli), dim=-1)
    return {
        modulus: (guess.argmax(dim=-1) == r[:, half:]).float().mean(dim=1)
        for modulus, guess, r in zip(moduli, guesses, residues, strict=True)
    }


def _register_of(construction: Construction, modulus: int) -> int:
    """The register that knows the state modulo this number."""
    if not isinstance(construction, CounterConstruction):
        return 0
    return next(j for j, N in enumerate(construction.moduli) if N % modulus == 0)


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "accuracy": side.accuracy,
        "positions": list(side.positions),
        "readable": {str(modulus): share.tolist() for modulus, share in side.readable.items()},
    }
