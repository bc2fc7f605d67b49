"""Users' own tasks: from JSON, YAML, a module or a file of Python; and the mistakes in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.errors import BadInput
from internalize.tasks.names import find_task, parse_task

TURNSTILE: dict[str, Any] = {
    "name": "turnstile",
    "states": ["locked", "open"],
    "symbols": ["push", "coin"],
    "transitions": [[0, 1], [0, 1]],
    "initial_state": 1,
}
AS_YAML = """
name: turnstile
states: [locked, open]
symbols: [push, coin]
transitions: [[0, 1], [0, 1]]
initial_state: 1
"""
AS_PYTHON = """
from internalize import semiautomaton
turnstile = semiautomaton("turnstile", [[0, 1], [0, 1]], ["locked", "open"], ["push", "coin"], 1)
def make(): return turnstile
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Names are relative to where the user stands."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("t.json", "t.json", json.dumps(TURNSTILE)),
        ("T.JSON", "T.JSON", json.dumps(TURNSTILE, indent="\t")),
        ("t.yaml", "t.yaml", AS_YAML),
        ("t.yml", "t.yml", AS_YAML),
        ("own_tasks:turnstile", "own_tasks.py", AS_PYTHON),
        ("own_tasks:make", "own_tasks.py", AS_PYTHON),
        ("sub/file.py:turnstile", "sub/file.py", AS_PYTHON),
        ("own_package.tasks:make", "own_package/tasks.py", AS_PYTHON),
    ],
)
@pytest.mark.usefixtures("named_by_the_user")
def test_a_users_task_by_any_name(here: Path, name: str, file: str, text: str) -> None:
    (here / file).parent.mkdir(exist_ok=True)
    (here / file).write_text(text)
    task, source = find_task(name, "task", {})
    assert source is not None
    assert (source.name, source.path.resolve()) == (name, (here / file).resolve())
    copy = here / "kept" / Path(file).name
    copy.parent.mkdir()
    (here / file).rename(copy)  # a run goes on from its own copy
    for found in (task, find_task(name, "task", {name: copy})[0]):
        assert found.name == "turnstile"
        assert found.table.tolist() == [[0, 1], [0, 1]]
        assert (found.state_names, found.symbol_names) == (("locked", "open"), ("push", "coin"))
        assert found.initial_state == 1
    with pytest.raises(BadInput):
        parse_task(name)


def test_only_transitions_are_needed(here: Path) -> None:
    (here / "three.json").write_text('{"transitions": [[1], [2], [0]]}')
    task = parse_task("three.json")
    assert (task.name, task.initial_state) == ("three", 0)
    assert (task.state_names, task.symbol_names) == (("0", "1", "2"), ("0",))


def without(key: str) -> str:
    return json.dumps({name: value for name, value in TURNSTILE.items() if name != key})


def with_(**fields: object) -> str:
    return json.dumps(TURNSTILE | fields)


BAD_JSON = [
    ("", "the file is empty"),
    ("   ", "the file is not JSON"),
    ("{", "the file is not JSON"),
    ("[" * 100_000, "the file is not JSON"),
    ('{"transitions": [[' + 5_000 * "1" + "]]}", "the file is not JSON"),
    ("\ufeff{}", "the file is not JSON"),
    ("[[0, 1], [1, 0]]", "must be an object with the keys name, states"),
    ("3", "must be an object"),
    (with_(transition=[]), "unknown key 'transition' (did you mean 'transitions'?)"),
    (without("transitions"), "transitions must be a list of lists"),
    (with_(transitions=[0, 1]), "transitions must be a list of lists"),
    (with_(transitions=[[0, 1], [0]]), "transitions[1]: must have 2 entries, got 1 (a hole)"),
    (
        with_(transitions=[[0, 1], [None, 1]]),
        "transitions[1][0]: must be a whole number or the name of a state, got None",
    ),
    (
        with_(transitions=[[0, 1], [0, 1.5]]),
        "transitions[1][1]: must be a whole number or the name of a state, got 1.5",
    ),
    (with_(transitions=[[0, 1], [0, "1"]]), "transitions[1][1]: there is no state '1'"),
    (with_(transitions=[[0, 1], [0, 2]]), "transitions[1][1]: must be a state in 0…1, got 2"),
    (with_(transitions=[[0, -1], [0, 1]]), "transitions[0][1]: must be a state in 0…1, got -1"),
    (with_(initial_state=2), "initial_state: must be a state in 0…1, got 2"),
    (with_(initial_state=True), "initial_state: must be a whole number or the name of a state, got True"),
    (with_(states=["a"]), "states: must have 2 names, got 1"),
    (with_(states="ab"), "states must be a list of names"),
    (with_(symbols=[0, 1]), "symbols[0]: must be a word without spaces, got 0"),
    (with_(name="two words"), "name must be a word without spaces"),
]


@pytest.mark.parametrize(("text", "words"), BAD_JSON, ids=range(len(BAD_JSON)))
def test_a_bad_json_file_is_refused_with_its_name(here: Path, text: str, words: str) -> None:
    (here / "bad.json").write_text(text)
    with pytest.raises(BadInput) as problem:
        parse_task("bad.json")
    assert problem.value.field == "task (bad.json)"
    assert problem.value.message.startswith(words)


@pytest.mark.parametrize(
    "text", ["{", "a: [", "a: 2020-99-99", "- " * 30_000, "\t- 1", "!!python/object:os.x {}"]
)
def test_a_bad_yaml_file_is_refused_in_one_line(here: Path, text: str) -> None:
    (here / "bad.yaml").write_text(text)
    words = "nested more than 50 deep" if text.startswith("- - ") else "the file is not YAML: .*"
    with pytest.raises(BadInput, match=rf"^task \(bad.yaml\): {words}$"):
        parse_task("bad.yaml")


@pytest.mark.parametrize(("name", "size"), [("huge.json", 2**40), ("huge.yaml", 2**30)])
def test_a_huge_file_is_not_read(here: Path, name: str, size: int) -> None:
    with (here / name).open("wb") as file:
        file.truncate(size)  # a sparse file: takes no room
    with pytest.raises(BadInput, match=f"the file has {size:,} bytes, at most"):
        parse_task(name)


def test_other_files_that_are_none(here: Path) -> None:
    (here / "folder.json").mkdir()
    (here / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for name, words in [
        ("no.json", "task: there is no file no.json"),
        ("folder.json", "task: folder.json is not a file"),
        ("bytes.json", r"task \(bytes.json\): the file is not UTF-8 text"),
        ("no/no.yaml", "task: there is no file no/no.yaml"),
        (300 * "n" + ".json", "task: cannot read n+.json: File name too long"),
    ]:
        with pytest.raises(BadInput, match=words):
            parse_task(name)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("1/0", "cannot import 'own': ZeroDivisionError: division by zero"),
        ("def (", "cannot import 'own': SyntaxError"),
        ("import sys; sys.exit(0)", "cannot import 'own': SystemExit: 0"),
        ("import not_there", "cannot import 'own': ModuleNotFoundError: No module named 'not_there' (the file"),
        ("from . import other", "must stand alone)"),
        ("", "module 'own' has no attribute 'task'"),
        ("task = 3", "own:task is not a Semiautomaton but 3"),
        ("def task(): return 1/0", "own:task failed: ZeroDivisionError: division by zero"),
        ("def task(n): return n", "own:task failed: TypeError"),
        (
            "import torch, internalize\n"
            "task = internalize.Semiautomaton('a', torch.tensor([[0, 7]]), ('0',), ('0', '1'))",
            "own:task: transitions[0][1]: must be a state in 0…0, got 7",
        ),
    ],
)
def test_a_module_that_fails_is_refused_in_one_line(here: Path, module: str, words: str) -> None:
    (here / "own.py").write_text(module)
    with pytest.raises(BadInput) as problem:
        parse_task("own:task")
    assert problem.value.field == "task"
    assert words in problem.value.message


@pytest.mark.parametrize("name", ["not_there:x", "sys:x", "a.b.c:x", "..:x"])
def test_modules_that_are_not_there(name: str) -> None:
    with pytest.raises(BadInput, match=r"^task: cannot import '.*': "):
        parse_task(name)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(BadInput, match=r"^task: there is no file not/there\.py$"):
        parse_task("not/there.py:x")


def test_a_table_that_is_too_wide_is_printed_as_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole names instead of a table whose cells are all cut: one line for each state."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["tasks", "C2"]) == 0
    assert "━" in capsys.readouterr().out
    assert main(["tasks", "C4xC4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("  3|3: ")] == [
        "  3|3: 3|3 3|0 3|1 3|2 0|3 0|0 0|1 0|2 1|3 1|0 1|1 1|2 2|3 2|0 2|1 2|2"
    ]
    assert "…" not in "".join(lines)
