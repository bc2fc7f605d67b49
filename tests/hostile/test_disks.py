"""A full disk, and folders of which nothing is ours: one line each, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from internalize.runs import doctor
from tests.hostile.children import Children, Outcome
from tests.hostile.laboratory import GOOD, PARITY, good_words
from tests.hostile.test_folders import LISTING
from tests.test_border import shell

WRITING = ["train", "hints", "matrix", "probe", "construct", "tasks", "figure", "report", "runs",
           "runs export", "runs page", "runs prune", "hints draw", "data make", "collect"]  # fmt: skip
"""Commands of which the quick tests see how they fare on a full disk."""
OUTPUT = {
    "construct": "--draw --out drawn",
    "tasks": "--draw --out drawn",
    "runs export": "--csv table.csv",
    "collect": "--csv table.csv",
}
"""Words by which a command that can write nothing writes something."""
FULL: dict[str, Any] = {"writable": 0}
NEARLY_FULL: dict[str, Any] = {"writable": 3_000}
NOT_OURS: dict[str, Any] = {"stranger": True}


@pytest.fixture
def place(laboratory: Path) -> Iterator[Path]:
    """A copy of the laboratory that everybody may read and nobody but its owner may write."""
    with tempfile.TemporaryDirectory(prefix="internalize-disk-") as folder:
        Path(folder).chmod(0o755)
        yield shutil.copytree(laboratory, Path(folder) / "lab")


def attack(command: str, trouble: dict[str, Any], place: Path, children: Children) -> Outcome:
    if trouble is NOT_OURS and os.getuid() != 0:  # else the child is nobody, who may not write here
        for path in (place, *place.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
    words = [*good_words(command, place), *OUTPUT.get(command, "").split()]
    try:
        return children.run(words, place, patience=30, **trouble)
    finally:
        if os.getuid() != 0:
            for path in (place, *(path for path in place.rglob("*") if path.is_dir())):
                path.chmod(0o755)


def check(command: str, trouble: dict[str, Any], place: Path, children: Children) -> None:
    before = {path for path in place.rglob("*") if path.is_file()}
    ended = attack(command, trouble, place, children)
    assert ended.complaint() is None
    assert list(place.rglob(".*.tmp")) == []
    if trouble is NOT_OURS:
        assert {path for path in place.rglob("*") if path.is_file()} == before
    elif command in OUTPUT:  # whole, or not there: an empty file is a loss of what was in it
        files = {path for path in place.rglob("*") if path.is_file()} - before
        new = {path: path.read_bytes() for path in files if path.suffix in (".csv", ".png", ".svg")}
        if ended.code == 0:  # it had room enough
            assert trouble is NEARLY_FULL, "a full disk that nobody tells of"
            assert attack(command, {}, place, children).code == 0
            assert {path: path.read_bytes() for path in new} == new != {}
        else:
            assert "File too large" in ended.err
            assert new == {}


@pytest.mark.parametrize("command", WRITING)
def test_the_disk_is_full(command: str, place: Path, children: Children) -> None:
    check(command, FULL, place, children)


@pytest.mark.parametrize("command", ["train", "matrix", "construct", "report", "runs", "runs prune", "collect"])
def test_nothing_is_ours(command: str, place: Path, children: Children) -> None:
    check(command, NOT_OURS, place, children)


def test_a_folder_that_nobody_may_look_into_is_one_row(place: Path, children: Children) -> None:
    """It is not passed over, and hides nothing."""
    dark = place / PARITY
    dark.chmod(0)
    try:
        rows = json.loads(children.run(["runs", "--json"], place, patience=30, stranger=True).out)
        states = {row["path"]: row["state"] for row in rows}
        assert states.pop(dark.name) == "damaged"
        others = {path.parent.name for path in place.glob("runs/*/config.json")} - {dark.name}
        assert set(states) == others
        assert "damaged" not in states.values()
        for line in [*LISTING, f"runs compare {PARITY} {PARITY}", f"runs verify {PARITY}"]:
            ended = children.run(line.split(), place, patience=60, stranger=True)
            assert ended.complaint() is None
        for line in (f"runs show {PARITY}", f"evaluate {PARITY}", f"resume {PARITY}"):
            ended = children.run(line.split(), place, patience=30, stranger=True)
            assert (ended.code, ended.complaint()) == (2, None)
            assert f"{PARITY}/config.json cannot be read: Permission denied" in ended.err
        if os.getuid() == 0:  # else these are the child's own, and go
            words = ["runs", "prune", "--status", "done", "--yes"]
            ended = children.run(words, place, patience=30, stranger=True)
            assert (ended.code, ended.complaint()) == (1, None)
            assert "deleted 0 of " in ended.out
    finally:
        dark.chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [FULL, NEARLY_FULL, NOT_OURS], ids=["full", "nearly full", "not ours"])
@pytest.mark.parametrize("command", sorted(GOOD))
def test_nothing_can_be_written_by_any_command(
    command: str, trouble: dict[str, Any], place: Path, children: Children
) -> None:
    check(command, trouble, place, children)


def test_kernels_without_a_place_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a hurry: numba is told to find no place, and says so itself."""
    import numba
    from numba.core import caching

    from internalize.models.kernels import PLACE, find_cache

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert doctor._kernels().problem is not None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(PLACE, "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    place = find_cache()
    assert place is not None
    assert Path(place).parent == tmp_path
    assert Path(place).stat().st_mode & 0o077 == 0, "what lies there is executed: nobody else may write it"
    assert os.environ[PLACE] == numba.config.CACHE_DIR == place


@pytest.mark.slow
def test_kernels_without_a_place_to_keep_them(tmp_path: Path) -> None:
    """Neither beside the code nor in a home, as in a read-only installation: it works, and `doctor` says so."""
    package = tmp_path / "site" / "internalize"
    source = Path(__file__).resolve().parents[2] / "src" / "internalize"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()  # a file in the place of the folder: not even root can write there
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "INTERNALIZE_CONFIG"), "/proc/nothing")
    line = f"PYTHONPATH={package.parent}:$PYTHONPATH; export PYTHONPATH; TMPDIR={tmp_path}; export TMPDIR; $I"
    done = shell(f"{line} parity --d 4 --k 2 --no-contrast --quiet --json --out runs", tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr
    assert '"exact": true' in done.stdout
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("internalize-kernels-*")) == [], "it goes with the process"
    told = shell(f"{line} doctor --out runs", tmp_path, **nowhere)
    assert told.returncode == 1
    assert "wrong: kernels: neither the installation nor the home folder can be written" in told.stdout
