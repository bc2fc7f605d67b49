"""How a run of many ends, by what its backend says of every attempt; and what its folder says then."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from internalize import ChainConfig, Run
from internalize.benchmarks.store import make_runs
from internalize.contract import End, Ended, Event
from internalize.kinds import prepare
from internalize.runs.storage import own
from internalize.runtime.fleet.driver import Driver, Outcome, drive
from internalize.runtime.kind import Prepared

DONE = Ended(End.DONE)
FAILED = Ended(End.FAILED, "ZeroDivisionError: oops", 1)
REFUSED = Ended(End.FAILED, "results: use fetched", 2)
LOST = Ended(End.LOST, "the worker process died (signal 9)", 1)
BUSY = Ended(End.BUSY, "another process")

UNTOUCHED = {"state": "interrupted", "message": "as the loop left it"}
GIVEN_UP = {"state": "failed", "message": "ZeroDivisionError: oops", "for_good": False}


class Scripted:
    """A backend whose attempts end as written; one run at a time."""

    def __init__(self, ends: Sequence[Ended]) -> None:
        self.ends = list(ends)
        self.said: list[tuple[int, Event]] = []

    def free(self) -> int:
        return 1 - len(self.said)

    def submit(self, index: int, prepared: Prepared, again: bool) -> None:
        self.said.append((index, self.ends.pop(0)))

    def events(self, timeout: float) -> Sequence[tuple[int, Event]]:
        said, self.said = self.said, []
        return said

    def stop(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose last attempt left it as the loop does when something goes wrong."""
    make_runs(tmp_path, 1)
    (found,) = tmp_path.iterdir()
    Run(found).set_status(**UNTOUCHED)
    return found


@pytest.mark.parametrize(
    ("ends", "state", "exit_code", "status"),
    [
        ([DONE], "done", 0, UNTOUCHED),
        ([FAILED, DONE], "done", 0, UNTOUCHED),
        ([FAILED, FAILED], "failed", 1, GIVEN_UP),
        ([LOST, FAILED], "failed", 1, GIVEN_UP),
        ([LOST, LOST], "interrupted", 1, UNTOUCHED),
        ([FAILED, LOST], "interrupted", 1, UNTOUCHED),
        ([REFUSED], "failed", 2, UNTOUCHED),
        ([BUSY, FAILED, FAILED], "failed", 1, GIVEN_UP),
    ],
)
def test_errors_are_remembered_after_the_last_try_and_lost_processes_never(
    ends: list[Ended], state: str, exit_code: int, status: dict[str, Any], folder: Path
) -> None:
    outcome, backend = Outcome(prepare(ChainConfig())), Scripted(ends)
    drive([outcome], backend, retries=1, folders=[folder])
    assert (outcome.state, outcome.exit_code) == (state, exit_code)
    assert outcome.error == ends[-1].error
    assert outcome.attempts == len([end for end in ends if end is not BUSY])
    assert backend.ends == []
    assert Run(folder).status() == status


def test_a_run_that_another_took_over_is_not_given_up(folder: Path) -> None:
    with own(folder):
        drive([Outcome(prepare(ChainConfig()))], Scripted([FAILED]), folders=[folder])
    assert Run(folder).status() == UNTOUCHED


def test_a_sweep_that_is_stopped_between_two_runs_says_by_which_signal() -> None:
    """None is in hand then: the exit code is that of runs that were never begun."""
    outcomes = [Outcome(prepare(ChainConfig(seed=seed))) for seed in range(3)]
    driver = Driver(outcomes, Scripted([DONE]), None, 1, None, False)
    driver.run(lambda: signal.SIGTERM if outcomes[0].state == "done" else None)
    assert [outcome.state for outcome in outcomes] == ["done", "waiting", "waiting"]
    assert [outcome.exit_code for outcome in outcomes] == [0, 143, 143]


class Slow(Scripted):
    """Its run ends after a stop was asked for."""

    def events(self, timeout: float) -> Sequence[tuple[int, Event]]:
        return super().events(timeout) if self.stopping else []

    stopping = False

    def stop(self) -> None:
        self.stopping = True


def test_a_row_is_kept_only_of_a_run_that_is_over() -> None:
    """One that failed while all was stopped goes on the next time; a row would say that it never may."""
    failed = Ended(End.FAILED, "killed", 1, row={})
    for backend, expected in ((Scripted([failed]), ["failed"]), (Slow([failed]), [])):
        kept: list[Outcome] = []
        outcome = Outcome(prepare(ChainConfig()))
        driver = Driver([outcome], backend, None, 0, None, False, kept.append)
        driver.run(lambda outcome=outcome: None if outcome.state == "waiting" else signal.SIGTERM)  # type: ignore[misc]
        assert [one.state for one in kept] == expected
