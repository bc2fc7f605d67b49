"""What a run with hints will cost, counted from its config alone: products, bytes on disk and in memory."""

from __future__ import annotations

from itertools import pairwise

import torch

from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.hints.data import BULK
from internalize.kinds.hints.evaluation import MOST_CHECKED
from internalize.kinds.hints.experiment import HintsExperiment
from internalize.models.mlp import MLPShape
from internalize.runtime.counted import Counted, disk_bytes, measurements
from internalize.runtime.execution import KeepStages

BYTES = 4
"""Of a number in fp32, which weights always are."""


def count(config: HintsConfig, keep_stages: KeepStages = "all") -> Counted:
    experiment = HintsExperiment(config, torch.device("cpu"), {})
    data, shape = experiment.data, experiment.shape
    ends = [0, *(data.stage_end(stage) for stage in range(1, data.stages + 1))]
    times = sum(measurements(begun, ended, config.evaluation_interval) for begun, ended in pairwise(ends))
    weights = BYTES * shape.parameters
    return Counted(
        float(config.all_steps * step_flops(shape, config.batch)),
        float(times * evaluation_flops(experiment) + final_flops(experiment)),
        disk_bytes(keep_stages, data.stages, weights, 2 * weights, weights),  # g now, and after stage 1
        float(_memory(config, shape)),
    )


def step_flops(shape: MLPShape, batch: int) -> int:
    """Forward, the weights' gradient, and what is handed down, which the first layer has no use for."""
    return batch * (3 * shape.flops - 2 * shape.width * shape.inputs)


def evaluation_flops(experiment: HintsExperiment) -> int:
    """Of a measurement on the way: g without hints, h, and h with the neutral hints folded in."""
    return experiment.config.evaluation.samples * (experiment.shape.flops + 2 * _subnetwork(experiment).flops)


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
