"""`internalize check FAST --against SLOW`: did it internalize, by the paper's definition, clause by clause?

This is *internalized strictly* (or, with ε, distributionally): another network, that gives the same answer on
every input in less time. Lists and results of runs say *internalized* for less: the final state is right and
comes at once for more than 95 % of fresh inputs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from internalize.analysis.arguments import CheckArguments
from internalize.analysis.open_run import OpenChain, open_chain, stream
from internalize.analysis.output import OutputFolder
from internalize.display.terminal import PlainConsole, errors_console, results_table
from internalize.errors import BadInput, require
from internalize.kinds.entrance import Moment
from internalize.measure.internalization import check_distributional, check_internalization
from internalize.measure.predictor import Prediction, Predictor, TransformerPredictor
from internalize.runs.location import split_stage
from internalize.tasks import InputDistribution, parse_inputs
from internalize.tasks.inputs import all_inputs

ENUMERATED = 2**16
"""Up to so many inputs, all of them are looked at without being asked to."""
MOST_ENUMERATED = 10_000_000
MOST_SAMPLED = 1_000_000_000
CHUNK = 4_096
CLAUSES = {
    "same_class": "same class of models",
    "different_weights": "different weights",
    "agreement": "same answer on every input",
    "risk": "risks within ε",
    "faster": "less time on every input",
}

WARM_UP = 256
"""Inputs that each model answers before it is timed."""
WEAKER_WORD = (
    "`internalized` in lists and results of runs asks for less: the right state and EOS at once for more "
    "than 95 % of inputs."
)


@dataclass(frozen=True)
class NamedRun:
    """What RUN, RUN@STAGE, RUN:BUDGET or RUN@STAGE:BUDGET names."""

    name: str
    chain: OpenChain
    moment: Moment
    predictor: TransformerPredictor


def find_predictor(text: str, device: str, field: str) -> NamedRun:
    """The budget counts the answer's tokens with EOS."""
    path, colon, budget = text.rpartition(":")
    run, stage = split_stage(path if colon and budget.isdecimal() else text, field)
    count = int(budget) if colon and budget.isdecimal() else None
    chain = open_chain(run, device, field)
    longest = chain.horizon + 1
    good = count is None or 2 <= count <= longest
    require(good, field, f"a budget lies in 2…{longest} (one state to all, and EOS), got {count}")
    try:
        return NamedRun(text, chain, chain.moment(stage), chain.predictor(count, stage))
    except BadInput as error:
        raise BadInput(field, error.message) from None


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
class ComparedInputs:
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
        generator = stream(self.seed, f"check/{self.distribution.name}", self.device)
        for start in range(0, self.samples, CHUNK):
            yield self.distribution.sample((min(CHUNK, self.samples - start), self.horizon), generator)

    def probability(self, inputs: Tensor) -> Tensor:
        """(batch, T) inputs to (batch,) float64."""
        table = torch.tensor(self.distribution.probabilities, dtype=torch.float64)
        return table[inputs.cpu()].prod(dim=1)


def choose_inputs(
    chain: OpenChain, text: str | None, samples: int | None, seed: int, weighted: bool = False
) -> ComparedInputs:
    """`all`, or a distribution; if not given all inputs where they are few, else the run's training inputs.

    weighted: inputs count by their probability, so those of a distribution can be enumerated as well.
    """
    task, config = chain.experiment.task, chain.experiment.config
    count = task.symbols**chain.horizon
    if text == "all":
        fits = count <= MOST_ENUMERATED
        require(
            fits,
            "inputs",
            f"there are {task.symbols}^{chain.horizon} of them, at most {MOST_ENUMERATED:,} are enumerated",
        )
        require(samples is None, "samples", "all inputs are asked for: say either --inputs all or --samples")
    few = samples is None and count <= ENUMERATED and (text is None or weighted)
    everything = text == "all" or few
    name = config.inputs if text in (None, "all") else str(text)
    good = samples is None or 1 <= samples <= MOST_SAMPLED
    require(good, "samples", f"must lie in 1…{MOST_SAMPLED:,}, got {samples}")
    return ComparedInputs(
        distribution=parse_inputs(name, task.symbols),
        exhaustive=everything,
        symbols=task.symbols,
        horizon=chain.horizon,
        samples=samples or 10_000,
        seed=seed,
        device=chain.experiment.device,
    )


def check(fast: NamedRun, slow: NamedRun, inputs: ComparedInputs, epsilon: float | None) -> dict[str, Any]:
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
    about: dict[str, Any] = {
        "definition": "strict" if epsilon is None else "distributional",
        "fast": fast.name,
        "slow": slow.name,
        "fast_weights": fast.moment.to_json(),
        "slow_weights": slow.moment.to_json(),
        "distribution": "all inputs" if inputs.exhaustive and epsilon is None else inputs.distribution.name,
    }
    about["verdict"] = verdict_name(about["definition"], found)
    return {**about, **found, "fast_seconds": quick.seconds, "slow_seconds": thorough.seconds}


def _require_same_task(fast: OpenChain, slow: OpenChain) -> None:
    """Two programs can only agree on inputs that both of them read, in answers that mean the same."""
    ours, theirs = fast.experiment, slow.experiment
    same = (
        ours.task.is_same_as(theirs.task)
        and fast.horizon == slow.horizon
        and ours.renderer.initial_state == theirs.renderer.initial_state
    )
    both = (f"{chain.experiment.config.task}, T = {chain.horizon}" for chain in (fast, slow))
    require(same, "against", f"the two runs are of different tasks: {' and '.join(both)}")


# The command ---------------------------------------------------------------------------------------------


def check_command(arguments: CheckArguments) -> int:
    fast = find_predictor(arguments.fast, arguments.device, "fast")
    slow = find_predictor(arguments.against, arguments.device, "against")
    weighted = arguments.epsilon is not None
    inputs = choose_inputs(fast.chain, arguments.inputs, arguments.samples, arguments.seed, weighted)
    with errors_console().status("comparing"):
        for named in (fast, slow):
            _warm_up(named)
        found = check(fast, slow, inputs, arguments.epsilon)
    if arguments.out is not None:
        OutputFolder(arguments.out).json("check", found)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _print_check(PlainConsole(), found, fast.chain.experiment.task.symbol_names)
    return 0 if found["holds"] else 1


def _warm_up(named: NamedRun) -> None:
    """Answer once before the clock runs: the first answer compiles what all others use."""
    own = named.chain.draw(named.chain.experiment.inputs, WARM_UP, 0, "check/warm up")
    named.predictor.answer(own.symbols)


def _print_check(console: Console, found: dict[str, Any], symbol_names: Sequence[str]) -> None:
    rows = [
        [
            CLAUSES[c["name"]],
            "[green]holds[/green]" if c["holds"] else "[red]fails[/red]",
            escape(c["evidence"]),
        ]
        for c in found["clauses"]
    ]
    title = f"{found['fast']} against {found['slow']}, {found['definition']} definition"
    table = results_table(title, ["clause", "", "what was seen"], rows)
    table.columns[2].justify = "left"
    console.print(table)
    console.print(verdict_line(found))
    if found.get("counterexample"):
        shown = escape(" ".join(symbol_names[symbol] for symbol in found["counterexample"]))
        console.print(f"They disagree, for example, on σ = {shown}")
    console.print(f"Seconds for all answers: {found['fast_seconds']:.2f} and {found['slow_seconds']:.2f}.")
    for name in ("fast", "slow"):
        moment = Moment(**found[f"{name}_weights"])
        if moment.status != "done":
            console.print(f"{found[name]}: {moment}.")
    console.print(WEAKER_WORD)


def verdict_name(definition: str, found: dict[str, Any]) -> str:
    """The verdict in a few words, never the bare *internalized* of the runs' own results."""
    how = "strictly" if definition == "strict" else "distributionally"
    if not found["holds"]:
        return f"not internalized {how}"
    sure = definition != "strict" or found["exhaustive"]
    return f"internalized {how}" if sure else f"not refuted: internalized {how} on the sample"


def verdict_line(found: dict[str, Any]) -> str:
    """One sentence: the verdict and how far it can be trusted."""
    if not found["holds"]:
        failed = ", ".join(CLAUSES[name] for name in found["failed"])
        return f"It does not internalize by the {found['definition']} definition. Not met: {failed}."
    if found["definition"] == "distributional":
        return f"It internalizes up to ε = {found['epsilon']:g} on {found['distribution']}."
    if found["exhaustive"]:
        return f"It internalizes strictly: shown on all {found['inputs']:,} inputs."
    return (
        f"No clause fails on {found['inputs']:,} inputs from {found['distribution']}: with 95 % confidence "
        f"they disagree on less than {found['disagreement_bound']:.3%} of them."
    )
