"""The logit lens and the attention of a model, over the same tokens that the probes read.

The lens applies the last layer norm and the unembedding to the stream of every layer: what would the model say
if it stopped here? Attention is summed up by what matters for the next state: to say q_j after q_i one needs
q_i and σ_{i+1} … σ_j, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from internalize.curricula import Shown
from internalize.display.plots import INK, accuracy_shades, new_figure, ticks
from internalize.models.gpt2 import GPT2, run_with_attention
from internalize.sequences import Renderer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 250
SHADES = "Blues"
MOST_LAYERS = 6
"""Deeper models are shown at evenly spread layers."""


@dataclass(frozen=True)
class Lens:
    """What the layers would say, and where they look."""

    shown: Shown
    """The states in the answer that was read."""
    positions: tuple[str, ...]
    """The names of the places."""
    next_token: Tensor
    """(layers+1, K+1): how often the next answer token (the last is EOS) is the likeliest of all tokens."""
    states: Tensor
    """(layers+1, positions, T): how often the likeliest state is q_t."""
    attention: tuple[Tensor, ...]
    """For each layer (heads, positions, positions), the mean over inputs."""
    samples: int

    @property
    def start(self) -> int:
        """The place where the answer begins: it says the first state."""
        return len(self.positions) - len(self.shown) - 1


@dataclass(frozen=True)
class Mass:
    """Attention from the place that says one state, in one layer: shares that sum to one."""

    layer: int
    said: int
    """j of the state q_j said there."""
    after: int
    """i of the state q_i that it goes on from."""
    needed: float
    """On σ_{i+1} … σ_j, mean over heads."""
    needed_strongest: float
    """The same for the head that looks there most."""
    previous: float
    """On the token of q_i."""
    needed_if_even: float
    """What attention spread evenly over all earlier places would put on σ_{i+1} … σ_j."""


@torch.no_grad()
def look(model: GPT2, renderer: Renderer, symbols: Tensor, states: Tensor, shown: Shown) -> Lens:
    """On true sequences that show these states."""
    first_state, count = renderer.vocabulary.first_state, len(renderer.vocabulary.state_names)
    start = renderer.prompt_length(len(shown) + 1) - 1
    said: list[Tensor] = []
    agreed: list[Tensor] = []
    patterns: list[list[Tensor]] = []
    for part, true in zip(symbols.split(CHUNK), states.split(CHUNK), strict=True):
        tokens = renderer.sequence(part, true, shown)
        seen, stream, _ = run_with_attention(model, tokens[:, :-1])
        logits = [model.transformer.ln_f(x) @ model.transformer.wte.weight.T for x in stream]
        right = [(x[:, start:].argmax(-1) == tokens[:, start + 1 :]).sum(0) for x in logits]
        said.append(torch.stack(right))
        likeliest = torch.stack([x[..., first_state : first_state + count].argmax(-1) for x in logits])
        agreed.append((likeliest[..., None] == true[None, :, None, 1:]).sum(dim=1))
        patterns.append([pattern * len(part) for pattern in seen])
    n = len(symbols)
    attention = tuple(sum(pieces[1:], pieces[0]) / n for pieces in zip(*patterns, strict=True))
    return Lens(
        shown=shown,
        positions=position_names(renderer, shown),
        next_token=sum(said[1:], said[0]) / n,
        states=sum(agreed[1:], agreed[0]) / n,
        attention=attention,
        samples=n,
    )


def attention_mass(lens: Lens, renderer: Renderer, shown: Shown) -> list[Mass]:
    """For every layer and every shown state."""
    found = []
    for layer, pattern in enumerate(lens.attention, start=1):
        for i, j in enumerate(shown):
            query = renderer.prompt_length(len(shown) + 1) - 1 + i
            before = shown[i - 1] if i else 0
            row = pattern[:, query]  # (heads, positions)
            needed = row[:, before:j].sum(dim=1)  # σ_{before+1} … σ_j stand at places before … j-1
            place = query if i else renderer.horizon  # q_0 stands after σ_T
            found.append(
                Mass(
                    layer=layer,
                    said=j,
                    after=before,
                    needed=float(needed.mean()),
                    needed_strongest=float(needed.max()),
                    previous=float(row[:, place].mean()),
                    needed_if_even=(j - before) / (query + 1),
                )
            )
    return found


def position_names(renderer: Renderer, shown: Shown) -> tuple[str, ...]:
    """σ1 … σT, q0, LEN or pauses if any, then the states shown; if none, the direct answer's prompt."""
    symbols = (f"σ{t}" for t in range(1, renderer.horizon + 1))
    return (*symbols, "q0", *renderer.hint_names(len(shown) + 1 if shown else 2), *(f"q{t}" for t in shown))


# The pictures --------------------------------------------------------------------------------------------


def draw_lens(lens: Lens, title: str, chance: float) -> Figure:
    """Left: what each layer would say next in the answer. Right: which state where the answer begins."""
    layers, T = lens.next_token.shape[0], lens.states.shape[2]
    wide, height = max(3.0, 0.3 * lens.next_token.shape[1]), 1.9 + 0.3 * min(layers, 12)
    right_wide = max(3.0, 0.3 * T)
    figure, (left, right) = new_figure(
        1, 2, width=2.6 + wide + right_wide, height=height, gridspec_kw={"width_ratios": [wide, right_wide]}
    )
    shades = accuracy_shades(chance)
    image = left.imshow(lens.next_token.cpu().numpy(), aspect="auto", origin="lower", **shades)
    names = [*(f"q{t}" for t in lens.shown), "EOS"]
    marks = ticks(len(names), 12)
    left.set_xticks(marks, [names[i] for i in marks], fontsize=8)
    left.set_title("next token of the answer is the likeliest", fontsize=9)
    right.imshow(lens.states[:, lens.start].cpu().numpy(), aspect="auto", origin="lower", **shades)
    marks = ticks(T, 12)
    right.set_xticks(marks, [f"q{t + 1}" for t in marks], fontsize=8)
    right.set_title(
        f"likeliest state at {lens.positions[lens.start]}, where the answer begins, is …", fontsize=9
    )
    for panel in (left, right):
        panel.grid(False)
        marks = ticks(layers, 8)
        panel.set_yticks(marks, ["input" if i == 0 else f"layer {i}" for i in marks], fontsize=8)
    figure.colorbar(image, ax=[left, right], label="share of inputs (white: chance)", format="{x:.0%}")
    figure.suptitle(f"{title}: logit lens", fontsize=10)
    return figure


def draw_attention(lens: Lens, title: str) -> Figure:
    """Where the places that say the answer look: mean over heads, and the head most on what they need.

    Each panel has its own scale, from 0 to the largest weight in it, which its title names: one of many heads
    attends little to each place, and on a scale up to 1 nothing would be seen.
    """
    layers = some_layers(len(lens.attention))
    count, positions = len(lens.shown), len(lens.positions)
    width = max(6.5, 1.8 + len(layers) * max(3.0, min(0.22 * positions, 4.6)))
    figure, axes = new_figure(
        2, len(layers), width=width, height=2.0 + 2 * max(0.7, 0.22 * count), squeeze=False, sharex=True
    )
    for j, layer in enumerate(layers):
        pattern = lens.attention[layer][:, lens.start : lens.start + count].cpu()
        head = most_needed(pattern, lens.shown)
        ways = (("mean of heads", pattern.mean(0)), (f"head {head + 1}, most on the needed σ", pattern[head]))
        for i, (how, values) in enumerate(ways):
            panel, most = axes[i, j], float(values.max())
            panel.imshow(values.numpy(), cmap=SHADES, vmin=0, vmax=most, aspect="auto")
            mark_prompt(panel, lens.start)
            panel.set_title(f"layer {layer + 1}, {how}\nwhite 0, darkest {most:.2f}", fontsize=8)
            marks = ticks(count, 9)
            panel.set_yticks(marks, [f"says q{lens.shown[t]}" for t in marks], fontsize=8)
    name_positions(axes[1], lens.positions, "attended position")
    figure.suptitle(f"{title}\nattention of the answer, mean over inputs", fontsize=10)
    return figure


def draw_heads(lens: Lens, title: str) -> Figure:
    """Every head of every layer at the place that says the last state: one row for each head.

    Heads are sorted by the place they look at most. The scale of a layer goes from 0 to its largest weight.
    """
    layers = some_layers(len(lens.attention))
    heads, positions = lens.attention[0].shape[0], len(lens.positions)
    width = max(6.5, 1.8 + len(layers) * max(3.0, min(0.24 * positions, 4.6)))
    height = 1.8 + min(max(1.2, 0.16 * heads), 8.0)
    figure, axes = new_figure(1, len(layers), width=width, height=height, squeeze=False)
    place = lens.start + len(lens.shown) - 1
    for j, layer in enumerate(layers):
        values = lens.attention[layer][:, place].cpu()  # (heads, positions)
        order = values.argmax(dim=1).argsort(stable=True)
        panel = axes[0, j]
        image = panel.imshow(
            values[order].numpy(), cmap=SHADES, vmin=0, vmax=float(values.max()), aspect="auto"
        )
        mark_prompt(panel, lens.start)
        panel.set_title(f"layer {layer + 1}", fontsize=9)
        marks = ticks(heads, 16)
        panel.set_yticks(marks, [str(int(order[i]) + 1) for i in marks], fontsize=7)
        figure.colorbar(image, ax=panel, shrink=0.8)
    axes[0, 0].set_ylabel("head")
    name_positions(axes[0], lens.positions, "attended position")
    figure.suptitle(f"{title}\nevery head where q{lens.shown[-1]} is said, mean over inputs", fontsize=10)
    return figure


def most_needed(pattern: Tensor, shown: Shown) -> int:
    """The head of (heads, shown, positions) that attends most to what is needed, over all states it says.

    To say q_j after q_i are needed σ_{i+1} … σ_j, which stand at the positions i … j-1.
    """
    spans = enumerate(pairwise((0, *shown)))
    return int(torch.stack([pattern[:, row, i:j].sum(1) for row, (i, j) in spans]).sum(0).argmax())


def mark_prompt(panel: Any, start: int) -> None:
    """A thin line where the prompt ends: the answer begins at `start`."""
    panel.grid(False)
    panel.axvline(start + 0.5, color=INK, linewidth=0.7, alpha=0.6)


def name_positions(panels: Any, positions: Sequence[str], label: str = "position") -> None:
    places = ticks(len(positions), 9)
    for panel in panels:
        panel.set_xticks(places, [positions[i] for i in places], fontsize=7, rotation=60)
        panel.set_xlabel(label, fontsize=9)


def some_layers(count: int) -> list[int]:
    """All layers of a shallow model, else evenly spread ones with the first and the last."""
    if count <= MOST_LAYERS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (MOST_LAYERS - 1)) for i in range(MOST_LAYERS)})
