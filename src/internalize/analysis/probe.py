"""`internalize probe`: where in the model is each state, though it is no longer spoken?

Linear probes (measure/probes.py) with their controls for every layer, position and state; beside them what the
layers would say and where they look (lens.py). Of a network of the user's own, what each of its submodules
gives is probed in the place of the layers. Lens and attention are left out: they need the layers of GPT-2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from torch import Tensor

from internalize.analysis.arguments import ProbeArguments
from internalize.analysis.lens import (
    SHADES,
    Lens,
    Mass,
    attention_mass,
    draw_attention,
    draw_heads,
    draw_lens,
    look,
    mark_prompt,
    name_positions,
    position_names,
    some_layers,
)
from internalize.analysis.open_run import OpenChain, open_chain, stream
from internalize.curricula import Shown
from internalize.display.plots import PALETTE, new_figure, ticks
from internalize.display.terminal import errors_console, results_table
from internalize.errors import require
from internalize.kinds.entrance import Moment
from internalize.measure.activations import activations, choose_modules
from internalize.measure.probes import ProbeHits, ReadStream, fit_probes
from internalize.models.gpt2 import GPT2, run_with_attention
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import OwnNetwork
from internalize.statistics import Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKED_AT = 1_000
"""Inputs for lens and attention, at most."""
Layer = int | str
"""The number of a layer, 0 for the embedding; of a network of one's own the name of a submodule."""
MOST_MODULES = 16
"""Names of submodules that fit beside a map."""
LABEL = "read rightly, from chance (0) to always (1)"


@dataclass(frozen=True)
class BestPlace:
    """Where one state can be read best before it is spoken."""

    t: int
    spoken: bool
    """Whether the format shows q_t at all."""
    layer: Layer
    position: str
    right: Rate
    untrained: float
    """The best that probes reach anywhere in the model before training."""
    shuffled: float
    """The best that they reach anywhere with shuffled labels."""
    chance: float


@dataclass(frozen=True)
class Hidden:
    """What is inside the model at one stage."""

    title: str
    moment: Moment
    inputs: str
    shown: Shown
    """The states in the answer that was read."""
    positions: tuple[str, ...]
    """The names of the places."""
    layers: tuple[Layer, ...]
    trained: ProbeHits
    untrained: ProbeHits
    lens: Lens | None
    """None for a network of the user's own."""
    mass: tuple[Mass, ...]

    @property
    def start(self) -> int:
        """The place where the answer begins: it says the first state."""
        return len(self.positions) - len(self.shown) - 1

    @property
    def horizon(self) -> int:
        return self.trained.hits.shape[2]

    def unspoken(self, t: int) -> int:
        """How many positions come before q_t is spoken."""
        name = f"q{t}"
        return self.positions.index(name) if name in self.positions else len(self.positions)

    def best(self, t: int) -> BestPlace:
        end = self.unspoken(t)
        layer, position = _argmax(self.trained.hits[:, :end, t - 1])
        return BestPlace(
            t=t,
            spoken=t in self.shown,
            layer=self.layers[layer],
            position=self.positions[position],
            right=self.trained.rate(layer, position, t),
            untrained=float(self.untrained.accuracy[:, :end, t - 1].max()),
            shuffled=float(self.trained.shuffled[:, :end, t - 1].max()) / self.trained.held_out,
            chance=float(self.trained.chance[t - 1]),
        )

    def rows(self) -> list[dict[str, object]]:
        """One row for each probe."""
        controls = self.untrained.accuracy, self.trained.shuffled.double() / self.trained.held_out
        rows: list[dict[str, object]] = []
        for layer, (name, places) in enumerate(zip(self.layers, self.trained.accuracy, strict=True)):
            for place, accuracies in enumerate(places.tolist()):
                for t, accuracy in enumerate(accuracies, start=1):
                    rate = self.trained.rate(layer, place, t)
                    row = {"layer": name, "position": self.positions[place], "t": t, "accuracy": accuracy}
                    row |= {"low": rate.interval.low, "high": rate.interval.high, "n": rate.trials}
                    row |= {
                        "untrained": float(controls[0][layer, place, t - 1]),
                        "shuffled": float(controls[1][layer, place, t - 1]),
                        "spoken": place >= self.unspoken(t),
                    }
                    if self.lens is not None:
                        row["lens"] = float(self.lens.states[layer, place, t - 1])
                    rows.append(row)
        return rows

    def to_json(self) -> dict[str, object]:
        seen = {}
        if self.lens is not None:
            seen["lens_next_token"] = self.lens.next_token.tolist()
            seen["attention_mass"] = [asdict(mass) for mass in self.mass]
        return {
            "run": self.title,
            **self.moment.to_json(),
            "inputs": self.inputs,
            "shown": list(self.shown),
            "positions": list(self.positions),
            "layers": list(self.layers),
            "best": [_best_json(self.best(t)) for t in range(1, self.horizon + 1)],
            **seen,
            "probes": self.rows(),
        }


def look_inside(
    chain: OpenChain,
    stage: int | None,
    samples: int,
    seed: int = 0,
    budget: int | None = None,
    modules: Sequence[str] = (),
) -> Hidden:
    """samples: inputs, two thirds of them to fit the probes and the rest to test them.

    budget: for mixtures, tokens of the answer that is read, EOS included; the direct answer if not given.
    modules: of a network of the user's own, the names or patterns of submodules; all if none is given.
    """
    require(samples >= 30, "samples", f"probes need at least 30 inputs, got {samples}")
    moment = chain.moment(stage)
    shown, experiment = chain.own_shown(moment.stage, budget), chain.experiment
    renderer, inputs = experiment.renderer, experiment.inputs
    examples = chain.draw(inputs, samples, seed, "probe")
    tokens = renderer.sequence(examples.symbols, examples.states, shown)[:, :-1]
    model = chain.model(moment.stage)
    names = layers_of(model, modules, tokens.shape[1])

    def probe(model: LanguageModel) -> ProbeHits:
        shuffles = stream(seed, "probe/shuffled labels")
        classes = experiment.task.states
        read = stream_of(model, names)
        return fit_probes(read, tokens, examples.states[:, 1:], classes, 2 * samples // 3, shuffles)

    few = slice(0, LOOKED_AT)
    lens = None
    if isinstance(model, GPT2):
        lens = look(model, renderer, examples.symbols[few], examples.states[few], shown)
    return Hidden(
        title=chain.title,
        moment=moment,
        inputs=inputs.name,
        shown=shown,
        positions=position_names(renderer, shown),
        layers=names,
        trained=probe(model),
        untrained=probe(chain.untrained()),
        lens=lens,
        mass=() if lens is None else tuple(attention_mass(lens, renderer, shown)),
    )


def layers_of(model: LanguageModel, modules: Sequence[str], length: int) -> tuple[Layer, ...]:
    """What is probed: the numbers of the layers, or the names of a user's submodules."""
    if isinstance(model, OwnNetwork):
        return tuple(choose_modules(model, modules, length))
    require(not modules, "modules", "is for networks of your own; of the built-in GPT-2 all layers are probed")
    return tuple(range(model.config.depth + 1))


def stream_of(model: LanguageModel, names: Sequence[Layer] = ()) -> ReadStream:
    """How to read the residual stream of a model, before the first and after every layer.

    names: of a user's network, the submodules whose outputs are read instead.
    """

    def record(tokens: Tensor) -> list[Tensor]:
        if isinstance(model, GPT2):
            return run_with_attention(model, tokens)[1]
        read = [str(name) for name in names]
        found = activations(model, tokens, read)
        return [found[name] for name in read]

    return record


def _argmax(values: Tensor) -> tuple[int, int]:
    """Row and column of the largest entry, the first of several."""
    row, column = divmod(int(values.flatten().argmax()), values.shape[1])
    return row, column


def _best_json(best: BestPlace) -> dict[str, object]:
    interval = best.right.interval
    return {
        "t": best.t,
        "spoken": best.spoken,
        "layer": best.layer,
        "position": best.position,
        "accuracy": best.right.value,
        "low": interval.low,
        "high": interval.high,
        "untrained": best.untrained,
        "shuffled": best.shuffled,
        "chance": best.chance,
    }


# The pictures --------------------------------------------------------------------------------------------


def draw_probes(hidden: Hidden) -> Figure:
    """For each layer, which state (row) can be read at which position (column); below, before training."""
    layers = some_layers(hidden.trained.hits.shape[0])
    positions, T = len(hidden.positions), hidden.horizon
    width = max(7.5, 1.6 + len(layers) * max(2.4, min(0.2 * positions, 4.4)))
    height = 1.6 + 2 * max(1.5, min(0.2 * T, 4.0))
    figure, axes = new_figure(
        2, len(layers), width=width, height=height, squeeze=False, sharex=True, sharey=True
    )
    image: Any = None
    for i, (name, probes) in enumerate((("trained", hidden.trained), ("before training", hidden.untrained))):
        for j, layer in enumerate(layers):
            panel = axes[i, j]
            image = panel.imshow(
                probes.above_chance()[layer].T.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto"
            )
            panel.set_title(f"{name}, {_after(hidden.layers[layer])}", fontsize=9)
            mark_prompt(panel, hidden.start)
            _mark_spoken(panel, hidden)
            marks = ticks(T, 9)
            panel.set_yticks(marks, [f"q{t + 1}" for t in marks], fontsize=8)
        axes[i, 0].set_ylabel("state")
    name_positions(axes[1], hidden.positions)
    figure.colorbar(image, ax=axes, label=LABEL, shrink=0.8)
    what = "linear probes; right of the orange steps $q_t$ is spoken"
    figure.suptitle(f"{hidden.title}, {hidden.moment}: {what}", fontsize=10)
    return figure


def draw_layer_maps(hidden: Hidden) -> Figure:
    """For each state q_t a map of layers × positions."""
    T, layers = hidden.horizon, hidden.trained.hits.shape[0]
    columns = min(range(3, 6), key=lambda c: (-T % c, -c)) if T > 5 else T  # as few empty places as can be
    rows = -(-T // columns)
    names = 0.06 * max(len(layer_name(layer)) for layer in hidden.layers)  # inches beside the first map
    width = 1.4 + names + 2.5 * columns
    height = max(3.6, 1.2 + rows * (0.75 + 0.2 * min(layers, MOST_MODULES)))  # the scale's label needs as much
    figure, axes = new_figure(
        rows, columns, width=width, height=height, squeeze=False, sharex=True, sharey=True
    )
    image: Any = None
    shares = hidden.trained.above_chance()
    for t, panel in enumerate(axes.flat, start=1):
        if t > T:
            panel.set_visible(False)
            continue
        image = panel.imshow(
            shares[..., t - 1].numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto", origin="lower"
        )
        mark_prompt(panel, hidden.start)
        panel.axvline(t - 1.5, color=PALETTE[1], linewidth=0.9)  # σ_t stands right of it
        best = hidden.best(t)
        panel.set_title(f"q{t}: best {best.right.value:.0%} (chance {best.chance:.0%})", fontsize=8)
        marks = ticks(layers, 5 if hidden.lens else MOST_MODULES)
        panel.set_yticks(marks, [layer_name(hidden.layers[i]) for i in marks], fontsize=7)
    lowest = list(axes.flat)[max(0, T - columns) : T]
    for panel in lowest:
        panel.tick_params(labelbottom=True)
    name_positions(lowest, hidden.positions)
    figure.colorbar(image, ax=axes, label=LABEL, shrink=0.8)
    what = "linear probes for each state; from the orange line on, $σ_t$ has been read"
    figure.suptitle(f"{hidden.title}, {hidden.moment}: {what}", fontsize=10)
    return figure


def _mark_spoken(panel: Any, hidden: Hidden) -> None:
    """A short line at the place where q_t is spoken."""
    for t in hidden.shown:
        place = hidden.unspoken(t)
        panel.plot([place - 0.5, place - 0.5], [t - 1.5, t - 0.5], color=PALETTE[1], linewidth=1.6)


def _after(layer: Layer) -> str:
    if isinstance(layer, str):
        return layer
    return "embedding" if layer == 0 else f"after layer {layer}"


def layer_name(layer: Layer) -> str:
    """How it is called in tables and at axes."""
    if isinstance(layer, str):
        return layer
    return "input" if layer == 0 else f"layer {layer}"


# The command ---------------------------------------------------------------------------------------------


def probe_command(arguments: ProbeArguments) -> None:
    chain = open_chain(arguments.run, arguments.device)
    with errors_console().status("probing"):
        found = look_inside(
            chain, arguments.stage, arguments.samples, arguments.seed, arguments.budget, arguments.modules
        )
    out = arguments.folder(chain.run.path)
    out.csv("probe", found.rows())
    out.json("probe", found.to_json())
    out.figure("probe", draw_probes(found))
    out.figure("probe-layers", draw_layer_maps(found))
    if found.lens is not None:
        title = f"{found.title}, {found.moment}"
        out.figure("lens", draw_lens(found.lens, title, float(found.trained.chance[-1])))
        out.figure("attention", draw_attention(found.lens, title))
        out.figure("heads", draw_heads(found.lens, title))
    arguments.present(found.to_json(), out, partial(_print_hidden, found))


def _print_hidden(found: Hidden, console: Console) -> None:
    rows = []
    for t in range(1, found.horizon + 1):
        best = found.best(t)
        where = f"{best.position}, {layer_name(best.layer)}"
        controls = [f"{100 * value:.1f} %" for value in (best.untrained, best.shuffled, best.chance)]
        rows.append([f"q{t}", "yes" if best.spoken else "no", where, str(best.right), *controls])
    title = f"{found.title}, {found.moment}: where each state can be read before it is spoken"
    columns = ["state", "spoken", "best place", "probe", "untrained", "shuffled", "chance"]
    console.print(results_table(title, columns, rows))
    if not found.mass:
        return
    rows = [
        [
            f"q{mass.said}",
            f"layer {mass.layer}",
            f"q{mass.after}, " + " … ".join(f"σ{t}" for t in sorted({mass.after + 1, mass.said})),
            f"{mass.needed:.2f}",
            f"{mass.needed_strongest:.2f}",
            f"{mass.needed_if_even:.2f}",
            f"{mass.previous:.2f}",
        ]
        for mass in found.mass
    ]
    columns = ["says", "layer", "needs", "on these σ", "strongest head", "if even", "on that state"]
    console.print(results_table("attention on what the next state needs", columns, rows))
