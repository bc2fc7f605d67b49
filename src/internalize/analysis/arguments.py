"""Which options the commands of this room have; apart from what computes, so that help and errors are quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from internalize.analysis.output import Device, InspectionArguments, RunPath
from internalize.configs.named import TrustOption
from internalize.errors import closest, require
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import MOST

Part = Literal["residual", "attention", "mlp"]
InstanceName = Literal["original", "hints", "mixture"]
INSTANCES: tuple[InstanceName, ...] = get_args(InstanceName)
MOST_SAMPLES = 1_000_000_000


@dataclass(frozen=True)
class EvaluateArguments(TrustOption):
    """Measure a run on fresh inputs. Of an unfinished run the last kept stage is measured, and this is said."""

    run: RunPath
    """The run: its folder, a unique part of its name, the beginning of its hash, or latest."""
    inputs: str | None = None
    """uniform, binomial:p, weights:… (one number for each symbol, commas between); the run's ID and OOD if not
    given. Of a run of text: one of its files by its name, or another file of rows; all of its own if not
    given."""
    samples: int = 10_000
    """Sequences to answer; of text, at most so many rows of a file."""
    horizon: int | None = None
    """Symbols in an input; the run's own number if not given. Models with absolute positions know no other.
    Text has none."""
    stage: int | None = None
    """Measure the weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Tokens of an answer, EOS included: asked for by LEN (mixture) or pauses (filler), else forced; free if
    not given. Of text: tokens of the chain before the answer, asked for (mixture) or forced."""
    seed: int = 0
    """Which inputs are drawn; of text none are."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class ShowArguments(TrustOption):
    """Look at a run's answers to drawn inputs: prompt, answer and truth side by side."""

    run: RunPath
    """The run: its folder, a unique part of its name, the beginning of its hash, or latest."""
    examples: int = 10
    """How many."""
    inputs: str | None = None
    """uniform, binomial:p or weights:… (one number for each symbol, commas between); uniform if not given. Of a
    run of text: one of its files by its name, or another file of rows; its first file if not given."""
    stage: int | None = None
    """Show the weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Tokens of an answer, EOS included: asked for by LEN (mixture) or pauses (filler), else forced; free if
    not given. Of text: tokens of the chain before the answer, asked for (mixture) or forced."""
    seed: int = 0
    """Which inputs are drawn; of text none are, the file's first rows are shown."""
    device: Device = "auto"
    json: bool = False
    """Print a JSON list."""


@dataclass(frozen=True)
class AskArguments(TrustOption):
    """Ask a run one question: `internalize ask RUN "1 0 1 1"`."""

    run: RunPath
    """The run: its folder, a unique part of its name, the beginning of its hash, or latest."""
    words: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="INPUT")]
    """The symbols, by their names, with spaces or commas between, in quotes or not. Another length than the
    run's own is read where the model can (rotary or no positions). Of a run of text: a question, in quotes."""
    stage: int | None = None
    """Ask the weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Tokens of the answer, EOS included: asked for by LEN (mixture) or pauses (filler), else forced; free if
    not given. Of text: tokens of the chain before the answer, asked for (mixture) or forced."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""

    def __post_init__(self) -> None:
        require(bool(self.words), "ask", 'INPUT is missing: internalize ask RUN "1 0 1 1"')

    @property
    def inputs(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class CheckArguments(TrustOption):
    """Does FAST internalize SLOW, by the paper's definition? Models are named RUN[@STAGE][:BUDGET].

    The budget counts the answer's tokens with EOS. RUN --against RUN@1 asks whether the final model
    internalized the chain of its own stage 1; RUN:2 is asked for, or made to give, the direct answer. The exit
    code is 1 if a clause fails.
    """

    fast: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The model that should have internalized."""
    against: str
    """The slow one: a model that writes its chain, for example RUN@1."""
    epsilon: float | None = None
    """Check the distributional definition with this ε instead of the strict one."""
    inputs: str | None = None
    """all, uniform, binomial:p or weights:…; all where they are few, else the run's training inputs. Of text:
    one of its files by its name."""
    samples: int | None = None
    """Inputs to draw where not all are looked at: ten thousand if not given."""
    seed: int = 0
    """Which inputs are drawn."""
    out: Path | None = None
    """Folder for the verdict as JSON; none is written if not given."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class DiagnoseArguments(InspectionArguments):
    """What went right or wrong in a run, in plain words and numbers, and what to try."""

    samples: int = 1_000
    """Fresh sequences for the losses by position."""


@dataclass(frozen=True)
class MatrixArguments(InspectionArguments):
    """Accuracy of every saved stage at every answer budget, ID and OOD, free-running and teacher-forced."""

    samples: int = 250
    """Sequences of each distribution; all cells answer the same ones. The cost grows with T³ in all."""
    stages: tuple[int, ...] = ()
    """Only these stages; all that were kept if not given."""


@dataclass(frozen=True)
class ProfileArguments(InspectionArguments):
    """Accuracy as the inputs leave the training distribution, and on rare final states."""

    stage: int | None = None
    """The weights at the end of this stage; the final ones if not given."""
    samples: int = 1_000
    """Sequences of each distribution."""
    points: int = 11
    """Values of p, and of a symbol's probability, from 0 to 1."""


@dataclass(frozen=True)
class AuditArguments(InspectionArguments):
    """What a mixture model does with right, wrong, absent and contradictory length tokens."""

    samples: int = 1_000
    """Sequences of each distribution; every hint is tried on the same ones."""


@dataclass(frozen=True)
class ProbeArguments(InspectionArguments):
    """Where in the model can each state be read? Linear probes with controls, logit lens, attention."""

    stage: int | None = None
    """The weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Mixtures: tokens of the answer that is read, EOS included; the direct answer if not given."""
    samples: int = 3_000
    """Inputs, two thirds to fit the probes and the rest to test them."""
    modules: tuple[str, ...] = ()
    """For a network of your own: only these of its submodules, by name or pattern (blocks.*). If not given, all
    that give one vector for each position."""


@dataclass(frozen=True)
class PatchArguments(InspectionArguments):
    """Replace one activation by that of another input, or of another stage: where is the answer decided?"""

    stage: int | None = None
    """The weights at the end of this stage; the final ones if not given."""
    source_stage: int | None = None
    """Take the activations of this stage on the same inputs, instead of those of another input."""
    symbols: tuple[int, ...] = ()
    """Which symbols σ_t to change, by their numbers t; at most six, evenly spread, if not given."""
    part: Part = "residual"
    """What is replaced: the residual stream after a layer, or what its attention or MLP adds to it."""
    samples: int = 100
    """Pairs for each map."""
    modules: tuple[str, ...] = ()
    """For a network of your own: only these of its submodules, by name or pattern (blocks.*). If not given, all
    that give one vector for each position."""


@dataclass(frozen=True)
class ConstructArguments(TrustOption):
    """A transformer written by hand: the log-depth counter of theorem 3, or the general construction."""

    order: int | None = None
    """n: the counter C_n is built; 12 if neither an order nor a task is given."""
    horizon: int | None = None
    """T, the number of input symbols; 25 if not given."""
    initial_state: int | None = None
    """q_0; the task's own if not given (0 for counters)."""
    general: bool = False
    """Build the general construction: transition maps, composed by an MLP of width O(|Q|²)."""
    task: str | None = None
    """A semiautomaton such as C7, S3 or a file, for --general; counters may be named so without it."""
    precision: Literal["float64", "float32", "float16", "bfloat16"] = "float64"
    """Number format of weights and activations."""
    check: Literal["auto", "exhaustive", "random"] = "auto"
    """exhaustive: all inputs up to ten million, else random and adversarial ones; auto: up to 100 thousand."""
    samples: int = 10_000
    """Random inputs, where not all are checked."""
    seed: int = 0
    """Seed of the random inputs and of the weight noise."""
    margins: bool = False
    """Search the smallest β, the lowest precision and the largest weight noise that stay exact."""
    draw: bool = False
    """Draw attention, what each position holds, and the sizes of both constructions against n."""
    against: str | None = None
    """A run: put its attention and readable residues beside the construction's. Task, horizon and q_0 are
    the run's if not given."""
    out: Path | None = None
    """Folder for certificate, weights and pictures; pictures go to `construct-<task>-T<T>` if not given."""
    json: bool = False
    """Print the certificate as JSON instead of tables."""


@dataclass(frozen=True)
class ShiftArguments:
    """Positive distribution shift: train on easier contexts, measure on the hard target, several seeds."""

    instance: Annotated[InstanceName, tyro.conf.Positional]
    """original (biased inputs), hints (hinted parity) or mixture (chains of all lengths)."""
    seeds: int = 3
    """Runs of each arm, with the seeds 0, 1, …"""
    steps: int | None = None
    """Training steps of a run; as many as the instance needs if not given."""
    epsilon: float = 0.05
    """ε: how near to the best in the class counts as learned."""
    samples: int = 10_000
    """Fresh inputs for the target loss of a final model."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""
    drawings: Path | None = None
    """Folder for the figure and the tables; `pds` in the folder of the runs if not given."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)

    def __post_init__(self) -> None:
        near = closest(str(self.instance), list(INSTANCES))
        good = self.instance in INSTANCES
        require(good, "instance", f"must be one of {', '.join(INSTANCES)}{near}; got {self.instance!r}")
        for name, count, most in (("seeds", self.seeds, MOST), ("samples", self.samples, MOST_SAMPLES)):
            require(1 <= count <= most, name, f"must lie in 1…{most:,}, got {count:,}")
        require(self.steps is None or self.steps >= 1, "steps", f"must be at least 1, got {self.steps}")
        require(0 < self.epsilon < 1, "epsilon", f"must lie between 0 and 1, got {self.epsilon}")
