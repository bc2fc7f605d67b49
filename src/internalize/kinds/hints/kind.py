"""The kind with hints, as the runtime sees it."""

from __future__ import annotations

from itertools import pairwise

import torch

from internalize.configs.named import Copies
from internalize.display.terminal import percent, readable
from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.hints.evaluation import MOST_CHECKED, evaluation_row
from internalize.kinds.hints.experiment import BULK, HintsExperiment
from internalize.models.mlp import MLPShape
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast, Need, disk_bytes, measurements, median_seconds, seconds_of
from internalize.runtime.kind import Prepared, Results, Streams, entry, prepared


class HintsKind:
    """A ReLU network learns a Boolean function with its circuit's gates as hints, then without them."""

    name = "hints"
    config = HintsConfig
    results = Results(
        label=HintsConfig.label,
        subject=lambda config: config.circuit,
        unit="steps",
        headline={"loss": "loss", "accuracy": "without hints", "subnetwork_accuracy": "h(x)"},
        accuracy=entry("accuracy"),
        columns={
            "accuracy": lambda result: percent(result["accuracy"]),
            "h(x)": lambda result: percent(result["subnetwork_accuracy"]),
            "internalized": lambda result: readable("internalized", result["internalized"]),
        },
        rates=("succeeded", "internalized"),
        samples_per_step=lambda config: config.batch,
    )

    def prepare(self, config: HintsConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        from internalize.kinds.hints.experiment import HintsExperiment

        experiment = prepared.build(device)
        assert isinstance(experiment, HintsExperiment)
        return foretell(experiment, device, keep_stages, timed)


KIND = HintsKind()


BYTES = 4
"""Of a number in fp32, which weights always are."""
TRIAL_SECONDS = 1.0
"""Steps are taken for so long; at least one call of them."""
TRIAL_INPUTS = 512
"""Of the measurement that is timed; the others take as much longer as they have more products."""


def foretell(
    experiment: HintsExperiment, device: torch.device, keep_stages: KeepStages, timed: bool
) -> Forecast:
    config, data, shape = experiment.config, experiment.data, experiment.shape
    ends = [0, *(data.stage_end(stage) for stage in range(1, data.stages + 1))]
    times = sum(measurements(begun, ended, config.evaluation_interval) for begun, ended in pairwise(ends))
    weights = BYTES * shape.parameters
    measuring = times * evaluation_flops(experiment, config.evaluation.samples) + final_flops(experiment)
    return Forecast(
        float(config.all_steps * step_flops(shape, config.batch)),
        float(measuring),
        disk_bytes(keep_stages, data.stages, weights, 2 * weights, weights),  # g now, and after stage 1
        float(_memory(config, shape)),
        shape.parameters,
        config.all_steps,
        least_memory(config),
        precision=config.precision,
        seconds=seconds_of_run(experiment, device, measuring) if timed else None,
    )


def least_memory(config: HintsConfig) -> tuple[Need, ...]:
    width = config.hidden_width
    layers = 2 * BYTES * (config.depth - 1) * width**2
    kept = BYTES * config.batch * config.depth * width
    samples = max(config.evaluation.samples, config.evaluation.final_samples)  # drawn at once, a byte for a bit
    return (
        Need(layers, "width", f"hidden layers of {width:,} units"),
        Need(kept, "batch", f"a batch of {config.batch:,} examples"),
        Need(samples * (config.d or 1), "evaluation", f"measuring on {samples:,} inputs"),
    )


def seconds_of_run(experiment: HintsExperiment, device: torch.device, measuring_flops: int) -> float:
    config, streams = experiment.config, Streams(experiment.config.seed, device)
    samples = min(config.evaluation.samples, TRIAL_INPUTS)
    state = experiment.init(streams)
    a_measurement = median_seconds(lambda: evaluation_row(experiment, state, streams, samples))
    measuring = a_measurement * measuring_flops / evaluation_flops(experiment, samples)
    training = 0.0
    while training < TRIAL_SECONDS and not experiment.done(state):
        training += seconds_of(lambda: experiment.advance(state, streams))
    return training * config.all_steps / state.step + measuring


def step_flops(shape: MLPShape, batch: int) -> int:
    """Forward, the weights' gradient, and what is handed down, which the first layer has no use for."""
    return batch * (3 * shape.flops - 2 * shape.width * shape.inputs)


def evaluation_flops(experiment: HintsExperiment, samples: int) -> int:
    """Of a measurement on the way: g without hints, h, and h with the neutral hints folded in."""
    return samples * (experiment.shape.flops + 2 * _subnetwork(experiment).flops)


def final_flops(experiment: HintsExperiment) -> int:
    """The same and g with hints, on more inputs; then h beside the hinted g of stage 1, for the definition."""
    samples, bits = experiment.config.evaluation.final_samples, experiment.task.circuit.inputs
    g, h = experiment.shape.flops, _subnetwork(experiment).flops
    checked = 2**bits if bits <= MOST_CHECKED else samples
    return samples * (2 * g + 2 * h) + checked * (g + h)


def _subnetwork(experiment: HintsExperiment) -> MLPShape:
    """h, which reads the bits alone."""
    shape = experiment.shape
    return MLPShape(experiment.task.circuit.inputs, shape.depth, shape.width)


def _memory(config: HintsConfig, shape: MLPShape) -> int:
    """g now and after stage 1, units and their gradients in every layer, and the examples drawn at once."""
    units = 2 * shape.depth * config.batch * shape.width
    examples = BULK * config.batch * (shape.inputs + 1)
    halves = (shape.depth - 1) * shape.width**2 // 2 if config.precision == "bf16" else 0
    return BYTES * (2 * shape.parameters + units + examples + halves)
