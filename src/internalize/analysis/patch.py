"""`internalize patch`: which place in the model carries what decides the answer?

Activation patching: the model reads one sequence, but at one layer and one position it is given the activation
that belongs to another. If its answer becomes the other's answer, then what makes the difference is carried
there. Two ways to choose the other:

another input    One symbol σ_t is changed and nothing else, so that q_t and all later states may differ. The
                 map of t shows where the model keeps what it knows of σ_t: first at the symbol's own place,
                 and then wherever the states that depend on it are computed.
another stage    The same input, read by the weights of another stage of the run.

Of a network of the user's own, what each of its submodules gives is replaced in the place of the layers.

Both read true sequences of the stage's own format (of two stages: the prompt alone) up to the place that says
the last state. Only pairs on which the two answers differ are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from rich.console import Console
from torch import Tensor

from internalize.analysis.arguments import Part, PatchArguments
from internalize.analysis.lens import SHADES, position_names, some_layers
from internalize.analysis.open_run import OpenChain, open_chain, stream
from internalize.analysis.probe import MOST_MODULES, Layer, layer_name
from internalize.display.plots import new_figure, ticks
from internalize.display.terminal import errors_console, results_table
from internalize.errors import require
from internalize.kinds.entrance import Moment
from internalize.measure.activations import Change, activations, choose_modules, run_with_changes
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import OwnNetwork
from internalize.statistics import Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CASES = 6
"""Of more symbols than this, evenly spread ones are changed unless some are asked for."""


@dataclass(frozen=True)
class Reader:
    """A model and the (pairs, length) tokens that it reads."""

    model: LanguageModel
    tokens: Tensor


@dataclass(frozen=True)
class PatchMap:
    """For one choice of pairs: how often the answer became the other's, at every layer and position."""

    case: str
    """What differs: `σ3`, or `stage 1`."""
    layers: tuple[Layer, ...]
    """0 is the embedding; of a network of one's own the names of its submodules."""
    moved: Tensor
    """(layers, positions) int64: pairs whose answer became the other's."""
    pairs: int
    """Pairs on which the two answers differ."""

    def rate(self, row: int, position: int) -> Rate | None:
        return Rate(int(self.moved[row, position]), self.pairs) if self.pairs else None

    def strongest(self, row: int) -> int:
        """The position that moves most answers, the last of several."""
        return int(self.moved.shape[1] - 1 - self.moved[row].flip(0).argmax())


@dataclass(frozen=True)
class Patched:
    """All maps of one run."""

    title: str
    moment: Moment
    part: Part | Literal["output"]
    """What is replaced: a part of a layer, or the output of a submodule of a network of one's own."""
    positions: tuple[str, ...]
    maps: tuple[PatchMap, ...]

    def rows(self) -> list[dict[str, object]]:
        """One row for each case, layer and position."""
        rows: list[dict[str, object]] = []
        for found in self.maps:
            for i, layer in enumerate(found.layers):
                for p, position in enumerate(self.positions):
                    rate = found.rate(i, p)
                    rows.append(
                        {
                            "differs": found.case,
                            "part": self.part,
                            "layer": layer,
                            "position": position,
                            "pairs": found.pairs,
                            "moved": rate.value if rate else None,
                            "low": rate.interval.low if rate else None,
                            "high": rate.interval.high if rate else None,
                        }
                    )
        return rows

    def to_json(self) -> dict[str, object]:
        about = {"run": self.title, **self.moment.to_json(), "part": self.part}
        return {**about, "positions": list(self.positions), "rows": self.rows()}


def patch_inputs(
    chain: OpenChain,
    stage: int | None,
    part: Part,
    symbols: tuple[int, ...],
    samples: int,
    seed: int,
    modules: Sequence[str] = (),
) -> Patched:
    """One map for every σ_t to change. symbols: their numbers t; evenly spread ones if none is given."""
    task, renderer, T = chain.experiment.task, chain.experiment.renderer, chain.horizon
    require(task.symbols >= 2, "run", f"{chain.title} has a single symbol: no other input to take from")
    wrong = [t for t in symbols if not 1 <= t <= T]
    require(not wrong, "symbols", f"must lie in 1…{T}, got {wrong}")
    moment = chain.moment(stage)
    model, shown = chain.model(moment.stage), chain.own_shown(moment.stage)
    drawn = chain.draw(chain.experiment.inputs, samples, seed, "patch")
    tokens = renderer.sequence(drawn.symbols, drawn.states, shown)[:, :-2]
    places, maps = places_of(model, part, modules, tokens.shape[1]), []
    for t in symbols or _spread(T):
        changed = drawn.symbols.clone()
        generator = stream(seed, f"patch/{t}", changed.device)
        size = (samples,)
        steps = torch.randint(1, task.symbols, size, generator=generator, device=changed.device)
        changed[:, t - 1] = (changed[:, t - 1] + steps) % task.symbols
        other = task.trace(changed, renderer.initial_state)
        source = Reader(model, renderer.sequence(changed, other, shown)[:, :-2])
        first = renderer.vocabulary.first_state
        maps.append(patch_map(Reader(model, tokens), source, f"σ{t}", places, first, task.states))
    return Patched(chain.title, moment, _what(model, part), position_names(renderer, shown)[:-1], tuple(maps))


def patch_stages(
    chain: OpenChain,
    stage: int | None,
    source_stage: int,
    part: Part,
    samples: int,
    seed: int,
    modules: Sequence[str] = (),
) -> Patched:
    """The weights of another stage on the same prompts: where does what they know come in?"""
    renderer, task = chain.experiment.renderer, chain.experiment.task
    moment = chain.moment(stage)
    drawn = chain.draw(chain.experiment.inputs, samples, seed, "patch")
    prompt = renderer.prompt(drawn.symbols, 2)
    kept = chain.stages
    require(source_stage in kept, "source-stage", f"kept are the stages {list(kept)}, not {source_stage}")
    base, source = (Reader(chain.model(number), prompt) for number in (moment.stage, source_stage))
    places, first = places_of(base.model, part, modules, prompt.shape[1]), renderer.vocabulary.first_state
    found = patch_map(base, source, f"stage {source_stage}", places, first, task.states)
    return Patched(chain.title, moment, _what(base.model, part), position_names(renderer, ()), (found,))


def places_of(model: LanguageModel, part: Part, modules: Sequence[str], length: int) -> dict[Layer, str]:
    """What is replaced: the layer, or the user's submodule → the name of the activation."""
    if isinstance(model, OwnNetwork):
        instead = "is for the built-in GPT-2; of a network of your own name submodules with --modules"
        require(part == "residual", "part", instead)
        return {name: name for name in choose_modules(model, modules, length)}
    require(not modules, "modules", "is for networks of your own; the built-in GPT-2 has --part")
    return {layer: f"{part}.{layer}" for layer in range(0 if part == "residual" else 1, model.config.depth + 1)}


def _what(model: LanguageModel, part: Part) -> Part | Literal["output"]:
    return "output" if isinstance(model, OwnNetwork) else part


def patch_map(
    base: Reader, source: Reader, case: str, places: Mapping[Layer, str], first_state: int, states: int
) -> PatchMap:
    """Every layer and position of `base` in turn gets what `source` has there."""
    last = base.tokens.shape[1] - 1

    def word(logits: Tensor) -> Tensor:
        return logits[:, -1, first_state : first_state + states].argmax(dim=-1)

    theirs = activations(source.model, source.tokens, list(places.values()))
    said, wanted = word(base.model(base.tokens, first=last)[0]), word(theirs["logits"])
    differ = torch.nonzero(said != wanted)[:, 0]
    moved = torch.zeros(len(places), last + 1, dtype=torch.int64)
    if len(differ):
        for i, name in enumerate(places.values()):
            given = theirs[name][differ]
            for position in range(last + 1):
                changes = {name: put(given, position)}
                logits = run_with_changes(base.model, base.tokens[differ], changes, first=last)
                moved[i, position] = int((word(logits) == wanted[differ]).sum())
    return PatchMap(case, tuple(places), moved, len(differ))


def put(given: Tensor, position: int) -> Change:
    """The change that puts (batch, length, width) `given` at one position."""

    def change(value: Tensor) -> Tensor:
        value = value.clone()
        value[:, position] = given[:, position]
        return value

    return change


def _spread(count: int) -> tuple[int, ...]:
    if count <= MOST_CASES:
        return tuple(range(1, count + 1))
    return tuple(sorted({round(1 + i * (count - 1) / (MOST_CASES - 1)) for i in range(MOST_CASES)}))


# The picture ---------------------------------------------------------------------------------------------


def draw_patched(patched: Patched) -> Figure:
    """One map of layers × positions for every case."""
    columns = min(3, len(patched.maps))
    rows = -(-len(patched.maps) // columns)
    layers, positions = patched.maps[0].layers, patched.positions
    names = 0.06 * max(len(layer_name(layer)) for layer in layers)  # inches beside each map
    width = 1.4 + columns * (names + max(2.8, min(0.26 * len(positions), 4.8)))
    height = 1.5 + rows * (0.9 + 0.22 * min(len(layers), MOST_MODULES))
    figure, axes = new_figure(rows, columns, width=width, height=height, squeeze=False)
    image: Any = None
    for found, panel in zip(patched.maps, axes.flat, strict=False):
        share = found.moved.double() / max(1, found.pairs)
        image = panel.imshow(share.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto", origin="lower")
        panel.grid(False)
        what = "another" if found.case.startswith("σ") else "taken from"
        panel.set_title(f"{what} {found.case} ({found.pairs} pairs)", fontsize=8)
        own = isinstance(layers[0], str)
        marks = ticks(len(layers), MOST_MODULES) if own else some_layers(len(layers))
        panel.set_yticks(marks, [layer_name(layers[i]) for i in marks], fontsize=7)
        places = ticks(len(positions), 9)
        panel.set_xticks(places, [positions[i] for i in places], fontsize=7, rotation=60)
    for panel in list(axes.flat)[len(patched.maps) :]:
        panel.set_visible(False)
    figure.colorbar(image, ax=axes, label="answers that become the other's", format="{x:.0%}", shrink=0.8)
    place = "submodule" if patched.part == "output" else "layer"
    what = f"{patched.part} replaced at one {place} and position"
    figure.suptitle(f"{patched.title}, {patched.moment}\n{what}", fontsize=10)
    return figure


# The command ---------------------------------------------------------------------------------------------


def patch_command(arguments: PatchArguments) -> None:
    chain = open_chain(arguments.run, arguments.device)
    find: Callable[..., Patched]
    if arguments.source_stage is None:
        find = partial(patch_inputs, chain, arguments.stage, arguments.part, arguments.symbols)
    else:
        unused = not arguments.symbols
        require(unused, "symbols", "must be left out with --source-stage: no symbol is changed then")
        find = partial(patch_stages, chain, arguments.stage, arguments.source_stage, arguments.part)
    with errors_console().status("patching"):
        found = find(arguments.samples, arguments.seed, arguments.modules)
    out = arguments.folder(chain.run.path)
    out.csv("patch", found.rows())
    out.json("patch", found.to_json())
    out.figure("patch", draw_patched(found))
    arguments.present(found.to_json(), out, partial(_print_patched, found))


def _print_patched(found: Patched, console: Console) -> None:
    rows = []
    for each in found.maps:
        for i, layer in enumerate(each.layers):
            place = each.strongest(i)
            rate = each.rate(i, place)
            where = found.positions[place] if rate else "–"
            rows.append(
                [each.case, layer_name(layer), where, str(rate) if rate else "the answers never differ"]
            )
    title = f"{found.title}, {found.moment}: {found.part} replaced"
    columns = ["differs", "after", "strongest position", "answers that become the other's"]
    console.print(results_table(title, columns, rows))
