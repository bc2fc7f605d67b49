"""JSON and YAML that people write: a key is there once, or the file is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from internalize.configs.files import read_data
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


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "more than 100,000 values"),
        (MERGES, "more than 100,000 values"),
        ("a: &a [*a]", "an alias stands within"),
        ("[" * 200 + "]" * 200, "nested more than 50 deep"),
        ("[" * 100_000, "nested more than 50 deep|not YAML"),
    ],
)
def test_yaml_that_would_never_end_is_refused_at_once(text: str, words: str, tmp_path: Path) -> None:
    """At once: before an ordinary file of 20,000 numbers would have been read twice, on this machine now."""
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "ordinary.yaml").write_text(f"a: [{', '.join(['1'] * 20_000)}]")
    times = [time.process_time()]
    with pytest.raises(BadInput, match=words):
        read_data(tmp_path / "a.yaml", "sweep")
    times.append(time.process_time())
    read_data(tmp_path / "ordinary.yaml", "sweep")
    times.append(time.process_time())
    assert times[1] - times[0] < 2 * (times[2] - times[1])
