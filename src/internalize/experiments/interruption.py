"""Ctrl-C and SIGTERM as a wish that the loop grants at the next step."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """A run that stopped at its user's wish, with a checkpoint written."""

    def __init__(self, number: int, run_path: str) -> None:
        super().__init__(f"interrupted; go on with: internalize resume {shlex.quote(run_path)}")
        self.exit_code = 128 + number


class StopNow(BaseException):
    """Leaves work that changes nothing, where somebody asked to stop. Only the loop raises and catches it."""


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._may_cut_short = False

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """A second Ctrl-C quits at once; a second SIGTERM changes nothing: the checkpoint is on its way."""
        if number == signal.SIGINT and self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        if self._may_cut_short:
            raise StopNow

    @contextmanager
    def cutting_short(self) -> Iterator[None]:
        """For work that can be done again from scratch, such as measuring: a wish to stop ends it at once."""
        if self.signal is not None:
            raise StopNow
        self._may_cut_short = True
        try:
            yield
        finally:
            self._may_cut_short = False


@contextmanager
def listening() -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a request while the block runs.

    Off the main thread (a notebook's worker, a pool) Python allows no handlers: nothing is installed then.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request.ask) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
