"""The definitions asked of runs: RUN[@STAGE][:BUDGET] as a predictor, and inputs to compare two of them on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from internalize.analysis.opening import OpenChain, open_chain
from internalize.errors import BadInput, require
from internalize.measure.distributional import check_distributional
from internalize.measure.internalization import check_internalization
from internalize.measure.predictor import Prediction, Predictor
from internalize.runtime.streams import Streams
from internalize.tasks import InputDistribution, parse_inputs
from internalize.tasks.inputs import all_inputs

ENUMERATED = 2**16
"""Up to so many inputs all of them are looked at without being asked to."""
MOST_ENUMERATED = 10_000_000
CHUNK = 4_096


@dataclass(frozen=True)
class Named:
    """A predictor that a user named."""

    name: str
    chain: OpenChain
    predictor: Predictor


def find_predictor(text: str, device: str, field: str) -> Named:
    """RUN, RUN@STAGE, RUN:BUDGET or RUN@STAGE:BUDGET; the budget counts the answer's tokens with EOS."""
    form = re.fullmatch(r"(?P<run>.+?)(?:@(?P<stage>\d+))?(?::(?P<budget>\d+))?", text)
    if form is None:
        raise BadInput(field, f"must be RUN[@STAGE][:BUDGET], got {text!r}")
    stage, budget = (None if form[part] is None else int(form[part]) for part in ("stage", "budget"))
    chain = open_chain(form["run"], device, field)
    longest = chain.horizon + 1
    good = budget is None or 2 <= budget <= longest
    require(good, field, f"a budget lies in 2…{longest} (one state to all, and EOS), got {budget}")
    try:
        predictor = chain.predictor(stage, budget)
    except BadInput as error:
        raise BadInput(field, error.message) from None
    return Named(text, chain, predictor)


class Timed:
    """A predictor whose seconds are counted: reported, never judged."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.seconds = 0.0

    @property
    def model_class(self) -> str:
        return self.predictor.model_class

    @property
    def weights_digest(self) -> str:
        return self.predictor.weights_digest

    def answer(self, inputs: Tensor) -> Prediction:
        start = time.perf_counter()
        found = self.predictor.answer(inputs)
        self.seconds += time.perf_counter() - start
        return found


@dataclass(frozen=True)
class Inputs:
    """What two predictors are compared on."""

    distribution: InputDistribution
    exhaustive: bool
    symbols: int
    horizon: int
    samples: int
    seed: int
    device: torch.device

    def batches(self) -> Iterator[Tensor]:
        """(batch, T) each; all inputs, or a sample that the seed decides."""
        if self.exhaustive:
            for batch in all_inputs(self.symbols, self.horizon, CHUNK):
                yield batch.to(self.device)
            return
        generator = Streams(self.seed, self.device)(f"check/{self.distribution.name}")
        for start in range(0, self.samples, CHUNK):
            yield self.distribution.sample((min(CHUNK, self.samples - start), self.horizon), generator)

    def probability(self, inputs: Tensor) -> Tensor:
        """(batch, T) inputs to (batch,) float64."""
        table = torch.tensor(self.distribution.probabilities, dtype=torch.float64)
        return table[inputs.cpu()].prod(dim=1)


def choose_inputs(
    chain: OpenChain, text: str | None, samples: int | None, seed: int, weighted: bool = False
) -> Inputs:
    """`all`, or a distribution; if not given all inputs where they are few, else the run's training inputs.

    weighted: inputs count by their probability, so those of a distribution can be enumerated as well.
    """
    task, config = chain.experiment.task, chain.experiment.config
    count = task.symbols**chain.horizon
    if text == "all":
        fits = count <= MOST_ENUMERATED
        require(fits, "inputs", f"there are {count:.3g} inputs, at most {MOST_ENUMERATED:,} are enumerated")
        require(samples is None, "samples", "all inputs are asked for: say either --inputs all or --samples")
    few = samples is None and count <= ENUMERATED and (text is None or weighted)
    everything = text == "all" or few
    name = config.inputs if text in (None, "all") else str(text)
    require(samples is None or samples >= 1, "samples", f"must be at least 1, got {samples}")
    return Inputs(
        distribution=parse_inputs(name, task.symbols),
        exhaustive=everything,
        symbols=task.symbols,
        horizon=chain.horizon,
        samples=samples or 10_000,
        seed=seed,
        device=chain.experiment.device,
    )


def check(fast: Named, slow: Named, inputs: Inputs, epsilon: float | None) -> dict[str, Any]:
    """The strict definition, or with an ε the distributional one; as JSON, with the seconds each one took."""
    _require_same_task(fast.chain, slow.chain)
    quick, thorough = Timed(fast.predictor), Timed(slow.predictor)
    experiment = fast.chain.experiment
    start = experiment.renderer.initial_state
    found: dict[str, Any]
    if epsilon is None:
        found = check_internalization(quick, thorough, inputs.batches(), inputs.exhaustive).to_json()
    else:
        found = check_distributional(
            quick,
            thorough,
            inputs.batches(),
            lambda symbols: experiment.task.trace(symbols, start)[:, -1],
            epsilon,
            inputs.probability if inputs.exhaustive else None,
        ).to_json()
    about = {
        "definition": "strict" if epsilon is None else "distributional",
        "fast": fast.name,
        "slow": slow.name,
        "distribution": "all inputs" if inputs.exhaustive and epsilon is None else inputs.distribution.name,
    }
    return {**about, **found, "fast_seconds": quick.seconds, "slow_seconds": thorough.seconds}


def _require_same_task(fast: OpenChain, slow: OpenChain) -> None:
    """Two programs can only agree on inputs that both of them read."""
    ours, theirs = fast.experiment, slow.experiment
    same = (
        torch.equal(ours.task.table, theirs.task.table)
        and fast.horizon == slow.horizon
        and ours.renderer.initial_state == theirs.renderer.initial_state
    )
    both = (f"{chain.experiment.config.task}, T = {chain.horizon}" for chain in (fast, slow))
    require(same, "against", f"the two runs read different inputs: {' and '.join(both)}")
