"""Runs whose inputs are bits, opened to be asked: networks with hints, and the theorem's hidden parity."""

from __future__ import annotations

import torch
from torch import Tensor

from internalize.analysis.open_run import Answered, Symbols, words_of
from internalize.errors import require
from internalize.kinds.entrance import Moment, OpenRun
from internalize.kinds.hints.evaluation import HintsPredictor
from internalize.kinds.hints.experiment import HintsExperiment
from internalize.kinds.parity.evaluation import LayerPredictor
from internalize.kinds.parity.experiment import ParityExperiment
from internalize.runtime.kind import Streams


class OpenBits(OpenRun):
    """What they have in common: an input is d bits, and so is what they answer."""

    @property
    def bits(self) -> int:
        """d: how many bits an input has."""
        raise NotImplementedError

    def ask(self, x: Tensor, budget: int | None, stage: int | None) -> tuple[Tensor, Tensor]:
        """(1, d) bits to the bits that are written and to those that would be right, each (1, …)."""
        raise NotImplementedError

    def moment(self, stage: int | None = None) -> Moment:
        """None: the final weights, or the last that were kept of an unfinished run."""
        kept = self.stages
        if stage is None and self.status != "done":
            require(bool(kept), "run", f"{self.run.path} has no saved weights (it is {self.status})")
            stage = kept[-1]
        require(stage is None or stage in kept, "stage", f"kept are the stages {kept}, not {stage}")
        return Moment(stage or self.all_stages, self.all_stages, self.status)

    def weights(self, stage: int | None = None) -> dict[str, Tensor]:
        """Those of that moment."""
        moment = self.moment(stage)
        final = stage is None and moment.status == "done"
        return self.run.weights(None if final else moment.stage)

    @property
    def all_stages(self) -> int:
        raise NotImplementedError

    def answer(self, inputs: Symbols, budget: int | None = None, stage: int | None = None) -> Answered:
        """What it says to one input, and whether that is right."""
        words = [str(word) for word in words_of(inputs, ("0", "1"))]
        wrong = [word for word in words if word not in ("0", "1")]
        require(not wrong, "inputs", f"must be bits, 0 or 1; got {wrong[0] if wrong else ''!r}")
        require(len(words) == self.bits, "inputs", f"must have {self.bits} bits, got {len(words)}")
        moment = self.moment(stage)
        x = torch.tensor([[int(word) for word in words]], dtype=torch.uint8)
        said, true = ([str(int(bit)) for bit in bits[0].tolist()] for bits in self.ask(x, budget, stage))
        return Answered(
            prompt=" ".join(words),
            text=" ".join(said),
            states=tuple(said),
            final=said[-1],
            truth=tuple(true),
            truth_text=" ".join(true),
            right=said[-1] == true[-1],
            moment=moment,
        )


class OpenParity(OpenBits):
    """The direct answer, or with a budget of k bits the chain of prefix parities."""

    experiment: ParityExperiment

    @property
    def bits(self) -> int:
        return int(self.config.d)

    @property
    def all_stages(self) -> int:
        return int(self.config.k)

    def predictor(self, budget: int | None = None, stage: int | None = None) -> LayerPredictor:
        """budget: bits it writes, 1 (the direct answer) if not given. The chain is asked of W^(1)."""
        good = budget is None or 1 <= budget <= self.all_stages
        require(good, "budget", f"must lie in 1…{self.all_stages} bits, got {budget}")
        steps, weights = budget or 1, self.weights(stage)
        if steps > 1 and stage is None and "W_chain" not in weights and 1 in self.run.stages():
            weights = self.weights(1)  # of a run that is not finished
        W = weights.get("W_chain", weights["W"]) if steps > 1 else weights["W"]
        return LayerPredictor(W, self.bits, steps)

    def ask(self, x: Tensor, budget: int | None, stage: int | None) -> tuple[Tensor, Tensor]:
        """After phase t the direct answer is z_t, the parity so far; a chain of b bits ends in z_b."""
        _, written = self.predictor(budget, stage).outputs(x)
        known = budget if budget is not None and budget > 1 else self.moment(stage).stage
        return written, self.experiment.parity(Streams(self.config.seed)).chain(x)[:, :known]


class OpenHints(OpenBits):
    """The subnetwork that reads the bits alone, or with any budget above 0 the network with its hints."""

    experiment: HintsExperiment

    @property
    def bits(self) -> int:
        return self.experiment.task.circuit.inputs

    @property
    def all_stages(self) -> int:
        return self.experiment.data.stages

    def predictor(self, budget: int | None = None, stage: int | None = None) -> HintsPredictor:
        """budget: 0 or None without hints, any other number with all of them."""
        return self.experiment.load_predictor(self.weights(stage), budget)

    def ask(self, x: Tensor, budget: int | None, stage: int | None) -> tuple[Tensor, Tensor]:
        said = self.predictor(budget, stage).answer(x).output
        return said[:, None], self.experiment.task.circuit.evaluate(x)[1][:, None]


OPENED: dict[type, type[OpenRun]] = {ParityExperiment: OpenParity, HintsExperiment: OpenHints}
"""Experiment → how a run of it is opened."""
