"""The Python files that a run brings along, and `internalize runs trust`, which allows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from internalize.configs.named import file_of, is_object_name
from internalize.configs.trust import Untrusted, digest_of, may_run, remember, store
from internalize.errors import BadInput, require
from internalize.runs.exporting import flat
from internalize.runs.folder import Run


def code_of(run: Run) -> list[Path]:
    """The Python files that would be executed if the run were opened. Executes nothing.

    Every text of the config that has the form of an object's name counts, and so does its kind: which fields
    name objects, each kind knows for itself.
    """
    identity, copies = run.identity(), run.copies()
    found: dict[Path, None] = {}
    for name in (identity.kind, *flat(identity.config).values()):
        if not isinstance(name, str) or not is_object_name(name):
            continue
        try:
            path = copies[name] if name in copies else file_of(name.rpartition(":")[0])
        except (ImportError, ValueError, OSError):  # what only looks like a name, as S4:all does
            continue
        found[path] = None
    return list(found)


def require_trusted_code(run: Run) -> None:
    """Refuse a run with Python files that the user has not allowed, all of them in one line."""
    strange = [path for path in code_of(run) if not may_run(path)]
    if strange:
        raise Untrusted("run", strange, brought_by=str(run.path))


@dataclass(frozen=True)
class RunsTrustArguments:
    """Allow the Python files that runs bring along to be executed, as long as they stay the same.

    Read them first: they can do whatever you can. What you train with yourself needs no such word.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """One or more of: a run's folder, the beginning of its hash, a Python file."""


def runs_trust_command(arguments: RunsTrustArguments) -> None:
    require(len(arguments.runs) > 0, "runs", "name at least one run, or Python file")
    for name in arguments.runs:
        single = name.suffix == ".py" and name.is_file()
        files = [name] if single else code_of(Run.open(name, "runs"))
        for path in files:
            _trust(path)
        if not files:
            print(f"{name} brings no Python files: there is nothing to allow")


def _trust(path: Path) -> None:
    try:
        digest = digest_of(path.read_bytes())
    except OSError as error:
        raise BadInput("runs", f"cannot read {path}: {error.strerror}") from None
    require(
        remember(digest, path),
        "runs",
        f"cannot remember it: {store()} cannot be written; --trust needs no file",
    )
    print(f"trusted from now on: {path} (sha256 {digest})")
