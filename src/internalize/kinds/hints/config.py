"""What an experiment with hints computes: the identity of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from internalize.configs.codec import Values, typed
from internalize.configs.named import Copies, Source
from internalize.errors import require, require_seed
from internalize.models.config import Precision
from internalize.tasks.circuits import Circuit, Form, Replacement, find_circuit, parity_circuit
from internalize.tasks.parity import HiddenParity

if TYPE_CHECKING:
    import torch

    from internalize.kinds.hints.experiment import HintsExperiment
    from internalize.tasks.hints import HintedTask

Method = Literal["direct", "curriculum", "mixture"]
PresetName = Literal[
    "paper", "laptop"
]  # as for chains: typing takes two orders for one type, and shows the first


@dataclass(frozen=True)
class Preset:
    """The sizes of an experiment."""

    d: int
    k: int
    width: int
    lr: float
    steps: int


PRESETS: dict[PresetName, Preset] = {
    "paper": Preset(d=25, k=12, width=2048, lr=3e-3, steps=600_000),
    "laptop": Preset(d=24, k=8, width=256, lr=0.04, steps=50_000),
}

BIAS = 0.1
DEEPEST = 1_000
MOST_BITS = 100_000
"""Of an input; the first layer has as many weights for each of its units."""


@dataclass(frozen=True)
@typed("evaluation")
class HintsEvaluation:
    """When and on how much the network is measured."""

    every: int | None = None
    """Steps between two measurements, besides those at stage ends; about 50 in all if not given."""
    samples: int = 5_000
    """Fresh inputs of a measurement on the way."""
    final_samples: int = 20_000
    """Fresh inputs of the last measurement."""

    def __post_init__(self) -> None:
        good = self.every is None or self.every >= 1
        require(good, "evaluation.every", f"must be at least 1, got {self.every}")
        require(self.samples >= 1, "evaluation.samples", f"must be at least 1, got {self.samples}")
        good = self.final_samples >= 1
        require(good, "evaluation.final-samples", f"must be at least 1, got {self.final_samples}")


def completed(given: Values) -> Values:
    """The fields with what is not given taken from the preset, and the preset forgotten: only what is computed
    is a run's identity."""
    preset = PRESETS[given["preset"] or "paper"]
    sizes: dict[str, Any] = {"width": preset.width, "lr": preset.lr, "steps": preset.steps}
    if given["circuit"] == "parity":
        support = given["support"]
        sizes |= {"d": preset.d, "k": preset.k if support is None else len(support)}
    missing = {name: size for name, size in sizes.items() if given[name] is None}
    return {**given, **missing, "preset": None}


@dataclass(frozen=True)
@typed(completed=completed)
class HintsConfig:
    """A ReLU network learns a Boolean function with its circuit's gates as hints, then without them."""

    kind: ClassVar[str] = "hints"

    preset: PresetName | None = None
    """Sizes for whatever is not given: laptop (minutes on two cores) or paper (hours); paper if not given."""
    circuit: str = "parity"
    """The function: parity, adder5, majority3x4, a .json or .yaml file of gates, module:name."""
    d: int | None = None
    """Bits of an input (parity; paper 25, laptop 24)."""
    k: int | None = None
    """Bits that the parity is over; there are k-1 hints (paper 12, laptop 8)."""
    support: tuple[int, ...] | None = None
    """Which bits the parity is over, in order, numbered from 1; the first k if not given, as in the paper."""
    method: Method = "curriculum"
    """direct: no hints from the start; curriculum: one hint fewer at every stage; mixture: every batch draws
    how many are missing."""
    width: int | None = None
    """Units of a hidden layer (paper 2048, laptop 256)."""
    depth: int = 2
    """Hidden layers."""
    lr: float | None = None
    """Step size of plain SGD (paper 0.003, laptop 0.04)."""
    steps: int | None = None
    """Training steps in all, each on a fresh batch (paper 600 thousand, laptop 50 thousand)."""
    batch: int = 64
    """Fresh examples a step."""
    seed: int = 0
    """Everything random in the run is a function of this number."""
    form: Form = "bipolar"
    """How bits are written: bipolar (1 and -1) or binary (0 and 1)."""
    replacement: Replacement = "noise"
    """What stands in a removed hint's place: noise, or the neutral value (1 bipolar, 0 binary)."""
    label_noise: float = 0.1
    """Probability that a training label is flipped."""
    hints: bool = True
    """Whether there are places for hints at all; without, the network reads x alone."""
    biased_share: float = 0.0
    """Share of the training inputs whose bits are biased; the others, and all when measuring, are uniform."""
    bias: float = BIAS
    """Probability of a 1 in a biased input."""
    evaluation: HintsEvaluation = field(default_factory=HintsEvaluation)
    precision: Precision = "fp32"
    """bf16: products between hidden layers in bfloat16; weights and all else stay in fp32."""
    log_every: int = 500
    """Steps averaged into one row of metrics."""

    def __post_init__(self) -> None:
        self._check_bits()
        for name, value in (
            ("steps", self.steps), ("width", self.width), ("depth", self.depth), ("batch", self.batch),
            ("log-every", self.log_every),
        ):  # fmt: skip
            require(value is not None and value >= 1, name, f"must be at least 1, got {value}")
        require((self.depth or 1) <= DEEPEST, "depth", f"must be at most {DEEPEST:,}, got {self.depth}")
        good = self.lr is not None and 0 < self.lr < math.inf
        require(good, "lr", f"must be more than 0 and finite, got {self.lr}")
        for name, share in (("biased-share", self.biased_share), ("bias", self.bias)):
            require(0 <= share <= 1, name, f"must lie in [0, 1], got {share}")
        good = self.biased_share > 0 or self.bias == BIAS
        require(good, "bias", "belongs to biased inputs: no input is while --biased-share is 0")
        good = 0 <= self.label_noise < 0.5
        require(good, "label-noise", f"must lie in [0, 0.5), got {self.label_noise}")
        require_seed(self.seed)

    def _check_bits(self) -> None:
        if self.circuit != "parity":
            for name in ("d", "k", "support"):
                good = getattr(self, name) is None
                require(good, name, f"belongs to parity; {self.circuit} says itself how many bits it reads")
            return
        assert self.d is not None
        assert self.k is not None
        require(1 <= self.d <= MOST_BITS, "d", f"must lie in 1…{MOST_BITS:,}, got {self.d}")
        require(1 <= self.k <= self.d, "k", f"must lie in 1…d = {self.d}, got {self.k}")
        if self.support is not None:
            parity = HiddenParity(self.d, self.support)
            require(parity.k == self.k, "support", f"must name k = {self.k} bits, got {parity.k}")

    @property
    def learning_rate(self) -> float:
        assert self.lr is not None  # filled in when the config was made
        return self.lr

    @property
    def all_steps(self) -> int:
        assert self.steps is not None
        return self.steps

    @property
    def hidden_width(self) -> int:
        assert self.width is not None
        return self.width

    @property
    def samples_per_step(self) -> int:
        return self.batch

    @property
    def evaluation_interval(self) -> int:
        """Steps between two measurements."""
        return self.evaluation.every or max(100, self.all_steps // 50)

    def find(self, copies: Copies) -> tuple[Circuit, Source | None]:
        """The circuit, and the user's file behind it where there is one."""
        if self.circuit != "parity":
            return find_circuit(self.circuit, "circuit", copies)
        assert self.d is not None
        assert self.k is not None
        return parity_circuit(self.d, self.support or range(1, self.k + 1)), None

    def task(self, copies: Copies) -> HintedTask:
        """What the network learns from."""
        from internalize.tasks.hints import HintedTask

        circuit, _ = self.find(copies)
        if not self.hints:
            circuit = Circuit(circuit.name, circuit.inputs, circuit.gates, circuit.output, ())
        return HintedTask(circuit, self.replacement, self.label_noise, self.bias, self.biased_share)

    def check(self, copies: Copies) -> list[Source]:
        _, source = self.find(copies)
        stages = self.task(copies).hints + 1
        good = self.method != "curriculum" or self.all_steps >= stages
        require(good, "steps", f"must be at least the {stages} stages of the curriculum, got {self.steps}")
        return [] if source is None else [source]

    def label(self) -> str:
        name = Path(self.circuit).stem if "." in self.circuit else self.circuit
        sizes = f"-d{self.d}-k{self.k}" if self.circuit == "parity" else ""
        return f"hints-{name}{sizes}-{self.method}-s{self.seed}"

    def build(self, device: torch.device, copies: Copies) -> HintsExperiment:
        from internalize.kinds.hints.experiment import HintsExperiment

        return HintsExperiment(self, device, copies)
