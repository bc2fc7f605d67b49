"""A construction beside a trained model: who attends to what, and where residues can be read along the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from internalize.constructions.construction import Construction
from internalize.constructions.counter import CounterConstruction
from internalize.constructions.exactness import ConstructionPredictor
from internalize.errors import require
from internalize.measure.probes import fit_probes
from internalize.models.gpt2 import GPT2
from internalize.models.passes import run_with_attention
from internalize.sequences.rendering import Renderer


@dataclass(frozen=True)
class TrainedModel:
    """What a comparison needs of a run: its network, its language, and a name for the pictures."""

    name: str
    task: str
    """The task's name, such as C7."""
    model: GPT2
    renderer: Renderer


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
class TrainedComparison:
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
def compare(construction: Construction, trained: TrainedModel, symbols: Tensor) -> TrainedComparison:
    """Both on the same (count, T) inputs; half of them teach the trained model's readers, half test them."""
    _check_same_task(construction, trained)
    require(len(symbols) >= 2, "samples", f"a comparison needs at least 2 inputs, got {len(symbols)}")
    left, right = construction_side(construction, symbols), trained_side(trained, construction, symbols)
    return TrainedComparison(left, right, len(symbols), construction.states)


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
    """Linear probes, one for each layer, position and modulus, tested on inputs they were not fitted to."""
    renderer, T = trained.renderer, construction.horizon
    tokens = renderer.prompt(symbols, 2 if renderer.length_hint else None)
    weights, _, logits = run_with_attention(trained.model, tokens)
    states = construction.trace(symbols)
    first_word = logits.argmax(dim=-1) - renderer.vocabulary.first_state
    labels = [*(f"σ{i}" for i in range(1, T + 1)), "q0", *(["LEN"] if renderer.length_hint else [])]
    accuracy = float((first_word == states[:, -1]).float().mean())
    readable = _readable(trained.model, tokens, states[:, 1:], moduli_read(construction))
    return Side(trained.name, tuple(labels), weights, readable, accuracy)


def _readable(model: GPT2, tokens: Tensor, states: Tensor, moduli: tuple[int, ...]) -> dict[int, Tensor]:
    """(count, T) states to (layers + 1, positions) for each modulus: how often the state so far can be read.

    Fitted on the first half of the inputs and tested on the second. The residues by all moduli are labels of
    one fit; those after the place where they are read are left aside.
    """
    count, T = states.shape
    residues = torch.cat([states % modulus for modulus in moduli], dim=1)
    found = fit_probes(
        lambda piece: run_with_attention(model, piece)[1],
        tokens,
        residues,
        max(moduli),
        count // 2,
        torch.Generator().manual_seed(0),  # for the shuffled labels, which nobody looks at here
    )
    places = torch.arange(tokens.shape[1])
    so_far = places.clamp(max=T - 1)  # after σ_T the state so far is q_T
    return {modulus: found.accuracy[:, places, i * T + so_far].float() for i, modulus in enumerate(moduli)}


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
