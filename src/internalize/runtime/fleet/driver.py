"""Hands many runs to whatever carries them out, until each has ended: retries, waiting for others, stopping."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from internalize.contract import End, Ended, Event, Row, RunState
from internalize.errors import BadInput
from internalize.runs.folder import Run
from internalize.runs.storage import is_owned, own
from internalize.runtime.kind import Prepared
from internalize.runtime.loop import listening

OVER = (RunState.DONE, RunState.FAILED)
"""States that a run does not leave by itself."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the runs that somebody else is training."""


@dataclass
class Outcome:
    """How one run of many ended."""

    prepared: Prepared
    state: RunState = RunState.WAITING
    """waiting, running, elsewhere, done, failed or interrupted: asked to stop, or lost too often."""
    run: Run | None = None
    error: str = ""
    exit_code: int = 0
    attempts: int = 0
    """How often it was begun here."""
    row: Row | None = None
    """What a run without a folder leaves behind."""

    @property
    def config(self) -> Any:
        return self.prepared.config


class FleetObserver(Protocol):
    """Whoever watches many runs."""

    def begin(self, names: Sequence[str]) -> None: ...

    def event(self, index: int, event: Event) -> None:
        """What the run with this index says, or what became of it."""

    def end(self) -> None: ...


class Backend(Protocol):
    """Whatever carries runs out: processes here, or a cluster."""

    def free(self) -> int:
        """How many more runs it takes now."""

    def submit(self, index: int, prepared: Prepared, again: bool) -> None:
        """Begin or continue the run. again: also if its folder says that it has failed."""

    def events(self, timeout: float) -> Sequence[tuple[int, Event]]:
        """What the runs said since the last call; waits so many seconds for a first word."""

    def stop(self) -> None:
        """Every run in hand writes a checkpoint and ends."""

    def close(self) -> None: ...


def drive(
    outcomes: list[Outcome],
    backend: Backend,
    observer: FleetObserver | None = None,
    retries: int = 0,
    folders: Sequence[Path] | None = None,
    forgiving: bool = False,
    names: Sequence[str] | None = None,
    keep: Callable[[Outcome], None] | None = None,
) -> None:
    """Carry out, on a backend, all that waits; the outcomes are changed in place.

    retries: how often a run that failed is tried again.
    folders: of the runs. Where given, runs that another process is training are waited for, and taken over
    if it dies; else they count as failed.
    forgiving: whether runs whose folders say that they failed before go on all the same.
    names: what the observer is to call the runs; their labels if not given.
    keep: is told of every run that has left a row behind.
    """
    driver = Driver(outcomes, backend, observer, retries, folders, forgiving, keep)
    if observer is not None:
        observer.begin(names or [outcome.prepared.label for outcome in outcomes])
    try:
        with listening(aloud=observer is not None) as stop:
            driver.run(lambda: stop.signal)
    finally:
        backend.close()
        if observer is not None:
            observer.end()


class Driver:
    """The waiting, the running and those that somebody else is training."""

    def __init__(
        self,
        outcomes: list[Outcome],
        backend: Backend,
        observer: FleetObserver | None,
        retries: int,
        folders: Sequence[Path] | None,
        forgiving: bool,
        keep: Callable[[Outcome], None] | None = None,
    ) -> None:
        self.outcomes, self.backend, self.observer = outcomes, backend, observer
        self.retries, self.folders, self.forgiving, self.keep = retries, folders, forgiving, keep
        self.waiting = deque(i for i, outcome in enumerate(outcomes) if outcome.state == RunState.WAITING)
        self.elsewhere: dict[int, float] = {}
        """Run → when to look at it next."""
        self.failures: Counter[int] = Counter()
        self.running = 0
        self.stopped: int | None = None

    def run(self, stop: Callable[[], int | None]) -> None:
        """Until all have ended, or, when asked to stop, until those that run here have."""
        while self.waiting or self.running or self.elsewhere:
            if self.stopped is None and (number := stop()) is not None:
                self.stopped = number
                self.waiting.clear()
                self.elsewhere.clear()
                self.backend.stop()
            while self.waiting and self.backend.free() > 0:
                self._submit(self.waiting.popleft())
            for index, event in self.backend.events(0.2):
                self._hear(index, event)
            self._look_elsewhere()
        if self.stopped is not None:
            for outcome in self.outcomes:
                if outcome.state not in OVER:  # also those that were never begun
                    outcome.exit_code = 128 + self.stopped

    def _submit(self, index: int) -> None:
        outcome = self.outcomes[index]
        outcome.state = RunState.RUNNING
        outcome.attempts += 1
        self.running += 1
        self.backend.submit(index, outcome.prepared, again=self.forgiving or self.failures[index] > 0)

    def _hear(self, index: int, event: Event) -> None:
        outcome = self.outcomes[index]
        if run := getattr(event, "run", ""):
            outcome.run = Run(Path(run))
        if isinstance(event, Ended):
            self.running -= 1
            busy = event.how == End.BUSY
            event = self._leave_to_other(index, event) if busy else self._settle(index, event)
            if event.row is not None and self.keep is not None and outcome.state in OVER:
                outcome.row = event.row
                self.keep(outcome)
        self._tell(index, event)

    def _tell(self, index: int, event: Event) -> None:
        if self.observer is not None:
            self.observer.event(index, event)

    def _settle(self, index: int, event: Ended) -> Ended:
        """Note how a run ended, or let it wait for another try."""
        outcome = self.outcomes[index]
        if event.how in (End.FAILED, End.LOST) and event.exit_code != 2:
            if self.stopped is not None:
                event = replace(event, how=End.INTERRUPTED)
            elif self.failures[index] < self.retries:
                self.failures[index] += 1
                outcome.state = RunState.WAITING
                self.waiting.append(index)
                return replace(event, how=End.RETRY)
            elif event.how == End.LOST:
                event = replace(event, how=End.INTERRUPTED)
            elif self.folders is not None:
                give_up(self.folders[index], event.error)
        outcome.state, outcome.error, outcome.exit_code = RunState(event.how), event.error, event.exit_code
        return event

    # Runs that somebody else is training -----------------------------------------------------------------

    def _leave_to_other(self, index: int, event: Ended) -> Ended:
        outcome = self.outcomes[index]
        if self.folders is None:
            outcome.state, outcome.error, outcome.exit_code = RunState.FAILED, event.error, 2
            return replace(event, how=End.FAILED)
        outcome.attempts -= 1
        outcome.state, outcome.error = RunState.ELSEWHERE, event.error
        if self.stopped is None:
            self.elsewhere[index] = time.monotonic() + LOOK_EVERY
        return event

    def _look_elsewhere(self) -> None:
        now = time.monotonic()
        for index in [index for index, due in self.elsewhere.items() if due <= now]:
            assert self.folders is not None
            self.elsewhere[index] = now + LOOK_EVERY
            if is_owned(self.folders[index]):
                continue
            del self.elsewhere[index]
            outcome = self.outcomes[index]
            outcome.error = ""
            if settled(outcome, self.folders[index]):
                self._tell(index, Ended(End(outcome.state), outcome.error))
            else:  # left by a process that died or was stopped: it goes on here
                outcome.state = RunState.WAITING
                self.waiting.appendleft(index)


def settled(outcome: Outcome, folder: Path) -> bool:
    """Whether the folder says that the run is over, done or failed; if so the outcome says it too."""
    try:
        run = Run.at(folder)
    except BadInput:
        return False
    status = run.status()
    if status["state"] not in OVER:
        return False
    outcome.run, outcome.state = run, RunState(status["state"])
    if outcome.state == RunState.FAILED:
        outcome.error, outcome.exit_code = str(status.get("message", "")), 1
    return True


def give_up(folder: Path, error: str) -> None:
    """Let the folder say that the run has failed, so that later sweeps leave it alone.

    Not for good, as when its loss is no number: whoever has mended the cause may go on with it.
    """
    with suppress(BadInput, OSError):  # it never came to be, another process has it, the disk is full
        run = Run.at(folder)
        with own(folder):
            if run.status()["state"] not in OVER:
                run.set_status(RunState.FAILED, message=error, for_good=False)
