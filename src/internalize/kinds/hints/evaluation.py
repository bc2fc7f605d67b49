"""What an experiment with hints measures: accuracies on the clean label, and the paper's definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from internalize.configs.codec import changed_fields
from internalize.errors import require
from internalize.kinds.hints.config import Method
from internalize.measure.internalization import Clause, DistributionalInternalization, check_distributional
from internalize.measure.predictor import Prediction
from internalize.models.mlp import MLP
from internalize.runs.folder import Run
from internalize.statistics import SUCCESS, Rate
from internalize.tasks.circuits import Circuit, Form, HintedTask, answers, neutral_number, numbers, written
from internalize.tasks.parity import all_bits

if TYPE_CHECKING:
    from internalize.contract import Row
    from internalize.kinds.hints.experiment import HintsExperiment, HintsState
    from internalize.runtime.kind import Streams

# The network as a predictor ------------------------------------------------------------------------------


@dataclass(frozen=True)
class HintsPredictor:
    """Reads the bits x. With hints: g(x, z_1 … z_H), the paper's slow system; without: h(x), the fast one.

    Both come from weights of the same class, those of g.
    """

    g: MLP
    circuit: Circuit
    form: Form
    hinted: bool
    folded: float = 0.0
    """What h takes the hints to be: 0 drops their columns, as defined; the neutral number folds them in."""

    @property
    def model_class(self) -> str:
        shape = self.g.shape
        return (
            f"ReLU network of {shape.depth} hidden layers of {shape.width} on {self.circuit.inputs} bits "
            f"and {len(self.circuit.hint_names)} hints"
        )

    @cached_property
    def weights_digest(self) -> str:
        """Of all of θ, also where h leaves some of it aside."""
        return self.g.digest()

    @cached_property
    def network(self) -> MLP:
        """What is really run."""
        return self.g if self.hinted else self.g.subnetwork(self.circuit.inputs, self.folded)

    def outputs(self, x: Tensor) -> Tensor:
        """(batch, d) bits to the network's (batch,) outputs."""
        read = torch.cat([x, self.circuit.evaluate(x)[0]], dim=1) if self.hinted else x
        return self.network(written(read, self.form).to(self.g.weights[0].device))

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch, d) bits to the bits it answers. A hint costs one operation for each argument of its gate."""
        count = len(inputs)
        flops = self.network.shape.flops
        if self.hinted:
            flops += sum(len(gate.arguments) for gate in self.circuit.order if gate.name != self.circuit.output)
        return Prediction(
            output=answers(self.outputs(inputs), self.form).cpu(),
            forward_passes=torch.ones(count, dtype=torch.int64),
            flops=torch.full((count,), float(flops), dtype=torch.float64),
        )


# Measurements --------------------------------------------------------------------------------------------

EPSILON = 0.05
"""ε of the distributional definition."""
MOST_CHECKED = 16
"""The largest d for which the definition is checked on all 2^d inputs."""


def measuring(task: HintedTask) -> HintedTask:
    """The target: uniform inputs, whatever was trained on."""
    return replace(task, biased_share=0.0)


def accuracies(
    experiment: HintsExperiment, model: MLP, samples: int, generator: torch.Generator, final: bool
) -> dict[str, Rate]:
    """Each the share of fresh inputs on which an answer is the clean label; consumes the generator.

    accuracy: g on the last stage's inputs, all hints replaced. subnetwork: h as defined. folded: h with the
    neutral hints in its bias. At the end also hinted: g with all hints; noisy: as accuracy, on flipped labels.
    """
    form, task = experiment.config.form, measuring(experiment.task)
    bits = task.sample(torch.tensor([task.hints]), samples, generator)
    device = model.weights[0].device
    hintless = HintsPredictor(model, task.circuit, form, hinted=False)
    found = {
        "": answers(model(numbers(bits, form).to(device)), form),
        "subnetwork_": answers(hintless.outputs(bits.x), form),
        "folded_": answers(replace(hintless, folded=neutral_number(form)).outputs(bits.x), form),
    }
    if final:
        found["hinted_"] = answers(replace(hintless, hinted=True).outputs(bits.x), form)
    rates = {name: _rate(found[name].cpu() == bits.label) for name in found}
    return rates | ({"noisy_": _rate(found[""].cpu() == bits.noisy_label)} if final else {})


def _rate(right: Tensor) -> Rate:
    return Rate(int(right.sum()), right.numel())


def evaluation_row(experiment: HintsExperiment, state: HintsState, streams: Streams, samples: int) -> Row:
    """Consumes streams("evaluate", step)."""
    rates = accuracies(experiment, state.model, samples, streams("evaluate", state.step), final=False)
    return {f"{name}accuracy": rate.value for name, rate in rates.items()}


def definition(
    experiment: HintsExperiment, state: HintsState, streams: Streams
) -> DistributionalInternalization:
    """h of the final weights against the hinted g of stage 1, on the noise-free target (paper §5).

    On all inputs for d ≤ 16, otherwise on a sample; consumes streams("definition") then. Both are one forward
    pass, so that time is floating-point operations alone.
    """
    circuit, form = experiment.task.circuit, experiment.config.form
    fast = HintsPredictor(state.model, circuit, form, hinted=False)
    slow = HintsPredictor(state.first, circuit, form, hinted=True)
    exact = circuit.inputs <= MOST_CHECKED

    def inputs() -> Iterator[Tensor]:
        if exact:
            return all_bits(circuit.inputs)
        target, samples = measuring(experiment.task), experiment.config.evaluation.final_samples
        return iter([target.sample(torch.tensor([0]), samples, streams("definition")).x])

    def probability(x: Tensor) -> Tensor:
        return torch.full((len(x),), 2.0**-circuit.inputs, dtype=torch.float64)

    def truth(x: Tensor) -> Tensor:
        return circuit.evaluate(x)[1].to(torch.int64)

    found = check_distributional(fast, slow, inputs(), truth, EPSILON, probability if exact else None)
    return replace(found, clauses=(*found.clauses[:-1], _faster_by_operations(found)))


def _faster_by_operations(found: DistributionalInternalization) -> Clause:
    """Every input costs the same, so the means tell."""
    fast, slow = found.fast_cost.flops, found.slow_cost.flops
    return Clause("faster", fast < slow, f"{fast:,.0f} against {slow:,.0f} FLOPs, one forward pass each")


def summary_row(experiment: HintsExperiment, state: HintsState, streams: Streams) -> Row:
    """The results of a run; consumes streams("final") and what the definition needs."""
    config = experiment.config
    rates = accuracies(experiment, state.model, config.evaluation.final_samples, streams("final"), final=True)
    row: Row = {}
    for name, rate in rates.items():
        row[f"{name}accuracy"] = rate.value
        row[f"{name}interval"] = [rate.interval.low, rate.interval.high]
    found = definition(experiment, state, streams)
    return {
        **row,
        "succeeded": rates[""].value > SUCCESS,
        "internalized": found.holds and rates["subnetwork_"].value > SUCCESS,
        "clauses": {clause.name: clause.holds for clause in found.clauses},
        "risk_gap": found.gap,
        "risk_gap_interval": [found.gap_interval.low, found.gap_interval.high],
        "risk_gap_exact": found.exact,
        "steps": state.step,
        "samples": state.step * config.batch,
        "stages": experiment.data.stages,
        "parameters": state.model.shape.parameters,
    }


MEASURED = ("accuracy", "subnetwork_accuracy", "folded_accuracy")
METHODS: tuple[Method, ...] = get_args(Method)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """By method and seed; refused unless method and seed are all in which they differ."""
    require(len(runs) >= 1, "runs", "must be at least one run")
    for run in runs:
        kind = run.identity().kind
        require(kind == "hints", "runs", f"{run.path} is a run of the kind {kind}, not hints")
        run.summary()  # refuses one that is not finished
        other = changed_fields(runs[0].identity().config, run.identity().config)
        other = [name for name in other if name not in ("method", "seed")]
        require(not other, "runs", f"{run.path} and {runs[0].path} differ in {', '.join(other)} too")
    return sorted(runs, key=lambda run: (METHODS.index(_of(run, "method")), _of(run, "seed")))


def _of(run: Run, field: str) -> Any:
    return run.identity().config[field]


def curve_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a measurement: method, seed, step, samples and the accuracies without hints."""
    return [
        {"method": _of(run, "method"), "seed": _of(run, "seed"), "step": row["step"], "samples": row["samples"]}
        | {name: row[name] for name in MEASURED}
        for run in runs
        for row in run.metrics("evaluation")
    ]


def end_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a run: its final accuracies and what the definition says."""
    rows = []
    for run in runs:
        summary = run.summary()
        rows.append(
            {"method": _of(run, "method"), "seed": _of(run, "seed"), "steps": summary["steps"]}
            | {name: summary[name] for name in (*MEASURED, "hinted_accuracy", "noisy_accuracy")}
            | {"risk_gap": summary["risk_gap"], "internalized": summary["internalized"]}
            | {"seconds": run.status()["seconds"]}
        )
    return rows


def curves(
    rows: Sequence[dict[str, Any]], value: str = "accuracy"
) -> dict[str, list[list[tuple[float, float]]]]:
    """Rows with method, seed, samples and the value → method → for every seed its points."""
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        found.setdefault(row["method"], {}).setdefault(row["seed"], []).append((row["samples"], row[value]))
    return {method: list(seeds.values()) for method, seeds in found.items()}


def method_rows(ends: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a method: mean, least and most accuracy, and how many runs succeeded."""
    rows = []
    for method in dict.fromkeys(row["method"] for row in ends):
        own = [row for row in ends if row["method"] == method]
        row: dict[str, Any] = {"method": method, "runs": len(own)}
        for name in MEASURED:
            values = [run[name] for run in own]
            row |= {f"{name}_mean": fmean(values), f"{name}_least": min(values), f"{name}_most": max(values)}
        succeeded = Rate(sum(run["accuracy"] > SUCCESS for run in own), len(own))
        row |= {"succeeded": succeeded.successes, "succeeded_low": succeeded.interval.low}
        row |= {"succeeded_high": succeeded.interval.high, "internalized": sum(r["internalized"] for r in own)}
        row["seconds_mean"] = fmean(run["seconds"] for run in own)
        rows.append(row)
    return rows
