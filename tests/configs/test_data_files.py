"""JSON and YAML that people write: a key is there once, or the file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from internalize.configs.codec import read_data
from internalize.errors import BadInput

YAML = """
first: &usual {depth: 1, width: 8}
group:
  second: &wider {<<: *usual, width: 16}
third: {<<: *wider, depth: 2}
"""


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("a.yaml", "grid: {task: [C2]}\nseeds: 3\ngrid: {task: [C3]}\n", "grid"),
        ("a.yaml", "cases: [{model: {depth: 1, 'depth': 2}}]\n", "depth"),
        ("a.json", '{"cases": [{"task": "C2", "task": "C3"}]}', "task"),
    ],
)
def test_a_key_that_is_there_twice_is_named(name: str, text: str, key: str, tmp_path: Path) -> None:
    """Both readers would keep the last value and drop the other."""
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=rf"^sweep \({name}\): the key '{key}' is there 2 times"):
        read_data(tmp_path / name, "sweep")


def test_what_yaml_merges_may_be_set_anew(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(YAML)
    assert read_data(tmp_path / "a.yaml", "sweep") == {
        "first": {"depth": 1, "width": 8},
        "group": {"second": {"depth": 1, "width": 16}},
        "third": {"depth": 2, "width": 16},
    }
