"""One attempt at a run far from its driver: what happens on the node, and the board that it reports to.

Knows nothing of how a cluster passes calls and files on: see `ray.py`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from internalize.errors import BadInput
from internalize.runtime.fleet.driver import Event
from internalize.runtime.fleet.worker import Reporter, carry_out
from internalize.sweeps.mirroring import Home, HomeFolder, Mirror


class Board(HomeFolder):
    """Beside the driver: what the runs say, and the way home for their files."""

    def __init__(self, out: str, driver: int) -> None:
        """driver: its process; the board is on the same machine."""
        super().__init__(Path(out))
        self._driver = driver
        self._said: list[tuple[int, Event]] = []

    def _require(self, run: str, number: int) -> None:
        """When the driver is dead, another one may have the folder already."""
        os.kill(self._driver, 0)
        super()._require(run, number)

    def tell(self, index: int, event: Event) -> None:
        self._said.append((index, event))

    def take(self) -> list[tuple[int, Event]]:
        said, self._said = self._said, []
        return said


class SentFile(NamedTuple):
    """A file of the user on its way to a node."""

    digest: str
    name: str
    content: bytes


def attempt_here(
    job: dict[str, Any], files: Mapping[str, SentFile], home: Home, tell: Callable[[Event], None]
) -> dict[str, Any]:
    """Begin or continue a run on this node; returns the event with which it ended.

    job: as for `worker.carry_out`, with `out` and `folder`, where the run is at home, and `token`, the name of
    a file that whoever sees that place finds there; None if the results are to be sent home.
    files: the user's, by the names that the config has for them.
    tell: is given the events on the way.
    """
    last: list[dict[str, Any]] = []

    def hear(event: dict[str, Any]) -> None:
        last[:] = [event]
        if event["event"] in ("begin", "stepped", "row"):
            tell({key: value for key, value in event.items() if key != "run"})

    with tempfile.TemporaryDirectory(prefix="internalize-sources-") as folder:
        copies = {name: _write_copy(Path(folder), file) for name, file in files.items()}
        if job["token"] is None:
            _mirrored(job, Reporter(hear), home, copies)
        else:
            _require_shared(job)
            carry_out(job, Reporter(hear), copies=copies)
    end = last[-1]
    if "run" in end:
        end["run"] = str(Path(job["out"]) / job["folder"])
    return end


def _mirrored(job: dict[str, Any], reporter: Reporter, home: Home, copies: Mapping[str, Path]) -> None:
    """Train in a folder of this node, with the folder at home kept up to date."""
    with tempfile.TemporaryDirectory(prefix="internalize-runs-") as scratch:
        mirror = Mirror(Path(scratch) / job["folder"], home)
        mirror.fetch()
        job["execution"]["out"] = scratch
        carry_out(job, reporter, [mirror], copies)
        mirror.send()


def _require_shared(job: Mapping[str, Any]) -> None:
    if not Path(job["out"], job["token"]).exists():
        raise BadInput("results", f"the node {os.uname().nodename} does not see {job['out']}: use fetched")


def _write_copy(folder: Path, file: SentFile) -> Path:
    path = folder / file.digest / file.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(file.content)
    return path
