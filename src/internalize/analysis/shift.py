"""`internalize pds`: do easier contexts teach the hard target? The paper's three instances of positive
distribution shift, each trained with the shift and without.

original   A parity of uniform bits. The shift: half of the training inputs have biased bits. C = X, π = id.
hints      The same from the mixture over hinted stages; π drops the hints, Tr_0 takes the subnetwork h with the
           neutral hints in its bias. (The paper states Tr_0 in the binary form, where neutral hints are 0 and
           dropping their columns is the same; in the bipolar form they are 1.)
mixture    The last state of a semiautomaton, from answers of all lengths, each announced by a token LEN_L.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from internalize.analysis.arguments import InstanceName, ShiftArguments
from internalize.analysis.output import OutputFolder
from internalize.configs.codec import to_json
from internalize.configs.files import require_writable
from internalize.curricula import Progress
from internalize.display.plots import draw_target_loss, over_seeds
from internalize.display.terminal import PlainConsole, results_table
from internalize.kinds import prepare
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig, OptimizerConfig
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.entrance import load_experiment
from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.hints.evaluation import HintsPredictor
from internalize.kinds.hints.experiment import HintsExperiment
from internalize.measure.predictor import TransformerPredictor
from internalize.measure.shift import (
    Contexts,
    Shift,
    Target,
    chain_mixture_shift,
    hinted_shift,
    noisy_loss,
    original_shift,
    samples_needed,
)
from internalize.models.config import ModelConfig
from internalize.runs.folder import Run
from internalize.runs.provenance import provenance
from internalize.runtime.execution import threads
from internalize.runtime.fleet.seeds import require_finished, train_side_by_side
from internalize.runtime.kind import Streams
from internalize.tasks.hints import neutral_number, written

NamedWeights = Mapping[str, Tensor]
ArmConfig = HintsConfig | ChainConfig

PARITY = HintsConfig(preset="laptop")
"""The runs of `internalize hints --preset laptop`: those that are there already are not trained again."""
CHAIN = ChainConfig(
    task="C2",
    horizon=6,
    iterations=12_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.02),
    optimizer=OptimizerConfig(lr=1e-3),
    evaluation=EvaluationConfig(every=200, samples=1_000),
)
"""Small enough for a minute of one core; chosen on seeds 100 and above, which judge nothing."""

ARMS: dict[InstanceName, dict[str, ArmConfig]] = {
    "original": {
        "shifted: half the inputs biased": replace(PARITY, method="direct", hints=False, biased_share=0.5),
        "unshifted: uniform inputs": replace(PARITY, method="direct", hints=False),
    },
    "hints": {
        "shifted: mixture over hinted stages": replace(PARITY, method="mixture"),
        "unshifted: no hints": replace(PARITY, method="direct"),
    },
    "mixture": {
        "shifted: answers of all lengths": replace(CHAIN, method="mixture"),
        "unshifted: direct answers": replace(CHAIN, method="e2e"),
    },
}
"""instance → how it is trained: with the shift, and on the target itself."""


def arms_of(instance: InstanceName, seeds: Sequence[int], steps: int | None) -> dict[str, list[ArmConfig]]:
    """arm → its configs, one for each seed."""
    arms = {}
    for arm, config in ARMS[instance].items():
        given = {} if steps is None else {"iterations" if isinstance(config, ChainConfig) else "steps": steps}
        arms[arm] = [replace(config, seed=seed, **given) for seed in seeds]  # type: ignore[arg-type]
    return arms


# The instances in the paper's words ----------------------------------------------------------------------


def shift_of(arm: str, experiment: HintsExperiment | ChainExperiment) -> Shift[NamedWeights]:
    """The instance that an arm's experiment trains on: its contexts are the experiment's own examples."""
    if isinstance(experiment, ChainExperiment):
        return _chain_shift(arm, experiment)
    return _bits_shift(arm, experiment)


def _bits_shift(arm: str, experiment: HintsExperiment) -> Shift[NamedWeights]:
    """x ∈ {0,1}^d; a context is what the network reads: x, and what stands in the places for hints."""
    task, form = experiment.task, experiment.config.form
    uniform, streams = replace(task, biased_share=0.0), _streams(experiment)
    one = float(written(torch.ones(()), form))

    def inputs(count: int, generator: torch.Generator) -> Tensor:
        return uniform.sample(torch.tensor([0]), count, generator).x

    def label(x: Tensor) -> Tensor:
        return task.circuit.evaluate(x)[1].to(torch.int64)

    def contexts(step: int) -> Tensor:
        return experiment.data(step, streams)[0]

    def extract(context: Tensor) -> Tensor:
        return (context[:, : task.circuit.inputs] == one).to(torch.uint8)

    def transport(weights: NamedWeights, budget: int) -> HintsPredictor:
        return replace(experiment.load_predictor(weights, budget), folded=neutral_number(form))

    target = Target(task.circuit.name, inputs, label, task.label_noise)
    make = hinted_shift if task.hints else original_shift
    return make(target, Contexts(arm, contexts, extract), transport)


def _chain_shift(arm: str, experiment: ChainExperiment) -> Shift[NamedWeights]:
    """x = σ_1 … σ_T; a context is the whole sequence: prompt, with LEN_L where there is one, and answer."""
    task, renderer, T = experiment.task, experiment.renderer, experiment.config.horizon
    streams = _streams(experiment)

    def inputs(count: int, generator: torch.Generator) -> Tensor:
        return experiment.inputs.sample((count, T), generator)

    def label(x: Tensor) -> Tensor:
        return task.trace(x, renderer.initial_state)[:, -1]

    def contexts(step: int) -> Tensor:
        """Of stage 1, the only one that the arms have."""
        shown = experiment.shown_at(Progress(iteration=step), streams)
        return renderer.sequence(*experiment.data(step, streams), shown)

    def transport(weights: NamedWeights, budget: int) -> TransformerPredictor:
        """Without length tokens the model says what it likes, as it does when it is measured in training."""
        return experiment.load_predictor(weights, budget if renderer.length_hint else None)

    target = Target(f"{task.name}, T = {T}", inputs, label)
    trained_on = Contexts(arm, contexts, lambda context: context[:, :T])
    return chain_mixture_shift(target, trained_on, transport, T + 1 if renderer.length_hint else None)


def _streams(experiment: HintsExperiment | ChainExperiment) -> Streams:
    """Those that the experiment was, or would be, trained with."""
    return Streams(experiment.config.seed, experiment.device)


# What finished runs tell ---------------------------------------------------------------------------------

COLUMNS: dict[InstanceName, tuple[str, ...]] = {
    "original": ("folded",),
    "hints": ("folded",),
    "mixture": ("id", "chain_id"),
}
"""instance → how the rows of metrics name the accuracy at its budgets, in their order."""


@dataclass(frozen=True)
class ArmLoss:
    """One arm at one budget, over seeds."""

    arm: str
    budget: int
    meaning: str
    best: float
    seeds: list[int]
    curves: list[list[tuple[float, float]]]
    """For every seed (training samples, target loss)."""
    final: list[float]
    """For every seed the target loss of the final model, measured by itself on fresh inputs."""

    def row(self, epsilon: float) -> dict[str, Any]:
        mean = [(x, middle) for x, middle, _, _ in over_seeds(self.curves)]
        return {
            "arm": self.arm,
            "budget": self.budget,
            "meaning": self.meaning,
            "best": self.best,
            "final_mean": fmean(self.final),
            "final_least": min(self.final),
            "final_most": max(self.final),
            "epsilon": epsilon,
            "samples_needed": samples_needed(mean, self.best, epsilon),
        }


def findings(instance: InstanceName, arm: str, runs: Sequence[Run], samples: int) -> list[ArmLoss]:
    """The arm's curves and final losses at every budget that it can serve."""
    config, experiment = load_experiment(runs[0], "cpu")
    assert isinstance(experiment, HintsExperiment | ChainExperiment)
    shift = shift_of(arm, experiment)
    seeds = [run.identity().config["seed"] for run in runs]
    found = []
    # not strict: what is trained on direct answers has no length tokens to ask for a chain with
    for budget, column in zip(shift.budgets, COLUMNS[instance], strict=False):
        rows = [list(run.metrics("evaluation")) for run in runs]
        noise = shift.target.label_noise
        count = "iteration" if isinstance(config, ChainConfig) else "step"
        curves = [
            [
                (row[count] * config.samples_per_step, noisy_loss(1 - row[f"{column}_accuracy"], noise))
                for row in own
            ]
            for own in rows
        ]
        final = [
            shift.target_loss(run.weights(), budget, samples, Streams(seed)("target")).value
            for run, seed in zip(runs, seeds, strict=True)
        ]
        meaning, best = shift.budgets[budget], shift.target.best
        found.append(ArmLoss(shift.contexts.name, budget, meaning, best, seeds, curves, final))
    return found


# The command ---------------------------------------------------------------------------------------------


TITLES: dict[InstanceName, str] = {
    "original": "Original PDS: biased inputs teach a parity of uniform ones",
    "hints": "Hinted parity: the mixture over stages teaches the subnetwork",
    "mixture": "CoT mixture: answers of all lengths teach the direct one",
}


def shift_command(arguments: ShiftArguments) -> None:
    execution, instance = arguments.execution, arguments.instance
    folder = OutputFolder(require_writable(arguments.drawings or execution.out / "pds"))
    arms = arms_of(instance, range(arguments.seeds), arguments.steps)
    # seed by seed, so that a comparison is there early
    configs = [config for group in zip(*arms.values(), strict=True) for config in group]
    prepared = [prepare(config) for config in configs]
    title = f"{instance}, {len(configs)} runs"
    ended = require_finished(train_side_by_side(prepared, execution, arguments.workers, title))
    runs = dict(zip(configs, ended, strict=True))
    found: list[ArmLoss] = []
    with threads(execution.threads):
        for arm, own in arms.items():
            found += findings(instance, arm, [runs[config] for config in own], arguments.samples)
    write(folder, arguments, {arm: to_json(own[0]) for arm, own in arms.items()}, found)
    rows = [finding.row(arguments.epsilon) for finding in found]
    if execution.json:
        print(json.dumps({"instance": instance, "findings": rows, "drawings": str(folder.path)}))
    elif not execution.quiet:
        console = PlainConsole()
        columns = [
            "trained on",
            "answered by",
            "target loss",
            "best",
            f"samples to best + {arguments.epsilon:g}",
        ]
        console.print(results_table(TITLES[instance], columns, [_cells(row) for row in rows]))
        console.print(folder.note(), soft_wrap=True)


def _cells(row: dict[str, Any]) -> list[str]:
    spread = f"{row['final_mean']:.3f} ({row['final_least']:.3f} … {row['final_most']:.3f})"
    needed = "not reached" if row["samples_needed"] is None else f"{row['samples_needed']:,.0f}"
    return [row["arm"], row["meaning"], spread, f"{row['best']:g}", needed]


def write(
    folder: OutputFolder, arguments: ShiftArguments, configs: dict[str, Any], found: list[ArmLoss]
) -> None:
    """INSTANCE.png, .svg, .csv (one row for each measurement) and .json (losses, settings, where from)."""
    name = arguments.instance
    panels: dict[str, dict[str, list[list[tuple[float, float]]]]] = {}
    for finding in found:
        panels.setdefault(finding.meaning, {})[finding.arm] = finding.curves
    folder.figure(name, draw_target_loss(panels, found[0].best, TITLES[name]))
    rows = [
        {"arm": f.arm, "budget": f.budget, "seed": seed, "samples": samples, "target_loss": loss}
        for f in found
        for seed, curve in zip(f.seeds, f.curves, strict=True)
        for samples, loss in curve
    ]
    folder.csv(name, rows)
    folder.json(
        name,
        {
            "instance": name,
            "seeds": list(range(arguments.seeds)),
            "findings": [finding.row(arguments.epsilon) | {"final": finding.final} for finding in found],
            "configs": configs,
            "provenance": provenance(torch.device("cpu")),
        },
    )
