"""Absurd command lines, configs and data files: an exit code, one clear line, within limits of time and memory.

The children are ended by the system beyond their memory, and asked to stop when their time is up: a training
then says where to go on, and whatever else still runs by then has failed the test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from internalize.cli import COMMANDS, TRAINING
from tests.hostile.children import Children
from tests.hostile.folders import JUNK, changed, places
from tests.hostile.laboratory import CIRCUIT, LEFT_OUT, SWEEP, good_words
from tests.hostile.words import ATTACKED, absurd_places, absurd_words

SLOW_BY_NATURE = {"demo", "race", "frontier", "pds", "parity diagram", "probe"}
"""Commands that start other processes, or take many seconds whatever they are told: not in the quick tests."""
EXPECTED_SECONDS = 60.0
TRAINING_SECONDS = 1.5
"""After which a training is asked to stop: by then it has read all that it was told."""


def test_every_command_is_attacked() -> None:
    assert set(COMMANDS) == set(ATTACKED) | LEFT_OUT


def attack(command: str, examples: int, fresh: Callable[[], Path], children: Children) -> list[str | None]:
    """One complaint, or None, for each absurd line."""
    lab, drawn_before = fresh(), 0
    found: list[str | None] = []

    @settings(max_examples=examples + 1, deadline=None, derandomize=True, database=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(
        st.one_of(
            absurd_words(command).map(lambda w: (True, w)), absurd_places(command).map(lambda w: (False, w))
        )
    )
    def one(drawn: tuple[bool, list[str]]) -> None:
        nonlocal drawn_before
        drawn_before += 1
        if drawn_before == 1:  # the simplest one there is: the first flag with the first value
            return
        beside, words = drawn
        all_words = [*good_words(command, lab), *words] if beside else [*command.split(), *words]
        ended = children.run(all_words, lab, patience=TRAINING_SECONDS if command in TRAINING else 6)
        if ended.code == 0 or ended.code > 2:
            refresh()
        found.append(ended.complaint(EXPECTED_SECONDS))

    def refresh() -> None:  # what a command has done must not become part of the next case
        nonlocal lab
        lab = fresh()

    one()
    return found


def complaints(found: list[str | None]) -> list[str]:
    assert found, "nothing was tried"
    return [complaint for complaint in found if complaint is not None]


@pytest.mark.parametrize("command", [command for command in ATTACKED if command not in SLOW_BY_NATURE])
def test_absurd_words(command: str, fresh: Callable[[], Path], children: Children) -> None:
    assert complaints(attack(command, 1, fresh, children)) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ATTACKED)
def test_ten_thousand_absurd_lines(command: str, fresh: Callable[[], Path], children: Children) -> None:
    examples = 60 if command in SLOW_BY_NATURE else 260
    assert complaints(attack(command, examples, fresh, children)) == []


SURROUNDINGS = [
    ({"COLUMNS": "5"}, "train --help"), ({"COLUMNS": "0"}, "runs"), ({"COLUMNS": "-3"}, "tasks C3"),
    ({"COLUMNS": "x"}, "figures --help"), ({"COLUMNS": "1" * 400}, "runs"), ({"COLUMNS": "1"}, "runs show RUN"),
    ({"TERM": "dumb"}, "show RUN"), ({"INTERNALIZE_RUNS": "/proc/nothing"}, "runs"),
    ({"INTERNALIZE_RUNS": ""}, "runs"),
    ({"INTERNALIZE_CONFIG": "/proc/nothing"}, "runs trust RUN"), ({"OMP_NUM_THREADS": "x"}, "doctor"),
    ({"HOME": "/proc/nothing"}, "runs"), ({"LC_ALL": "C", "PYTHONUTF8": "0"}, "tasks C3"),
    ({"NO_COLOR": "1"}, "runs"),
]  # fmt: skip


@pytest.mark.parametrize(("environment", "line"), SURROUNDINGS)
def test_strange_surroundings(
    environment: dict[str, str], line: str, laboratory: Path, children: Children
) -> None:
    words = good_words("runs show", laboratory)[-1].join(line.split("RUN")).split()
    ended = children.run(words, laboratory, patience=20, environment=environment)
    assert ended.complaint(20) is None


def test_the_traceback_is_there_for_who_asks(laboratory: Path, children: Children) -> None:
    words = ["train", "--out", "y" * 300]
    assert "Traceback" not in children.run(words, laboratory).err
    asked = children.run(words, laboratory, environment={"INTERNALIZE_DEBUG": "1"})
    assert "Traceback" in asked.err
    assert "File name too long" in asked.err


# Files ---------------------------------------------------------------------------------------------------

TASK = {"name": "turnstile", "states": ["locked", "open"], "symbols": ["push", "coin"],
        "transitions": [[0, 1], [0, 1]], "initial_state": 0, "accepting": ["open"]}  # fmt: skip
ROW = {"question": "1 + 1", "steps": ["two"], "answer": "2"}
CONFIG = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 8}
FILES: dict[str, tuple[Any, list[str]]] = {
    "task.json": (TASK, ["tasks task.json", "train --task task.json --iterations 2",
    "construct --task task.json --horizon 3"]),
    "sweep.json": (SWEEP, ["plan sweep.json", "sweep sweep.json --dry-run", "collect sweep.json",
    "atlas sweep.json"]),
    "rows.jsonl": (ROW, ["data check rows.jsonl", "data check rows.jsonl --tokenizer words --model gpt2.json"]),
    "circuit.json": (CIRCUIT, ["hints --circuit circuit.json --steps 2 --width 8"]),
    "gpt2.json": (CONFIG, ["data check parity3.jsonl --tokenizer words --model gpt2.json"]),
    "verdict.json": ({}, ["report --results results --page report.html", "report --claims"]),
}  # fmt: skip
"""File → what is good in it, and who reads it."""
RAW = ["", "\0", "{", "[" * 60_000, '{"a":' * 200 + "1" + "}" * 200, "\ufeff{}", "nan", "null", "[]",
       '"x"', "a: &a [*a]",
       "<<: {}", "- - - -", "? ?", "!!python/object:os.system x",
       "1" * 5_000, "\n" * 1000, '{"a": 1, "a": 2}', "---\n---",
       "%YAML 9\n---\n", "{transitions: [[0]]}", "0 1 a\n1", "\x1b[2J", "\ud800"]  # fmt: skip
"""What is no document of ours at all."""


def write_hostile(path: Path, good: Any, chance: random.Random) -> None:
    """The good document with junk in it; three times in ten no document at all."""
    if chance.random() < 0.3:
        path.write_bytes(
            chance.choice([chance.randbytes(200), *(text.encode("utf-8", "surrogatepass") for text in RAW)])
        )
        return
    value = json.loads(json.dumps(good))
    for _ in range(chance.choice([1, 1, 2, 3])):
        value = changed(value, chance.choice(list(places(value))), chance)
    if chance.random() < 0.1:
        value = {**good, chance.choice(["x", "name", ""]): chance.choice(JUNK)}
    path.write_text(json.dumps(value) + "\n")


def attack_files(
    name: str, cases: int, seed: str, fresh: Callable[[], Path], children: Children
) -> list[str | None]:
    """One complaint, or None, for each hostile file."""
    lab = fresh()
    found: list[str | None] = []
    path = next(lab.glob("results/*/verdict.json")) if name == "verdict.json" else lab / name
    good = FILES[name][0] or json.loads(path.read_text())
    for i in range(cases):
        chance = random.Random(f"{seed}/{name}/{i}")
        write_hostile(path, good, chance)
        line = chance.choice(FILES[name][1])
        small = " --model.depth 1 --model.width 8 --model.heads 2 --batch 4" if line.startswith("train") else ""
        ended = children.run(f"{line}{small}".split(), lab, patience=8)
        found.append(ended.complaint(EXPECTED_SECONDS))
        if (lab / "x").exists() or ended.code > 2:
            lab = fresh()
    return found


@pytest.mark.parametrize("name", FILES)
def test_hostile_files(name: str, fresh: Callable[[], Path], children: Children) -> None:
    assert complaints(attack_files(name, 6, "quick", fresh, children)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_many_hostile_files(name: str, fresh: Callable[[], Path], children: Children) -> None:
    assert complaints(attack_files(name, 300, "slow", fresh, children)) == []
