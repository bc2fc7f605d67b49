"""The words that every room shares: rows, stages, the states of a run, who watches, and what workers say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Row = dict[str, Json]
"""One row of metrics: deterministic numbers only, never a time."""


def still_speaking(summary: Mapping[str, Any]) -> str:
    """What has to stand beside `succeeded`: a run that was to lose its words, and is right only with them.

    Empty where nothing has to be said: the run failed, internalized, or was never meant to (one stage only).
    """
    stages, tokens = summary.get("stages"), summary.get("response_length")
    if not summary.get("succeeded") or summary.get("internalized", True):
        return ""
    if not (isinstance(stages, int) and stages > 1 and isinstance(tokens, int | float)):
        return ""
    where = f"it ended at stage {summary.get('stage')} of {stages}"
    return f"succeeded, but still speaks: {tokens:.1f} tokens in an answer on average (2 is at once); {where}"


TOY = 0.1
"""Share of all inputs; a run that sees more of them may have learned them by heart."""
PAPERS_C2 = {"task": "C2", "horizon": 25}
"""The paper's own C_2 cells see every input 0.19 times; with 5 % of inputs held out they are no toys."""
PAPERS_C2_VIEWS, PAPERS_C2_HELD_OUT = 0.2, 0.05


def is_toy(views: float, config: Mapping[str, Any]) -> bool:
    """Whether a run sees so many of its inputs that it supports no claim.

    views: how often it sees an input on average. config: its task, horizon and held_out.
    """
    own = all(config.get(name) == value for name, value in PAPERS_C2.items())
    excepted = own and views <= PAPERS_C2_VIEWS and (config.get("held_out") or 0.0) >= PAPERS_C2_HELD_OUT
    return views > TOY and not excepted


def shortcomings(summary: Mapping[str, Any], run: str, config: Mapping[str, Any]) -> list[str]:
    """What has to stand below the results of a run: what it did not reach, what it cannot show.

    run: what commands find it by.
    """
    found = [said] if (said := still_speaking(summary)) else []
    stage, stages = summary.get("stage"), summary.get("stages")
    if summary.get("succeeded") is False and isinstance(stages, int):
        early = isinstance(stage, int) and stage < stages
        where = f": it ended at stage {stage} of {stages}" if early else ""
        found.append(f"did not succeed{where}; internalize diagnose {run} says why, and what to try")
    if is_toy_run(summary, config):
        seen = f"{summary['possible_inputs']:,.0f} possible inputs, {summary['samples']:,} samples seen"
        most = allowed_samples(summary, config)
        more = f", {most:,} allowed" if most > summary["samples"] else ""
        found.append(f"a toy ({seen}{more}): it shows how the tool works, and supports no claim")
    return found


def allowed_samples(summary: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """How many a run may see within its budget of iterations; where it names none, how many it saw."""
    iterations, batch = config.get("iterations"), config.get("batch")
    named = isinstance(iterations, int) and isinstance(batch, int)
    return max(iterations * batch if named else 0, summary["samples"])  # type: ignore[operator]


def is_toy_run(summary: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a finished run is a toy: by its budget, which was fixed before, like the cases of the figures."""
    samples, inputs = summary.get("samples"), summary.get("possible_inputs")
    known = isinstance(samples, int) and isinstance(inputs, int | float)
    return known and is_toy(allowed_samples(summary, config) / inputs, config)  # type: ignore[operator]


def named(result: str) -> str:
    """An entry of the results as people write it: `OOD accuracy` for ood_accuracy."""
    words = {"id": "ID", "ood": "OOD", "flops": "FLOPs"}
    return " ".join(words.get(word, word) for word in result.split("_"))


@dataclass(frozen=True)
class Stage:
    """Where an experiment is, for the loop and for people."""

    index: int
    """The stage (phase, round) being trained, from 1."""
    total: int
    label: str
    """What this stage does, in a few words."""
    just_ended: bool
    """Whether the step just done was this stage's last."""
    step: int
    """Steps done in all, and of how many at the most."""
    steps: int
    unit: str = "iterations"
    """What a step is called, in the plural."""
    losses: tuple[tuple[str, float], ...] = ()
    """Name and loss of each place in the answer as of the newest row, for whoever watches this one run."""


class RunState(StrEnum):
    """How far a run is. Its folder says new, running, interrupted, failed or done."""

    NEW = "new"
    WAITING = "waiting"
    """One of many, and its turn has not come."""
    RUNNING = "running"
    ELSEWHERE = "elsewhere"
    """One of many, and another process is training it."""
    INTERRUPTED = "interrupted"
    """Asked to stop, or killed; it can go on."""
    FAILED = "failed"
    DONE = "done"
    DAMAGED = "damaged"
    """A folder that cannot be read as a run."""


class Observer(Protocol):
    """Whoever watches one run: a live view, a tracker, a worker's reporter. Nothing it does changes the run."""

    def begin(self, folder: Path, stage: Stage) -> None:
        """folder: of the run."""

    def stepped(self, stage: Stage) -> None: ...

    def row(self, row: Row, stage: Stage) -> None: ...

    def end(self, state: RunState, summary: Row) -> None: ...


# What a run says on its way to whoever drives many of them -------------------------------------------------


@dataclass(frozen=True)
class Begun:
    """A run begins or goes on."""

    word: ClassVar[str] = "begin"
    stage: Stage
    run: str = ""
    """Its folder."""


@dataclass(frozen=True)
class Stepped:
    """A sign of life."""

    word: ClassVar[str] = "stepped"
    stage: Stage


@dataclass(frozen=True)
class Written:
    """A row of metrics was written."""

    word: ClassVar[str] = "row"
    stage: Stage
    row: Row


class End(StrEnum):
    """How an attempt at a run ended."""

    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    """The process or the node that trained the run is gone, which says nothing against the run."""
    INTERRUPTED = "interrupted"
    BUSY = "busy"
    """Another process is training the run."""
    RETRY = "retry"
    """Failed or lost, and it will be tried again: said by the driver, never by a worker."""


@dataclass(frozen=True)
class Ended:
    """An attempt is over."""

    word: ClassVar[str] = "ended"
    how: End
    error: str = ""
    """What went wrong."""
    exit_code: int = 0
    run: str = ""
    """Its folder, where there is one."""
    row: Row | None = None
    """What a run without a folder leaves behind."""


Event = Begun | Stepped | Written | Ended
_EVENTS: dict[str, type[Event]] = {kind.word: kind for kind in (Begun, Stepped, Written, Ended)}


def event_to_json(event: Event) -> dict[str, Any]:
    told = asdict(event)
    if "stage" in told:  # nobody who watches many runs looks at single places
        told["stage"].pop("losses")
    return {"event": event.word, **told}


def event_from_json(data: dict[str, Any]) -> Event:
    """What `event_to_json` gave."""
    fields = {name: value for name, value in data.items() if name != "event"}
    if "stage" in fields:
        fields["stage"] = Stage(**fields["stage"])
    if "how" in fields:
        fields["how"] = End(fields["how"])
    return _EVENTS[data["event"]](**fields)
