"""A construction beside a trained model: who attends to what, and where residues can be read along the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from internalize.constructions.construction import Construction
from internalize.constructions.counter import CounterConstruction
from internalize.constructions.exactness import PRECISIONS, ConstructionPredictor, Margins
from internalize.constructions.general import Sizes
from internalize.constructions.transformer import Shape
from internalize.display.plots import LINES, MARKERS, PALETTE, new_figure
from internalize.errors import require
from internalize.measure.probes import fit_probes
from internalize.models.gpt2 import GPT2, run_with_attention
from internalize.sequences import Renderer
from internalize.tasks.semiautomaton import Semiautomaton

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TrainedModel:
    """What a comparison needs of a run: its network, its language, and a name for the pictures."""

    name: str
    task: Semiautomaton
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
    theirs = trained.task.trace(symbols, construction.initial_state)
    same = torch.equal(construction.trace(symbols), theirs)
    require(
        same, "against", f"{trained.name} ({trained.task.name}) moves by another table than {construction.name}"
    )
    left, right = construction_side(construction, symbols), trained_side(trained, construction, symbols)
    return TrainedComparison(left, right, len(symbols), construction.states)


def _check_same_task(construction: Construction, trained: TrainedModel) -> None:
    renderer, vocabulary = trained.renderer, trained.renderer.vocabulary
    for key, theirs, ours in (
        ("symbols", len(vocabulary.symbol_names), construction.symbols),
        ("states", len(vocabulary.state_names), construction.states),
        ("T", renderer.horizon, construction.horizon),
        ("q_0", renderer.initial_state, construction.initial_state),
    ):
        message = f"{trained.name} has {key} = {theirs}, the construction has {key} = {ours}"
        require(theirs == ours, "against", message)


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
    tokens = renderer.prompt(symbols, 2)
    weights, _, logits = run_with_attention(trained.model, tokens)
    states = construction.trace(symbols)
    first_word = logits.argmax(dim=-1) - renderer.vocabulary.first_state
    labels = [*(f"σ{i}" for i in range(1, T + 1)), "q0", *renderer.hint_names(2)]
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


SHADES = "Blues"
MOST_REGISTERS = 6
"""More registers than this would make a page of panels; the first ones are drawn."""
MOST_NUMBERS = 32
"""Up to this horizon the cells of a drawing have room for their numbers."""
MOST_LAYERS = 8
"""Deeper models are shown at evenly spread layers."""
MOST_MODULI = 4


@torch.no_grad()
def draw_attention(construction: Construction, symbols: Tensor) -> Figure:
    """Weights of both heads in every layer on one input, symbols (T,); rows are queries, columns keys."""
    records = construction.network.record(construction.tokens(symbols[None]))
    depth, T = len(records), construction.horizon
    figure, axes = new_figure(2, depth, width=1.6 + 1.9 * depth, height=4.4, squeeze=False)
    image: Any = None
    for layer, record in enumerate(records, start=1):
        stride = construction.plan.stride(layer)
        for head, name in enumerate(["stays", f"looks back {stride}"]):
            panel = axes[head, layer - 1]
            image = panel.imshow(record.weights[0, head].float().numpy(), cmap=SHADES, vmin=0, vmax=1)
            panel.set_title(f"layer {layer}: {name}" if head == 0 else name, fontsize=9)
            _plain(panel)
            # Dummies end here.
            panel.axhline(T - 0.5, color=PALETTE[1], linewidth=0.7)
            panel.axvline(T - 0.5, color=PALETTE[1], linewidth=0.7)
    axes[0, 0].set_ylabel("query")
    axes[1, 0].set_ylabel("query")
    axes[1, 0].set_xlabel("key (dummies before the line)")
    figure.colorbar(image, ax=axes, shrink=0.6, label="attention")
    figure.suptitle(f"{construction.name}, T = {T}: attention of the construction")
    return figure


@torch.no_grad()
def draw_registers(construction: Construction, symbols: Tensor) -> Figure:
    """What every position holds after every layer on one input, symbols (T,); dummies are left out."""
    tokens = construction.tokens(symbols[None])
    T, directions = construction.horizon, construction.directions
    start = construction.held(symbols[None], 0)[0, T:].double()
    after = [r.output[0, T:, directions.held].double() for r in construction.network.record(tokens)]
    held = torch.stack([start, *after])
    names = construction.register_names()[:MOST_REGISTERS]
    width = max(6.0, min(0.32 * (T + 1) + 1.6, 13.0))
    height = 1.0 + len(names) * (0.9 + 0.25 * len(held))
    figure, axes = new_figure(len(names), 1, width=width, height=height, squeeze=False, sharex=True)
    for register, name in enumerate(names):
        panel = axes[register, 0]
        values = held[:, :, register]
        top = max(1.0, float(values.max()))
        panel.imshow(
            values.numpy(), cmap=SHADES, vmin=0, vmax=1.6 * top, aspect="auto"
        )  # dark text stays legible
        if T <= MOST_NUMBERS:
            _write_numbers(panel, values)
        panel.set_title(name, fontsize=9)
        panel.set_yticks(range(len(held)), ["input", *(f"layer {i}" for i in range(1, len(held)))])
        panel.grid(False)
    labels = construction.position_names()
    places = some(len(labels), 26)
    axes[-1, 0].set_xticks(places, [labels[i] for i in places], fontsize=8)
    more = construction.directions.registers - len(names)
    note = f" (first {len(names)} of {construction.directions.registers} registers)" if more else ""
    figure.suptitle(f"{construction.name}, T = {T}: what each position holds{note}")
    return figure


def draw_margins(margins: Margins, title: str) -> Figure:
    """Share of right answers against β, precision and weight noise; the edges found are marked."""
    figure, (beta, precision, noise) = new_figure(1, 3, width=11.0, height=3.8)
    shares, right = zip(*margins.beta_curve, strict=True)
    beta.plot(shares, right, marker=MARKERS[0], markersize=4)
    if margins.smallest_beta is not None:
        edge = margins.smallest_beta / margins.theorem_beta
        beta.axvline(edge, color=PALETTE[1], linestyle="--", linewidth=1.2)
        beta.text(edge * 1.12, 0.5, f"exact from\n{edge:.3f} on", color=PALETTE[1], va="center")
    beta.set(xscale="log", xlabel="β / theorem's β", ylabel="share of right answers", title="attention scale β")
    values = [margins.precisions[name] for name in PRECISIONS]
    colours = [PALETTE[0] if value == 1.0 else PALETTE[1] for value in values]
    precision.bar(range(len(values)), values, color=colours, width=0.6)
    precision.set_xticks(range(len(values)), PRECISIONS, fontsize=9)
    for place, value in enumerate(values):
        text = "exact" if value == 1.0 else f"{value:.0%}"
        precision.text(place, value + 0.02, text, ha="center", fontsize=9)
    precision.set(title="precision")
    for i, (kind, curve) in enumerate(margins.noise_curves.items()):
        levels, right = zip(*curve, strict=True)
        edge_found = margins.largest_noise[kind]
        label = kind if edge_found is None else f"{kind}: exact up to {edge_found:.1e}"
        noise.plot(levels, right, LINES[i], marker=MARKERS[i], markersize=4, label=label)
    noise.set(xscale="log", xlabel="standard deviation ε", title="weight noise (worst draw)")
    noise.legend(loc="lower left", fontsize=8, frameon=False)
    for panel in (beta, precision, noise):
        panel.set_ylim(-0.03, 1.12)
    figure.suptitle(title)
    return figure


def draw_sizes(sizes: Sequence[Sizes], horizon: int) -> Figure:
    """MLP width and number of weights of both constructions against n, on doubly logarithmic axes."""
    figure, panels = new_figure(1, 2, width=10.5, height=4.6)
    orders = [entry.n for entry in sizes]
    for panel, name in zip(panels, ("MLP width", "weights"), strict=True):
        general = [_size(entry.general, name) for entry in sizes]
        panel.plot(orders, general, color=PALETTE[6], marker=MARKERS[1], markersize=3, label="general, any n")
        for i, kind in enumerate(("prime", "prime power", "other composite")):
            chosen = [entry for entry in sizes if entry.kind == kind]
            xs, ys = [entry.n for entry in chosen], [_size(entry.counter, name) for entry in chosen]
            colour, marker = PALETTE[(1, 3, 0)[i]], MARKERS[(2, 3, 0)[i]]
            panel.scatter(xs, ys, color=colour, marker=marker, s=22, label=f"theorem 3, n {kind}", zorder=3)
        panel.set(xlabel="order n", ylabel=name, xscale="log", yscale="log")
        panel.set_xticks([2**k for k in range(1, 20) if orders[0] <= 2**k <= orders[-1]])
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.minorticks_off()
    for power, anchor in ((1, 4 * orders[-1] - 4), (2, 4 * orders[-1] ** 2)):
        line = [anchor * 1.6 * (n / orders[-1]) ** power for n in orders]
        panels[0].plot(orders, line, color="black", linestyle=":", linewidth=1.0)
        place = 3 * len(orders) // 10
        text = "slope of n" + ("²" if power == 2 else "")
        steepness = math.degrees(math.atan2(power * line[place] / orders[place], 1))
        turned: dict[str, Any] = {"rotation_mode": "anchor", "transform_rotates_text": True}
        panels[0].text(orders[place], line[place] * 1.15, text, fontsize=9, rotation=steepness, **turned)
    panels[0].legend(loc="upper left", fontsize=9, frameon=False)
    figure.suptitle(f"Size of both constructions of C$_n$, T = {horizon}")
    return figure


def _size(shape: Shape, name: str) -> int:
    return shape.mlp_width if name == "MLP width" else shape.parameters


def _write_numbers(panel: Any, values: Tensor) -> None:
    for row, line in enumerate((values.round() + 0.0).tolist()):  # + 0.0: no cell reads "-0"
        for column, value in enumerate(line):
            panel.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8)


def some(count: int, most: int) -> list[int]:
    """At most `most` indices spread over 0 … count-1, the last one among them."""
    step = -(-count // most)
    return sorted({count - 1 - i for i in range(0, count, step)})


def _plain(panel: Any) -> None:
    panel.grid(False)
    panel.set_xticks([])
    panel.set_yticks([])


# Beside a trained model ----------------------------------------------------------------------------------


def draw_attention_comparison(comparison: TrainedComparison) -> Figure:
    """Attention per layer: the construction's two heads together, mean and most over the trained one's."""
    rows: list[tuple[str, Side, str]] = [
        ("construction", comparison.construction, "strongest"),
        ("trained, mean of heads", comparison.trained, "mean"),
        ("trained, most over heads", comparison.trained, "strongest"),
    ]
    depth = max(len(side.attention) for _, side, _ in rows)
    columns = min(depth, MOST_LAYERS)
    figure, axes = new_figure(3, columns, width=1.8 + 1.9 * columns, height=6.4, squeeze=False)
    image: Any = None
    for row, (name, side, how) in enumerate(rows):
        layers = some(len(side.attention), columns)
        axes[row, 0].set_ylabel(name, fontsize=9)
        for column in range(columns):
            panel = axes[row, column]
            _plain(panel)
            if column >= len(layers):
                panel.set_visible(False)
                continue
            pattern = _over_heads(side.attention[layers[column]], how)
            image = panel.imshow(pattern.numpy(), cmap=SHADES, vmin=0, vmax=1)
            panel.set_title(f"layer {layers[column] + 1}", fontsize=9)
    axes[-1, 0].set_xlabel("key, σ1 … q0", fontsize=9)
    figure.colorbar(image, ax=axes, shrink=0.5, label="attention, mean over inputs")
    figure.suptitle(f"Attention: the construction and {comparison.trained.name}")
    return figure


def draw_readable_comparison(comparison: TrainedComparison) -> Figure:
    """How often the state so far can be read, by layer and position, for every modulus; white is chance."""
    moduli = list(comparison.construction.readable)[:MOST_MODULI]
    sides = (comparison.construction, comparison.trained)
    depth = max(len(side.attention) for side in sides)
    width = max(9.0, min(0.44 * len(comparison.trained.positions) + 3.0, 14.0))
    height = 1.2 + len(moduli) * (0.9 + 0.24 * (depth + 1))
    figure, axes = new_figure(len(moduli), 2, width=width, height=height, squeeze=False)
    image: Any = None
    for row, modulus in enumerate(moduli):
        for column, side in enumerate(sides):
            panel = axes[row, column]
            chance = 1 / modulus
            above = (side.readable[modulus] - chance) / max(1 - chance, 1e-9)
            image = panel.imshow(above.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
            panel.set_title(f"{side.name}: {comparison.quantity(modulus)}", fontsize=9)
            _name_axes(panel, side)
    figure.colorbar(image, ax=axes, shrink=0.7, label="read rightly, from chance (0) to always (1)")
    first = f"its first word is the final state on {comparison.trained.accuracy:.0%} of the inputs"
    figure.suptitle(f"Where the state so far can be read; {comparison.trained.name}: {first}", fontsize=11)
    return figure


def _over_heads(attention: Tensor, how: str) -> Tensor:
    """(heads, positions, positions) to (positions, positions)."""
    return attention.mean(dim=0) if how == "mean" else attention.amax(dim=0)


def _name_axes(panel: Any, side: Side) -> None:
    panel.grid(False)
    layers = some(len(side.attention) + 1, 9)
    panel.set_yticks(layers, ["input" if i == 0 else f"layer {i}" for i in layers], fontsize=8)
    places = some(len(side.positions), 10)
    panel.set_xticks(places, [side.positions[i] for i in places], fontsize=8)
