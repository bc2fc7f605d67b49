"""The house's rules, held by a test: who may import whom, what loads when, and what must not be there."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import internalize
from tests.house_map import house_map, phrase

PACKAGE = Path(internalize.__file__).parent
ROOMS = [
    "errors",
    "contract",
    "configs",
    "statistics",
    "display",
    "tasks",
    "curricula",
    "sequences",
    "models",
    "measure",
    "constructions",
    "runs",
    "runtime",
    "kinds",
    "sweeps",
    "analysis",
    "figures",
    "explorer",
    "demo",
    "benchmarks",
    "help",
    "cli",
    "welcome",
    "__main__",
]
"""From the ground up: a room imports only from itself and from rooms above it (measure comes before the
constructions, which are predictors too)."""
FLOOR = {room: floor for floor, room in enumerate(ROOMS)}

ONLY_THERE = {
    "transformers": ("models/huggingface.py", "kinds/text/", "benchmarks/"),
    "tokenizers": ("kinds/text/",),
    "datasets": ("kinds/text/",),
    "peft": ("kinds/text/",),
    "ray": ("sweeps/ray.py",),
    "pyspiel": ("kinds/selfplay/",),
    "open_spiel": ("kinds/selfplay/",),
}
"""Large libraries that are no requirement, and the only places that may import them."""

SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, wherever in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(parts: tuple[str, ...]) -> str | None:
    return parts[0].removesuffix(".py") if parts and parts[0] != "__init__.py" else None


def test_the_walk_sees_the_package() -> None:
    """Else the other tests would pass on nothing."""
    assert len(SOURCES) > 50
    found = set(imports(PACKAGE / "runtime" / "train.py"))
    assert {"internalize.runs.folder.Run", "torch"} <= found


def test_every_room_has_its_place() -> None:
    rooms = {room_of(path.relative_to(PACKAGE).parts) for path in SOURCES} - {None}
    assert rooms <= set(FLOOR), f"not in the order of rooms: {sorted(map(str, rooms - set(FLOOR)))}"


def test_a_room_imports_only_from_rooms_above_it() -> None:
    wrong = []
    for path in SOURCES:
        own = room_of(path.relative_to(PACKAGE).parts)
        if own is None:  # the package's front door names what it offers
            continue
        for name in imports(path):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package == "internalize" and other in FLOOR and other != own and FLOOR[other] >= FLOOR[own]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("library", ONLY_THERE)
def test_large_libraries_are_imported_in_one_place(library: str) -> None:
    for path in SOURCES:
        where = path.relative_to(PACKAGE).as_posix()
        if any(name.partition(".")[0] == library for name in imports(path)):
            assert where.startswith(ONLY_THERE[library]), f"{where} imports {library}"


def test_no_pickle_is_written_or_read() -> None:
    for path in SOURCES:
        assert not {name.partition(".")[0] for name in imports(path)} & {"pickle", "dill", "joblib", "shelve"}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and node.attr in ("load", "save"):
                name = ast.unparse(node)
                assert name not in ("torch.load", "torch.save"), f"{path.relative_to(PACKAGE)} uses {name}"


def test_no_file_is_named_after_nothing() -> None:
    names = {part.removesuffix(".py") for path in SOURCES for part in path.relative_to(PACKAGE).parts}
    assert not names & {"utils", "util", "common", "helpers", "helper", "misc", "core", "base", "tools"}


def modules_after(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter after a statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(answer.stdout.split()[-1000:])


HEAVY = {"torch", "numpy", "matplotlib", "numba", "scipy", "transformers", "pandas", "rich", "tyro", "ray"}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import internalize", set()),
        ("from internalize.cli import main; main(['--help'])", set()),
        ("import internalize; internalize.ChainConfig", {"torch", "numpy", "rich", "tyro"}),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(statement: str, allowed: set[str]) -> None:
    assert modules_after(statement) & HEAVY <= allowed


def test_the_map_names_every_file_in_one_phrase() -> None:
    """To renew it: python -m tests.house_map > docs/map.md"""
    root = Path(__file__).parents[1]
    assert (root / "docs" / "map.md").read_text(encoding="utf-8") == house_map(ROOMS)
    assert all(phrase(path) for path in SOURCES)
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert [room for room in ROOMS if f"`{room}/`" not in readme and f"`{room}.py`" not in readme] == []


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
