"""How charts name things."""

from __future__ import annotations

import pytest

from internalize.display.charts import task_name


@pytest.mark.parametrize(
    ("task", "shown"),
    [
        ("C2", "C$_{2}$"),
        ("C2xC10", "C$_{2}$×C$_{10}$"),
        ("flipflop2xC2", "flipflop2xC2"),
        ("matrix", "matrix"),
        ("Q8 at once", "Q$_{8}$ at once"),
    ],
)
def test_tasks_are_written_as_the_paper_does(task: str, shown: str) -> None:
    assert task_name(task) == shown
