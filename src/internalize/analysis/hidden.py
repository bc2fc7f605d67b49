"""Hidden progress: probes with their controls, lens and attention of one stage, put together."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor

from internalize.analysis.lens import Lens, Mass, attention_mass, look, position_names
from internalize.analysis.opening import OpenChain, untrained
from internalize.analysis.probe import ProbeHits, Record, fit_probes
from internalize.curricula import Shown
from internalize.errors import require
from internalize.models.gpt2 import GPT2
from internalize.models.passes import run_with_attention
from internalize.runtime.streams import Streams
from internalize.statistics import Rate

LOOKED_AT = 1_000
"""Inputs for lens and attention, at most."""


@dataclass(frozen=True)
class Best:
    """Where one state can be read best before it is spoken."""

    t: int
    spoken: bool
    """Whether the format shows q_t at all."""
    layer: int
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
    stage: int
    inputs: str
    shown: Shown
    positions: tuple[str, ...]
    trained: ProbeHits
    untrained: ProbeHits
    lens: Lens
    mass: tuple[Mass, ...]

    @property
    def horizon(self) -> int:
        return self.trained.hits.shape[2]

    def unspoken(self, t: int) -> int:
        """How many positions come before q_t is spoken."""
        name = f"q{t}"
        return self.positions.index(name) if name in self.positions else len(self.positions)

    def best(self, t: int) -> Best:
        end = self.unspoken(t)
        layer, position = _argmax(self.trained.hits[:, :end, t - 1])
        return Best(
            t=t,
            spoken=t in self.shown,
            layer=layer,
            position=self.positions[position],
            right=self.trained.rate(layer, position, t),
            untrained=float(self.untrained.accuracy[:, :end, t - 1].max()),
            shuffled=float(self.trained.shuffled[:, :end, t - 1].max()) / self.trained.held_out,
            chance=float(self.trained.chance[t - 1]),
        )

    def rows(self) -> list[dict[str, object]]:
        """One row a probe."""
        controls = self.untrained.accuracy, self.trained.shuffled.double() / self.trained.held_out
        rows: list[dict[str, object]] = []
        for layer, places in enumerate(self.trained.accuracy):
            for place, accuracies in enumerate(places.tolist()):
                for t, accuracy in enumerate(accuracies, start=1):
                    rate = self.trained.rate(layer, place, t)
                    row = {"layer": layer, "position": self.positions[place], "t": t, "accuracy": accuracy}
                    row |= {"low": rate.interval.low, "high": rate.interval.high, "n": rate.trials}
                    row |= {
                        "untrained": float(controls[0][layer, place, t - 1]),
                        "shuffled": float(controls[1][layer, place, t - 1]),
                        "lens": float(self.lens.states[layer, place, t - 1]),
                        "spoken": place >= self.unspoken(t),
                    }
                    rows.append(row)
        return rows

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.title,
            "stage": self.stage,
            "inputs": self.inputs,
            "shown": list(self.shown),
            "positions": list(self.positions),
            "best": [_best_json(self.best(t)) for t in range(1, self.horizon + 1)],
            "lens_next_token": self.lens.next_token.tolist(),
            "attention_mass": [asdict(mass) for mass in self.mass],
            "probes": self.rows(),
        }


def look_inside(
    chain: OpenChain, stage: int | None, samples: int, seed: int = 0, budget: int | None = None
) -> Hidden:
    """samples: inputs, two thirds of them to fit the probes and the rest to test them.

    budget: for mixtures, tokens of the answer that is read, EOS included; the direct answer if not given.
    """
    require(samples >= 30, "samples", f"probes need at least 30 inputs, got {samples}")
    number = chain.stage_or_last(stage)
    shown, experiment = chain.own_shown(number, budget), chain.experiment
    renderer, inputs = experiment.renderer, experiment.inputs
    examples = chain.draw(inputs, samples, seed, "probe")
    tokens = renderer.sequence(examples.symbols, examples.states, shown)[:, :-1]
    model = chain.model(number)

    def probe(model: GPT2) -> ProbeHits:
        shuffles = Streams(seed)("probe/shuffled labels")
        classes = experiment.task.states
        return fit_probes(stream_of(model), tokens, examples.states, classes, 2 * samples // 3, shuffles)

    few = slice(0, LOOKED_AT)
    lens = look(model, renderer, examples.symbols[few], examples.states[few], shown)
    return Hidden(
        title=chain.title,
        stage=number,
        inputs=inputs.name,
        shown=shown,
        positions=position_names(renderer, shown),
        trained=probe(model),
        untrained=probe(untrained(chain)),
        lens=lens,
        mass=tuple(attention_mass(lens, renderer, shown)),
    )


def stream_of(model: GPT2) -> Record:
    """How to read the residual stream of a model, before the first and after every layer."""

    def record(tokens: Tensor) -> list[Tensor]:
        return run_with_attention(model, tokens)[1]

    return record


def _argmax(values: Tensor) -> tuple[int, int]:
    """Row and column of the largest entry, the first of several."""
    row, column = divmod(int(values.flatten().argmax()), values.shape[1])
    return row, column


def _best_json(best: Best) -> dict[str, object]:
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
