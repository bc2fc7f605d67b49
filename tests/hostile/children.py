"""How a command fares in a process of its own, within limits: its exit code, what it says, how long it takes.

Started as a script it reads one case (JSON) per line from its standard input, carries it out in a child that is
made by `fork` after the slow imports, and answers with one line. `Children` is the other end of that.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY = 6 * 2**30
"""Bytes of address space that a child may have beyond what it begins with."""
MISTAKE = 99
"""Exit code of a child in which an error came through the command's border."""
KEPT = 20_000
"""Characters of what a child says that are handed on."""


@dataclass(frozen=True)
class Outcome:
    """What became of one command."""

    words: list[str]
    code: int
    """Minus the number of the signal, if it was one that ended it."""
    out: str
    err: str
    seconds: float

    def complaint(self, seconds: float = 60.0) -> str | None:
        """What is wrong with the way in which it ended; None if nothing is.

        A command ends with 0, 1 or 2, or as a training does that is asked to stop; and whatever it refuses, it
        refuses in one line.
        """
        said = [line for line in self.err.splitlines() if line.startswith("internalize: ")]
        said = [line for line in said if not line.startswith("internalize: warning: ")]
        if self.code not in (0, 1, 2, STOPPED):
            return f"ended with {self.code}"
        if "Traceback" in self.err:
            return "a traceback"
        if self.seconds > seconds:
            return f"took {self.seconds:.0f} s"
        if self.code == 2 and (len(said) != 1 or len(self.err.splitlines()) > 1 + self.err.count("warning: ")):
            return "a refusal that is not one line"
        if self.code == 1 and not said and not self.out.strip():
            return "a failure without a word"
        return None

    def require_border(self, seconds: float = 60.0) -> None:
        complaint = self.complaint(seconds)
        assert complaint is None, f"{complaint}: {self.words}\n{self.err[-3000:]}"


STOPPED = 128 + signal.SIGTERM


class Children:
    """Commands, one after the other, each in a fresh child of one process that has imported everything."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def run(self, words: list[str], folder: Path, *, patience: float = 5.0, **more: Any) -> Outcome:
        """One command in a folder. patience: seconds after which it is asked to stop, as by SIGTERM.

        more: `environment`, variables; `die`, a point of its work and a number, see `plant_death`; `full`, after
        how many writes the disk is full, see `fill_disk`; `writable`, the largest file in bytes.
        """
        assert self._server.stdin is not None and self._server.stdout is not None  # noqa: PT018
        case = {"words": words, "folder": str(folder), "patience": patience, **more}
        self._server.stdin.write(json.dumps(case) + "\n")
        self._server.stdin.flush()
        return Outcome(words=words, **json.loads(self._server.stdout.readline()))

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


# The other side -------------------------------------------------------------------------------------------


def serve() -> None:
    from importlib import import_module

    from internalize import cli

    for command in cli.COMMANDS.values():
        import_module(command.module)
    for module in ("matplotlib.pyplot", "internalize.kinds.chain.experiment", "internalize.models.kernels.rows",
                   "internalize.kinds.selfplay.experiment", "internalize.kinds.hints.experiment",
                   "internalize.kinds.text.experiment", "internalize.figures.paper", "scipy.stats"):  # fmt: skip
        import_module(module)
    for line in sys.stdin:
        print(json.dumps(carry_out(json.loads(line), cli.main)), flush=True)


def carry_out(case: dict[str, Any], main: Callable[[list[str]], int]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        child = os.fork()
        if child == 0:
            be_child(case, main, out.fileno(), err.fileno())
        code = wait(child, 3 * case["patience"] + 30)
        seconds = time.perf_counter() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "backslashreplace")[-KEPT:])
    return {"code": code, "out": texts[0], "err": texts[1], "seconds": seconds}


def wait(child: int, seconds: float) -> int:
    """The child's exit code; after so many seconds it is killed, with all that it has started."""

    def kill(*_: Any) -> None:
        with suppress(OSError):
            os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.setitimer(signal.ITIMER_REAL, 0)
    kill()
    return code


def be_child(case: dict[str, Any], main: Callable[[list[str]], int], out: int, err: int) -> None:
    """Never returns."""
    code = MISTAKE
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in ((0, nothing), (1, out), (2, err)):
            os.dup2(stream, number)
        os.chdir(case["folder"])
        os.environ.update(case.get("environment", {}))
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        if "writable" in case:
            resource.setrlimit(resource.RLIMIT_FSIZE, (case["writable"], case["writable"]))
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, case["patience"])
        code = main(case["words"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else MISTAKE
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
