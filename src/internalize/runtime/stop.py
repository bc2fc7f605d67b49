"""Ctrl-C, SIGTERM and SIGHUP as a wish that the loop grants at the next step, or in the midst of a long one."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType


class Interrupted(Exception):
    """A run that stopped at its user's wish, with a checkpoint written where it has a folder."""

    def __init__(self, number: int, run_path: str | None) -> None:
        how = "the same command" if run_path is None else f"internalize resume {shlex.quote(run_path)}"
        super().__init__(f"interrupted; go on with: {how}")
        self.exit_code = 128 + number


class StopNow(BaseException):
    """Leaves work that can be done again, where somebody asked to stop. Whoever began the work catches it."""


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self, aloud: bool) -> None:
        """aloud: whether the user is told that the wish was heard: stopping may take a while."""
        self.signal: int | None = None
        self._aloud = aloud
        self._may_cut_short = False

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """A second Ctrl-C quits at once; a second SIGTERM changes nothing: the checkpoint is on its way."""
        first = self.signal is None
        if number == signal.SIGINT and not first:
            raise KeyboardInterrupt
        self.signal = number
        if first and self._aloud:
            # a line that cannot be said, in the midst of another or to nobody, must not disturb the stopping
            with suppress(OSError, RuntimeError, ValueError):
                print("internalize: stopping, writing a checkpoint…", file=sys.stderr, flush=True)
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


_heard: ContextVar[StopRequest | None] = ContextVar("the request of the `listening` around", default=None)


@contextmanager
def listening(aloud: bool = True) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a request while the block runs.

    Off the main thread (a notebook's worker, a pool) Python allows no handlers: nothing is installed then.
    """
    request = StopRequest(aloud)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    # a closed terminal; whoever was started by nohup does not mind it, and Windows has none
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, request.ask) for number in numbers}
    outer = _heard.set(request)
    try:
        yield request
    finally:
        _heard.reset(outer)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def cut_short_if_asked() -> Iterator[None]:
    """For a long step of an experiment: a wish to stop raises `StopNow` in the midst of it.

    The experiment catches it and gives the state back as it was before the step. Where nobody listens to
    signals the block runs to its end.
    """
    request = _heard.get()
    if request is None:
        yield
        return
    with request.cutting_short():
        yield
