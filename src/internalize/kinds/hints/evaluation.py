"""What an experiment with hints measures: accuracies on the clean label, and the paper's definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from internalize.measure.internalization import Clause, DistributionalInternalization, check_distributional
from internalize.measure.predictor import Prediction
from internalize.models.mlp import MLP
from internalize.statistics import SUCCESS, Rate
from internalize.tasks.circuits import Circuit, Form
from internalize.tasks.hints import HintedTask, answers, neutral_number, numbers, written
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
