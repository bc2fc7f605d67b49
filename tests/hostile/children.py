"""How a command fares in a process of its own, within limits: its exit code, what it says, how long it takes.

Started as a script it reads one case (JSON) per line from its standard input, carries it out in a child that is
made by `fork` after the slow imports, and answers with one line. `Children` is the other end of that.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from internalize.cli import TRAINING

MEMORY = 6 * 2**30
"""Bytes of address space that a child may have beyond what it begins with."""
MISTAKE = 99
"""Exit code of a child in which an error came through the command's border."""
KEPT = 2_000_000
"""Characters of what a child says that are handed on, the last ones."""


@dataclass(frozen=True)
class Outcome:
    """What became of one command."""

    words: list[str]
    code: int
    """Minus the number of the signal, if it was one that ended it."""
    out: str
    err: str
    seconds: float
    """Of the processor: what else the machine has to do is no part of it."""

    def complaint(self, seconds: float = 60.0) -> str | None:
        """What is wrong with the way in which it ended, with its words and errors; None if nothing is.

        A command ends with 0, 1 or 2, or as a training does that is asked to stop; and whatever it refuses, it
        refuses in one line.
        """
        wrong = self._wrong(seconds)
        return None if wrong is None else f"{wrong}: {self.words}\n{self.err[-3000:]}"

    def _wrong(self, seconds: float) -> str | None:
        lines = self.err.splitlines()
        said = [line for line in lines if line.startswith("internalize: ")]
        said = [line for line in said if not line.startswith("internalize: warning: ")]
        stopped = self.code in (STOPPED, -signal.SIGTERM) and self.words[0] in {
            name.split()[0] for name in TRAINING
        }
        if self.code not in (0, 1, 2) and not stopped:
            return f"ended with {self.code}"
        if "Traceback" in self.err:
            return "a traceback"
        if self.seconds > seconds:
            return f"took {self.seconds:.0f} s"
        every = len(said) if self.words[0] in OF_SWEEPS else 1
        if self.code == 2 and (
            len(said) != every or not said or len(lines) > every + self.err.count("warning: ")
        ):
            return "a refusal that is not one line"
        if self.code == 1 and not said and not self.out.strip():
            return "a failure without a word"
        return None


STOPPED = 128 + signal.SIGTERM
OF_SWEEPS = ("sweep", "plan", "collect", "atlas")
"""Commands that refuse a sweep with a line for each of its problems."""


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
        """One command in a folder. patience: seconds of processor after which it is asked to stop by SIGTERM.

        more: `environment`, variables; `die`, before which of its changes to files it is killed; `count`, a
        file that is told how many changes there were; `writable`, the largest file in bytes; `stranger`,
        whether it runs as somebody who owns nothing here.
        """
        assert self._server.stdin is not None and self._server.stdout is not None  # noqa: PT018
        case = {"words": words, "folder": str(folder), "patience": patience, **more}
        self._server.stdin.write(json.dumps(case) + "\n")
        self._server.stdin.flush()
        return Outcome(words=words, **json.loads(self._server.stdout.readline()))

    def close(self) -> None:
        with self._server:  # closes its streams, and waits for it
            pass


# The other side -------------------------------------------------------------------------------------------

SLOW_TO_IMPORT = (
    "matplotlib.pyplot",
    "scipy.stats",
    "internalize.kinds.chain.experiment",
    "internalize.kinds.hints.experiment",
    "internalize.kinds.parity.kind",
    "internalize.kinds.selfplay.experiment",
    "internalize.kinds.text.experiment",
    "internalize.explorer.bundle",
    "internalize.explorer.text",
    "internalize.models.kernels.rows",
    "internalize.figures.paper",
)
NOBODY = 65534
WAIT = 6
"""How many times its seconds of processor a child is waited for, on a machine with other work."""


def serve() -> None:
    from importlib import import_module

    from internalize import cli

    for command in cli.COMMANDS.values():
        import_module(command.module)
    for module in SLOW_TO_IMPORT:
        import_module(module)
    gc.collect()
    gc.freeze()  # else every child that collects rubbish copies all of this process's memory
    for line in sys.stdin:
        print(json.dumps(carry_out(json.loads(line), cli.main)), flush=True)


def carry_out(case: dict[str, Any], main: Callable[[list[str]], int]) -> dict[str, Any]:
    """Pipes, not files: what a child says must not count as what it writes to a disk that is full."""
    pipes = [os.pipe(), os.pipe()]
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        be_child(case, main, pipes[0][1], pipes[1][1])
    for reading, writing in pipes:
        os.close(writing)
        os.set_blocking(reading, False)
    said = {reading: bytearray() for reading, _ in pipes}
    code, seconds = listen(child, said, began + WAIT * case["patience"] + 60)
    out, err = (text.decode("utf-8", "backslashreplace")[-KEPT:] for text in said.values())
    for reading in said:
        os.close(reading)
    return {"code": code, "out": out, "err": err, "seconds": seconds}


def listen(child: int, said: dict[int, bytearray], until: float) -> tuple[int, float]:
    """Take down what the child says until it ends: its exit code, and what it took of the processor.

    It is killed, with all that it has started, when it is late.
    """
    ended = 0
    while not ended:
        ready, _, _ = select.select(list(said), [], [], 0.02)
        ended, status, used = os.wait4(child, os.WNOHANG)
        for reading in said if ended else ready:
            with suppress(BlockingIOError):
                while text := os.read(reading, 2**16):
                    said[reading] += text
        if not ended and len(ready) == 2:  # both closed, perhaps
            time.sleep(0.005)
        if not ended and time.perf_counter() > until:
            os.kill(child, signal.SIGKILL)
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


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
        if case.get("stranger") and os.getuid() == 0:
            from internalize.models.kernels import find_cache

            os.setgid(NOBODY)
            os.setuid(NOBODY)
            find_cache()  # what root can write, and the import has found, is not for this child
        if "die" in case or "count" in case:
            watch_changes(case["folder"], case.get("die", 0), case.get("count"))
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        if "writable" in case:
            resource.setrlimit(resource.RLIMIT_FSIZE, (case["writable"], case["writable"]))
        for number, timer, times in (
            (signal.SIGPROF, signal.ITIMER_PROF, 1),
            (signal.SIGALRM, signal.ITIMER_REAL, WAIT),
        ):
            signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
            signal.setitimer(timer, times * case["patience"])
        code = main(case["words"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else MISTAKE
    except BaseException:
        traceback.print_exc()
    finally:
        for last in atexit_note:
            last()
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


CHANGES = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "shutil.move",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def watch_changes(folder: str, last: int, note: str | None) -> None:
    """Count what this process is about to change in the folder, and kill it right before one of the changes.

    Elsewhere libraries fill their caches, which happens once and would not be found again by its number.
    """
    seen = 0

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if not (event in CHANGES or opens):
            return
        changed = arguments[0]
        if not isinstance(changed, int):
            place = os.path.abspath(os.fsdecode(changed))  # noqa: PTH100 - links are not to be followed
            if not place.startswith(folder):
                return
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)

    sys.addaudithook(look)
    if note is not None:
        atexit_note.append(lambda: Path(note).write_text(str(seen)))


atexit_note: list[Callable[[], Any]] = []
"""What a child does last, though it ends by `os._exit`."""


if __name__ == "__main__":
    serve()
