"""Kill a training on the mixture of all lengths again and again: no byte of its result changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.test_faults import PARTS, check


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_kills_of_a_mixture_change_no_byte(part: str, tmp_path: Path) -> None:
    check("mixture", (part,), tmp_path, rounds=1, horizon=8, iterations=400)
