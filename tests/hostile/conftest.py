"""What the attacks share: children that carry out commands, and a laboratory of which each test gets a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.children import Children
from tests.hostile.laboratory import build


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.close()


@pytest.fixture(scope="session")
def laboratory(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only."""
    return build(tmp_path_factory.mktemp("hostile") / "laboratory", children)


@pytest.fixture
def fresh(laboratory: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes a copy of the laboratory in place of the one before."""

    def make() -> Path:
        there = tmp_path / "lab"
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(laboratory, there, symlinks=True)
        return there

    return make
