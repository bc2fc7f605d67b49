"""Rows of finished runs, groups among them, and the columns that claims and drawings need beside a run's
own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from internalize.configs.codec import LEFT_OUT_UNLESS_SET
from internalize.contract import TOY, is_toy
from internalize.curricula import find_curriculum
from internalize.kinds.chain.config import ChainConfig
from internalize.runs.folder import Run
from internalize.statistics import SUCCESS, Rate, Waiting
from internalize.tasks.inputs import parse_inputs, possible_inputs
from internalize.tasks.names import find_task

FigureRow = Mapping[str, Any]
"""A finished run: its config's fields by dotted names, its results, and what a figure derives from them."""


RESULTS = ("succeeded", "internalized")
"""Fields of a group that only a finished run has."""


@dataclass(frozen=True)
class Members:
    """The rows whose fields have the given values; a tuple of values means any of them."""

    label: str
    where: tuple[tuple[str, Any], ...] = ()

    def of(self, rows: Iterable[FigureRow]) -> list[FigureRow]:
        return [row for row in rows if all(_fits(row.get(field), wanted) for field, wanted in self.where)]

    def whatever_came_out(self) -> Members:
        """The same runs without asking how they ended."""
        return Members(self.label, tuple(entry for entry in self.where if entry[0] not in RESULTS))

    def planned(self, cases: Iterable[FigureRow]) -> list[FigureRow]:
        """The cases that may come to belong here: of fields that only a finished run has, any value may."""
        return [
            case
            for case in cases
            if all(_fits(case[field], wanted) for field, wanted in self.where if field in case)
        ]


def group(label: str, **where: Any) -> Members:
    """A group by its fields; two underscores stand for the dot: model__heads=32."""
    return Members(label, tuple((field.replace("__", "."), wanted) for field, wanted in where.items()))


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else bool(value == wanted)


def rate(rows: Sequence[FigureRow], outcome: str) -> Rate:
    """How many of the rows have the outcome. Rows without it do not count as trials."""
    known = [bool(row[outcome]) for row in rows if row.get(outcome) is not None]
    return Rate(sum(known), len(known))


def numbers_of(rows: Sequence[FigureRow], value: str) -> list[float]:
    """The value of every row that has one."""
    return [float(row[value]) for row in rows if row.get(value) is not None]


def values_at(rows: Iterable[FigureRow], field: str | None) -> list[Any]:
    """The values of a field, each once, in the order of the rows; one None for no field."""
    return [None] if field is None else list(dict.fromkeys(row.get(field) for row in rows))


def part_of(rows: Iterable[FigureRow], field: str | None, value: Any) -> list[FigureRow]:
    """The rows with that value of the field; all of them for no field."""
    return [row for row in rows if field is None or row.get(field) == value]


def sizes_within(
    first: Sequence[FigureRow], second: Sequence[FigureRow], field: str | None
) -> list[tuple[int, int]]:
    """How many rows both have at each value of the field, where both have some."""
    sizes = [
        (len(part_of(first, field, value)), len(part_of(second, field, value)))
        for value in values_at(first, field)
    ]
    return [size for size in sizes if all(size)]


def part_label(members: Members, field: str | None, value: Any) -> str:
    """`E2E C2 T=25`, or `all runs, d 8` where the value is a number."""
    if field is None:
        return members.label
    return (
        f"{members.label} {value}" if isinstance(value, str) else f"{members.label}, {in_words(field)} {value}"
    )


# Words ------------------------------------------------------------------------------------------------------

WORDS = {
    "succeeded": "success ID",
    "ood_succeeded": "success OOD",
    "ood_failed": "failure OOD",
    "ood_gap": "ID minus OOD accuracy",
    "ood_gap_trend": "rank correlation between stage and OOD minus ID accuracy",
    "above_chance": "ID accuracy above chance",
    "near_chance": "accuracy within 10 points of chance",
    "keeps_ood": "a drop of less than 5 points from ID to OOD accuracy",
    "only_distributional": "an accuracy within 5 points of the chain's but below 100 %",
    "h_succeeded": "success of h(x)",
    "h_folded_succeeded": "success of h(x) with the neutral hints folded in",
    "both_succeeded": "success in both ways",
    "chain_succeeded": "success ID with the chain",
    "chain_ood_succeeded": "success OOD with the chain",
    "chain_learned": "the chain learned in stage 1",
    "iterations_until": "iterations until internalized",
    "operations_until": "operations until internalized",
    "stages_passed": "the last stage passed, as a share of all,",
    "covariance_good": "good covariance in every phase",
    "tracks": "tracking within 1/100 in every phase",
    "contracts": "contraction in every phase",
    "prefixes_exact": "exact weights after every phase",
    "model.heads": "heads",
    "model.depth": "depth",
    "model.width": "width",
    "horizon": "T",
    "prime_powers": "the sum of prime powers",
    "place": "task and T",
}


def in_words(name: str) -> str:
    """A column's name for people."""
    return WORDS.get(name, name.replace("_", " "))


def place(field: str, value: Any) -> str:
    """`C2 T=25`, or `depth 2` where the value is a number."""
    return value if isinstance(value, str) else f"{in_words(field)} {value}"


def counted(of: Rate) -> str:
    """`13 of 15`."""
    return f"{of.successes} of {of.trials}"


def percents(share: float) -> str:
    return f"{100 * share:.0f} %"


# Columns ----------------------------------------------------------------------------------------------------

NEAR_CHANCE = 0.1
"""A run within this of chance has learned nothing to speak of."""
SMALL_DROP = 0.05
"""A drop from ID to OOD accuracy below this is small: fixed beforehand."""

HEAVY = 1e-3
"""An input with a larger share than this of a distribution counts too much where it is held out."""


def chain_columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """order and its kind, MLP width, views, chance; of finished runs also how they ended.

    Runs of other kinds than the chain have none of these.
    """
    if row["kind"] != "chain":
        return {}
    from internalize.constructions.general import kind_of_order

    columns: dict[str, Any] = {"mlp_width": row["model.mlp"] or 4 * row["model.width"]}
    counter = re.fullmatch(r"C(\d+)", row["task"])
    columns["order"] = int(counter[1]) if counter else None
    columns["order_kind"] = kind_of_order(columns["order"]) if counter else "not a counter"
    task = find_task(row["task"], "task", {})[0]
    columns["chance"] = 1 / task.states  # as good as guessing, after many uniform symbols of a group
    columns["views_within_budget"] = views_within_budget(row, task.symbols)
    if "id_accuracy" in row:
        columns |= _how_it_ended(row, columns["chance"], judged_ood(row, task.symbols))
    return columns


def judged_ood(row: FigureRow, symbols: int) -> float:
    """OOD accuracy on held-out inputs; where one input alone is heavy, on all inputs.

    Binomial inputs repeat: of C_2 at T = 25, the input of ones alone has 0.4 % of the mass. Where it is held
    out it is 7 % of a sample of held-out inputs, and its answer decides what is measured. So the two sides are
    put together again, with the share that is held out on average. (Uniform inputs are all alike: ID accuracy
    has no such trouble.)
    """
    if row.get("ood_trained_accuracy") is None:
        return float(row["ood_accuracy"])
    heaviest = max(parse_inputs(row["ood_inputs"], symbols).probabilities) ** row["horizon"]
    held_out, trained, share = row["ood_accuracy"], row["ood_trained_accuracy"], row["held_out"]
    return float(held_out if heaviest <= HEAVY else share * held_out + (1 - share) * trained)


def _how_it_ended(row: FigureRow, chance: float, ood: float) -> dict[str, Any]:
    accuracy = row["id_accuracy"]
    found: dict[str, Any] = {
        "ood_judged": ood,
        "ood_succeeded": ood > SUCCESS,
        "ood_failed": ood <= SUCCESS,
        "ood_gap": accuracy - ood,
        "keeps_ood": accuracy - ood < SMALL_DROP,
        "above_chance": accuracy - chance,
        "near_chance": abs(accuracy - chance) <= NEAR_CHANCE,
    }
    if "chain_id_accuracy" in row:
        found["chain_succeeded"] = row["chain_id_accuracy"] > SUCCESS
        found["chain_ood_succeeded"] = row["chain_ood_accuracy"] > SUCCESS
        whole = round(row["chain_response_length"]) == row["horizon"] + 1  # all states and EOS
        found["both_succeeded"] = bool(row["internalized"]) and found["chain_succeeded"] and whole
    if "samples" in row:  # tables once had what the budget allows here
        found["views_per_input"] = row["samples"] / row["possible_inputs"]
    if row.get("iterations_until") is not None:  # a row of a table; of a run, its curves are needed first
        found["operations_until"] = operations_until(row)
    return found


# Scale ------------------------------------------------------------------------------------------------------

Scale = Literal[
    "the paper's own",
    "the paper's C_2 cell",
    "premise kept, smaller",
    "premise kept, our recipe",
    "smaller, few inputs",
    "toy",
]
PAPER_SCALE: Scale = "the paper's own"
C2_CELL: Scale = "the paper's C_2 cell"
"""Its task and length, with a curriculum, or for a question, that the paper does not have there. At 0.19 views
the premise is not quite kept, so that it is not called so."""
SMALLER: Scale = "premise kept, smaller"
OUR_RECIPE: Scale = "premise kept, our recipe"
"""Smaller, and trained in another way than the paper does."""
FEW_INPUTS: Scale = "smaller, few inputs"
"""Of MLPs with hints: the paper's own see every input once or more, so that there is no premise to keep."""
TOY_SCALE: Scale = "toy"
SCALES = (TOY_SCALE, FEW_INPUTS, OUR_RECIPE, SMALLER, C2_CELL, PAPER_SCALE)
"""The farthest from the paper's own first."""
READINGS = ("seed", "held_out", "model.init_std", "kernel", "log_every", "evaluation.", "precision")
"""Fields in which a case may differ from the paper's and still be it: the paper does not give them."""


def views_within_budget(row: FigureRow, symbols: int) -> float:
    """How often an input is seen on average if all iterations are used: what makes a case a toy or not."""
    return row["iterations"] * row["batch"] / possible_inputs(symbols, row["horizon"])


def scale_of(row: FigureRow, paper_cases: Sequence[FigureRow]) -> Scale:
    """How far a case is from the paper's own."""
    views = row.get("views_within_budget")
    if views is not None and is_toy(views, row):  # the paper's premise: far more inputs than sequences seen
        return TOY_SCALE
    if any(_same_case(row, case) for case in paper_cases):
        return PAPER_SCALE
    if row.get("kind") == "hints":
        return FEW_INPUTS
    if _has_additions(row):
        return OUR_RECIPE
    return C2_CELL if views is not None and views > TOY else SMALLER


def _has_additions(row: FigureRow) -> bool:
    """Whether a run of the chain is trained by more than the paper's protocol of equal stages."""
    added = any(row.get(name) is not None for name in OPTIONAL_FIELDS)
    return row.get("kind") == "chain" and (added or row.get("schedule.kind") != "fixed")


def _same_case(row: FigureRow, case: FigureRow) -> bool:
    """Whether a run has what a case of the paper fixes, and nothing that the paper does not have."""
    own, paper = _identity(row), _identity(case)
    more = {name for name in OPTIONAL_FIELDS if own.get(name) is not None}
    return all(own.get(name) == paper.get(name) for name in {*paper, *more})


def _identity(row: FigureRow) -> dict[str, Any]:
    """The fields that a case of the paper fixes; an MLP of which nothing is said is four times as wide."""
    found = {name: value for name, value in row.items() if not name.startswith(READINGS)}
    if "model.mlp" in found:
        found["model.mlp"] = found["model.mlp"] or 4 * found["model.width"]
    return found


def _optional_fields(config: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of the fields that a config leaves out unless they are set."""
    for entry in fields(config):
        value = getattr(config, entry.name)
        if is_dataclass(value):
            yield from _optional_fields(value, f"{prefix}{entry.name}.")
        elif entry.metadata == LEFT_OUT_UNLESS_SET:
            yield f"{prefix}{entry.name}"


OPTIONAL_FIELDS = tuple(name for name in _optional_fields(ChainConfig()) if not name.startswith(READINGS))
"""Additions to the paper's protocol, such as easy steps: no case of the paper names them."""


def scale_of_all(scales: Iterable[Scale]) -> Scale:
    """Of a claim: that of its runs which are farthest from the paper's own."""
    found = set(scales)
    return next(scale for scale in SCALES if scale in found)


Evaluation = Mapping[str, Any]
DISTRIBUTIONAL = 0.05
"""ε of the distributional definition: the rates of error of the answer at once and of the chain differ by no
more."""


def chain_outcomes(row: FigureRow, run: Run) -> dict[str, Any]:
    """chain_learned, stages_passed, only_distributional; and until the run internalized (or its budget ended,
    if not happened): iterations_until, operations_until."""
    if row["kind"] != "chain":
        return {}
    curriculum = find_curriculum(row["method"], row["horizon"], {})[0]
    evaluations = list(run.metrics("evaluation"))
    ends = stage_ends(evaluations)
    found: dict[str, Any] = {
        "chain_learned": None,
        "stages_passed": last_stage_passed(ends) / curriculum.stages,
        "only_distributional": None,
    }
    shows_chain = not curriculum.length_hint and len(curriculum.shown(1)) == row["horizon"]
    if shows_chain and 1 in ends:
        found["chain_learned"] = ends[1]["id_target_accuracy"] > SUCCESS
        found["only_distributional"] = is_only_distributional(row, ends[1])
    if not curriculum.length_hint and curriculum.shown(curriculum.stages) == (row["horizon"],):
        wait = until_internalized(evaluations, curriculum.stages, bool(row["internalized"]), row["iterations"])
        found |= {"happened": wait.happened, "iterations_until": wait.time}
        found["operations_until"] = operations_until({**row, **found})
    return found


def stage_ends(evaluations: Sequence[Evaluation]) -> dict[int, Evaluation]:
    """The last measurement of each stage."""
    return {evaluation["stage"]: evaluation for evaluation in evaluations}


def last_stage_passed(ends: Mapping[int, Evaluation]) -> int:
    """The last stage whose own target was above 95 % at its end; 0 if there is none."""
    return max((stage for stage, end in ends.items() if end["id_target_accuracy"] > SUCCESS), default=0)


def until_internalized(
    evaluations: Sequence[Evaluation], last_stage: int, at_the_end: bool, budget: int
) -> Waiting:
    """The first success of the last stage that the next measurement confirms, also if it is undone later.

    at_the_end: what the final, larger measurement says; it confirms the one before it.
    """
    passed = [
        *(one["stage"] == last_stage and one["id_exact_chain"] > SUCCESS for one in evaluations),
        at_the_end,
    ]
    for place, evaluation in enumerate(evaluations):
        if passed[place] and passed[place + 1]:
            return Waiting(float(evaluation["iteration"]), True)
    return Waiting(float(budget), False)


def operations_until(row: FigureRow) -> int | None:
    """Operations of the training up to the iteration that iterations_until names, as the run counted them.

    None where nothing was counted at that iteration: the run was begun before costs were counted, or it was
    given up before its budget ended.
    """
    ends = ("iterations_to_internalize", "operations_to_internalize")
    counted_at, spent = ends if row["happened"] else ("result.iterations", "operations")
    return row.get(spent) if row.get(counted_at) == row["iterations_until"] else None


def is_only_distributional(row: FigureRow, first: Evaluation) -> bool | None:
    """Of a run that internalized: whether its answers err on D about as often as its chain did, and yet do err.

    The distributional definition compares two risks, which are these rates of error. The strict one compares
    answers with those of the chain: a wrong answer refutes it wherever the chain is right. None where the run
    did not internalize.
    """
    if not row["internalized"]:
        return None
    close = abs(first["id_accuracy"] - row["id_accuracy"]) <= DISTRIBUTIONAL
    return bool(close and min(row["id_accuracy"], row["ood_accuracy"]) < 1)
