"""The network as a predictor: with its hints, or as the subnetwork that reads x alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from internalize.measure.predictor import Prediction
from internalize.models.mlp import MLP
from internalize.tasks.circuits import Circuit
from internalize.tasks.hints import Form, answers, written


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
