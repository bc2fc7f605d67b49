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
