"""Methods at equal compute: which internalizes, at what cost, and what it keeps.

Every entrant gets the same operations of the cost model, the same seeds and as many trials of learning rates.
Pure where it can be: entrants and tables from configs and results; the command is in `race_commands.py`.
"""

from __future__ import annotations

import statistics as python_statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from internalize.curricula import ScheduleConfig
from internalize.curricula.schedule import EqualShares
from internalize.errors import BadInput, require
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.presets import LAPTOP
from internalize.statistics import SUCCESS, Rate

EXTRAS = ("rehearsal", "fixed")
"""What may follow a method's name after a plus: left+rehearsal, inductive+fixed."""


@dataclass(frozen=True)
class Finish:
    """One run of an entrant, as far as the race is concerned."""

    entrant: str
    seed: int
    internalized: bool
    cost: float | None
    """Operations until it internalized; None if it did not within the budget."""
    spent: float
    """Operations in all."""
    id_accuracy: float
    ood_accuracy: float
    chain_accuracy: float | None
    """Of the whole chain when asked for it; None for models that cannot be asked."""


def entrant_config(entrant: str, base: ChainConfig, operations: float) -> ChainConfig:
    """The config of an entrant: METHOD, and after plus signs what it is trained with."""
    method, *extras = entrant.split("+")
    for extra in extras:
        require(extra in EXTRAS, "methods", f"unknown +{extra} in {entrant!r}; known: {', '.join(EXTRAS)}")
    rehearses = "rehearsal" in extras
    config = replace(
        base,
        method=method,
        rehearsal=(base.rehearsal or LAPTOP.rehearsal) if rehearses else None,
        rehearse=base.rehearse if rehearses else None,
        length_token=(base.length_token or not base.keep_positions or None) if rehearses else None,
        keep_positions=None if method.startswith("mixture") else base.keep_positions,  # it shows all formats
        operations_limit=operations,
    )
    if "fixed" in extras:
        config = replace(config, schedule=ScheduleConfig())
    elif config.schedule.smoothing is not None and not rehearses:
        config = replace(config, schedule=replace(config.schedule, smoothing=None))
    return replace(config, iterations=iterations_for(config, operations))


def iterations_for(config: ChainConfig, operations: float) -> int:
    """Iterations that the budget pays for: in equal stages where these are fixed, else of the cheapest kind.

    Of the cheapest kind, since a stage that adapts may end early: the limit of operations then ends the run.
    """
    try:
        experiment = ChainExperiment(config, torch.device("cpu"), {})
    except BadInput as problem:
        raise BadInput(problem.field, f"{config.method}: {problem.message}") from None
    curriculum = experiment.curriculum
    steps = [
        python_statistics.mean(experiment.operations_of_step(len(shown) + 1) for shown in formats)
        for formats in (curriculum.formats(stage) for stage in range(1, curriculum.stages + 1))
    ]
    if config.schedule.kind != "fixed":
        return max(curriculum.stages, int(operations / min(steps)) + 1)
    count = int(operations / python_statistics.mean(steps))
    require(
        count >= curriculum.stages, "operations", f"pays for {count} iterations, fewer than there are stages"
    )
    while _cost_in_equal_stages(count, steps) > operations and count > curriculum.stages:
        count -= 1
    return count


def _cost_in_equal_stages(iterations: int, steps: Sequence[float]) -> float:
    sizes = EqualShares(iterations, len(steps)).sizes()
    return sum(size * step for size, step in zip(sizes, steps, strict=True))


def finish_of(entrant: str, seed: int, summary: Mapping[str, Any]) -> Finish:
    """From the results of a run."""
    return Finish(
        entrant,
        seed,
        bool(summary["internalized"]),
        summary["operations_to_internalize"] if summary["internalized"] else None,
        float(summary["operations"]),
        float(summary["id_accuracy"]),
        float(summary["ood_accuracy"]),
        summary.get("chain_id_accuracy"),
    )


@dataclass(frozen=True)
class Standing:
    """An entrant, over all its seeds."""

    entrant: str
    internalized: Rate
    median_cost: float | None
    """Operations by which half of the runs had internalized; None where fewer than half did."""
    mean_cost: float
    """Operations until it internalized, runs that did not counted with the whole budget."""
    id_accuracy: float
    ood_accuracy: float
    """Mean over the runs that internalized; over all if none did."""
    chain: Rate | None
    """Runs whose whole chain is still right for more than 95 %; None where it cannot be asked for."""

    def to_json(self) -> dict[str, Any]:
        return {
            "entrant": self.entrant,
            "internalized": self.internalized.to_json(),
            "median_operations": self.median_cost,
            "mean_operations": self.mean_cost,
            "id_accuracy": self.id_accuracy,
            "ood_accuracy": self.ood_accuracy,
            "chain_kept": None if self.chain is None else self.chain.to_json(),
        }


def standings(finishes: Sequence[Finish], operations: float) -> list[Standing]:
    """The quickest first: by the share that internalized, then by the mean cost."""
    found = [
        _standing(entrant, [finish for finish in finishes if finish.entrant == entrant], operations)
        for entrant in dict.fromkeys(finish.entrant for finish in finishes)
    ]
    return sorted(found, key=lambda standing: (-standing.internalized.value, standing.mean_cost))


def _standing(entrant: str, own: Sequence[Finish], operations: float) -> Standing:
    through = [finish for finish in own if finish.cost is not None]
    chains = [finish.chain_accuracy for finish in own if finish.chain_accuracy is not None]
    shares = waiting_shares([finish.cost for finish in own])
    return Standing(
        entrant,
        Rate(len(through), len(own)),
        next((cost for cost, share in shares if share <= 0.5), None),
        python_statistics.mean(min(finish.cost or operations, operations) for finish in own),
        python_statistics.mean(finish.id_accuracy for finish in own),
        python_statistics.mean(finish.ood_accuracy for finish in through or own),
        Rate(sum(accuracy > SUCCESS for accuracy in chains), len(chains)) if chains else None,
    )


def waiting_shares(costs: Sequence[float | None]) -> list[tuple[float, float]]:
    """(cost, share of runs that have not internalized by then), from (0, 1) on.

    All runs are watched for the same budget, so the Kaplan-Meier curve is this plain share.
    """
    done = sorted(cost for cost in costs if cost is not None)
    points = [(0.0, 1.0)]
    for cost in dict.fromkeys(done):
        points.append((float(cost), 1 - sum(other <= cost for other in done) / len(costs)))
    return points


HEADINGS = ("method", "internalized", "median operations", "mean operations", "ID", "OOD", "chain kept")


def cells(standing: Standing) -> tuple[str, ...]:
    median = "not reached" if standing.median_cost is None else f"{standing.median_cost:.2e}"
    kept = standing.chain
    return (
        standing.entrant,
        f"{standing.internalized.successes} of {standing.internalized.trials}",
        median,
        f"{standing.mean_cost:.2e}",
        f"{100 * standing.id_accuracy:.1f} %",
        f"{100 * standing.ood_accuracy:.1f} %",
        "cannot be asked" if kept is None else f"{kept.successes} of {kept.trials}",
    )


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def as_latex(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(row: Sequence[str]) -> str:
        return " & ".join(_escaped(cell) for cell in row) + r" \\"

    columns = "l" + "r" * (len(headings) - 1)
    body = "\n".join(line(row) for row in rows)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(headings)}\n\\midrule\n{body}\n\\bottomrule\n"
        "\\end{tabular}\n"
    )


def _escaped(text: str) -> str:
    for letter in ("\\", "&", "%", "_", "#"):
        text = text.replace(letter, r"\textbackslash{}" if letter == "\\" else f"\\{letter}")
    return text
