"""What the attacks share: children that carry out commands, and a laboratory of which each test gets a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.children import Children
from tests.hostile.laboratory import Copy, build


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
    return Copy(laboratory, tmp_path / "lab").restore
