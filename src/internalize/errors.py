"""What a user can get wrong, said in one line."""

from __future__ import annotations

import shlex
from contextlib import suppress
from itertools import islice
from pathlib import Path

DATA = (".json", ".yaml", ".yml", ".fsm")
MOST_BESIDE = 1_000
"""Files of a folder that are looked at for a hint."""


class BadInput(Exception):
    """An input that cannot be used. The command line prints it as one line and exits with 2.

    No ValueError: libraries that parse arguments would catch it and wrap it in words of their own.

    `field` is what the user wrote (a flag, a key of a file, a file), `message` what would be right.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class RunFailed(RuntimeError):
    """A run that cannot go on: its loss is no number, the disk is full. One line, and exit code 1."""


class Interrupted(Exception):
    """A run that stopped at its user's wish, with a checkpoint written where it has a folder."""

    def __init__(self, number: int, run_path: str | None) -> None:
        how = "the same command" if run_path is None else f"internalize resume {shlex.quote(run_path)}"
        super().__init__(f"interrupted; go on with: {how}")
        self.exit_code = 128 + number


class RunWarning(UserWarning):
    """Something about a run that its user should know, and that does not stop it."""


def is_out_of_memory(error: Exception) -> bool:
    """Torch says it in words: on the processor, on a GPU, and of sizes beyond any memory."""
    words = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or any(text in str(error) for text in words)


def require(condition: bool, field: str, message: str) -> None:
    """Raise `BadInput` for the field unless the condition holds."""
    if not condition:
        raise BadInput(field, message)


def require_seed(seed: int) -> None:
    """Refuse a number that is no seed, wherever one is asked for."""
    require(0 <= seed < 2**63, "seed", f"must lie in 0 … 2^63-1, got {seed}")


def require_count(field: str, value: object, least: int = 0, most: int | None = None) -> None:
    """Refuse what is no whole number, or not from least to most."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    good = whole and least <= value and (most is None or value <= most)  # type: ignore[operator]
    wanted = f"at least {least}" if most is None else f"{least}" if most == least else f"{least} … {most}"
    require(good, field, f"must be {wanted}, a whole number; got {str(value)[:60]}")


def closest(word: str, known: list[str], at_least: float = 0.6) -> str:
    """A hint such as ` (did you mean 'left'?)`, empty where nothing is near.

    at_least: how alike the two must be, from 0 to 1 for the same.
    """
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=at_least)
    return f" (did you mean {near[0]!r}?)" if near else ""


def closest_file(path: Path) -> str:
    """A hint such as ` (did you mean 'gate.json'?)`: a file beside it that is called nearly the same."""
    import difflib

    files: dict[str, str] = {}
    with suppress(OSError, ValueError):
        beside = islice(path.parent.iterdir(), MOST_BESIDE)
        files = {file.stem: str(file) for file in beside if file.suffix.lower() in DATA}
    near = difflib.get_close_matches(path.stem, files, n=1, cutoff=0.75)
    return f" (did you mean {files[near[0]]!r}?)" if near else ""
