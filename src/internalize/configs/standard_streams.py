"""Standard output and the error stream where nobody reads them any more: what cannot be said is dropped.

A training takes hours, and what it says on its way is a remark: a closed terminal, a full disk behind `2>`, or
a reader such as `head` that has gone must not end it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Literal, TextIO, cast


class Dropping:
    """A text stream that swallows what it cannot write; for everything else it is the stream behind it."""

    def __init__(self, stream: TextIO, tolerable: Callable[[OSError], bool]) -> None:
        """tolerable: whether an error is to be swallowed."""
        self._stream, self._tolerable = stream, tolerable

    def write(self, text: str) -> int:
        return self._try(lambda: self._stream.write(text), len(text))

    def writelines(self, lines: list[str]) -> None:
        self._try(lambda: self._stream.writelines(lines), None)

    def flush(self) -> None:
        self._try(self._stream.flush, None)

    def _try(self, deed: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return deed()
        except ValueError:  # closed
            return otherwise
        except OSError as error:
            if not self._tolerable(error):
                raise
            lead_nowhere(self._stream)
            return otherwise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def lead_nowhere(stream: TextIO) -> None:
    """Let the stream's descriptor lead to nothing: else Python fails at its end, when it empties the stream."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def dropping_remarks() -> AbstractContextManager[None]:
    """Whatever cannot be written to the error stream is dropped while the block runs."""
    _open_missing()
    return _dropping("stderr", lambda error: True)


def dropping_results() -> AbstractContextManager[None]:
    """The same for standard output, where it is but another place for remarks."""
    return _dropping("stdout", lambda error: True)


def outliving_the_reader() -> AbstractContextManager[None]:
    """The block goes on when the reader of standard output has gone; a full disk there is still an error."""
    return _dropping("stdout", lambda error: error.errno == errno.EPIPE)


@contextmanager
def _dropping(name: Literal["stdout", "stderr"], tolerable: Callable[[OSError], bool]) -> Iterator[None]:
    before = getattr(sys, name)
    setattr(sys, name, cast(TextIO, Dropping(before, tolerable)))
    try:
        yield
    finally:
        setattr(sys, name, before)


def _open_missing() -> None:
    """A stream that was closed before the start (`2>&-`) leads to nothing.

    Its number must not stay free: the next file that is opened would get it, and with it what others print.
    """
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, mostly this very one
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
