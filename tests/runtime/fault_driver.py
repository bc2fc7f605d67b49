"""Trains one run again and again, kills it every time, and prints how far it came.

Started by test_faults.py as a script with a plan (JSON) on its standard input. Every attempt is a process of
its own, made by `fork` after the slow imports, that runs the real command line and is ended by a real
SIGKILL: from outside, some milliseconds after some step, or by its own hand at a named point of its work.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from internalize import cli
from internalize.kinds.chain import commands  # noqa: F401 - imported before any fork
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.runs import storage as atomic
from internalize.runs.folder import Run
from internalize.runtime import loop

POINTS: dict[str, tuple[Any, str]] = {
    "write": (atomic, "write"),
    "flush": (atomic, "flush"),
    "move": (atomic, "move"),
    "sync_folder": (atomic, "sync_folder"),
    "checkpoint": (loop, "save_checkpoint"),
    "keep_stage": (Run, "save_stage"),
    "next_stage": (ChainExperiment, "_enter_next_stage"),
    "go_back": (ChainExperiment, "_take_back"),
    "evaluate": (ChainExperiment, "evaluate"),
    "model": (Run, "save_model"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def plant(point: str, when: str, count: int, only_after: str | None) -> None:
    """Die before, after or halfway through the `count`-th call of a point, seen since another point."""
    seen = 0
    armed = only_after is None

    def wrap(inner: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **named: Any) -> Any:
            nonlocal seen
            seen += armed
            now = armed and seen == count
            if now and when == "before":
                die()
            if now and when == "half":
                file, content = arguments
                file.write(content[: len(content) // 2])
                file.flush()
                die()
            result = inner(*arguments, **named)
            if now and when == "after":
                die()
            return result

        return around

    def arm(inner: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **named: Any) -> Any:
            nonlocal armed
            result = inner(*arguments, **named)
            armed = True
            return result

        return around

    owner, name = POINTS[point]
    setattr(owner, name, wrap(getattr(owner, name)))
    if only_after is not None:
        owner, name = POINTS[only_after]
        setattr(owner, name, arm(getattr(owner, name)))


def signal_at_step(count: int, pipe: int) -> None:
    """Write a byte to the pipe when the `count`-th step of this process begins."""
    seen = 0
    inner = ChainExperiment.advance

    def around(*arguments: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == count:
            os.write(pipe, b"!")
        return inner(*arguments)

    ChainExperiment.advance = around  # type: ignore[method-assign, assignment]


def attempt(words: list[str], kill: dict[str, Any] | None) -> int:
    """One training from where the last one left off; the result is as `os.waitstatus_to_exitcode` gives it."""
    sys.stdout.flush()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        if kill is not None and "steps" in kill:
            signal_at_step(kill["steps"], tell)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if kill is not None and "point" in kill:
            plant(kill["point"], kill["when"], kill["count"], kill.get("after"))
        os._exit(cli.main(words))
    os.close(tell)
    if kill is not None and "steps" in kill and os.read(told, 1):
        time.sleep(kill["seconds"])
        os.kill(child, signal.SIGKILL)
    os.close(told)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def newest_step(out: Path) -> int:
    """The step of the newest checkpoint, -1 where there is none."""
    return max((int(path.stem) for path in out.glob("*/checkpoints/[0-9]*.safetensors")), default=-1)


def main() -> None:
    for case in json.load(sys.stdin):
        out = Path(case["out"])
        for kill in [*case["kills"], None]:
            code = attempt([*case["words"], "--out", str(out)], kill)
            print(json.dumps({"case": case["name"], "code": code, "step": newest_step(out), "kill": kill}))


if __name__ == "__main__":
    main()
