"""Kill a training again and again: every byte of its result is that of one that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.faults import results

DRIVER = Path(__file__).with_name("fault_driver.py")

SMALL = [
    *("train", "--task", "C2", "--seed", "3", "--batch", "8", "--kernel", "plain"),
    *("--model.depth", "1", "--model.width", "16", "--model.heads", "4", "--log-every", "7"),
    *("--evaluation.every", "37", "--evaluation.samples", "40", "--evaluation.final-samples", "100"),
    "--quiet",
]
CASES = {
    "curriculum with optimizer reset": ["--method", "left"],
    "mixture": ["--method", "mixture", "--optimizer.lr", "0.001"],
}

SAVING = ("write", "flush", "move", "sync_folder")
STAGE_ENDS = ("keep_stage", "checkpoint", "next_stage", "model")

Kill = dict[str, Any]


def inside_saving(count: int) -> list[Kill]:
    """A death at every step of saving; count: which call of the step, so that some are checkpoints."""
    steps = [
        ("write", "half"),
        ("write", "after"),
        ("flush", "after"),
        ("move", "before"),
        ("move", "after"),
        ("sync_folder", "after"),
    ]
    return [{"point": point, "when": when, "count": count + i % 3} for i, (point, when) in enumerate(steps)]


def around_stage_ends(method: str) -> list[Kill]:
    """Before, between and after what happens when a stage ends, and when all is over."""
    end = [
        {"point": "keep_stage", "when": "before", "count": 1},
        {"point": "keep_stage", "when": "after", "count": 1},
        {"point": "checkpoint", "when": "before", "count": 1, "after": "keep_stage"},
        {"point": "checkpoint", "when": "after", "count": 1, "after": "keep_stage"},
    ]
    if method == "mixture":  # one stage: it ends with the training
        return end + [{"point": "model", "when": when, "count": 1} for when in ("before", "after")]
    return end + [{"point": "next_stage", "when": when, "count": 1} for when in ("before", "after")]


PARTS = ("moments", "saving", "stage ends")


def kill_plan(method: str, part: str, rounds: int) -> list[Kill]:
    """The deaths of one part, in any order; what the end of a mixture needs can only come last."""
    chance = random.Random(f"{rounds}/{part}")
    kills: list[Kill] = []
    for _ in range(rounds):
        some: list[Kill] = []
        if part == "moments":
            some = [{"steps": chance.randint(1, 40), "seconds": chance.uniform(0, 0.02)} for _ in range(8)]
        elif part == "saving":
            some = inside_saving(chance.randint(2, 5))
            some.append({"point": "evaluate", "when": "after", "count": 1})
        elif method != "mixture":
            some = around_stage_ends(method)
        chance.shuffle(some)
        kills += some
    return kills + (around_stage_ends(method) if method == "mixture" and part == "stage ends" else [])


def drive(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the driver says of each attempt."""
    done = subprocess.run(
        [sys.executable, str(DRIVER)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(
    name: str, parts: tuple[str, ...], tmp_path: Path, rounds: int, horizon: int, iterations: int
) -> None:
    """One training, killed as the plans of its parts say, beside one that nobody disturbed."""
    words = CASES[name]
    all_words = [*SMALL, *words, "--horizon", str(horizon), "--iterations", str(iterations)]
    plan = [kill for part in parts for kill in kill_plan(words[1], part, rounds)]
    often = [*all_words, "--checkpoint-minutes", "0.0004"]  # so that there is progress between the kills
    attempts = drive(
        [
            {"name": kind, "out": str(tmp_path / kind), "words": said, "kills": kills}
            for kind, kills, said in (("calm", [], all_words), ("killed", plan, often))
        ]
    )
    of_case = [attempt for attempt in attempts if attempt["case"] == "killed"]
    killed = [attempt["kill"] for attempt in of_case if attempt["code"] == -9]
    assert killed == plan, of_case
    assert len(plan) >= 6 * len(parts)
    steps = [attempt["step"] for attempt in of_case]
    assert steps == sorted(steps), "a kill cost more than the time since the last checkpoint"
    least = 2 if (words[1], parts) == ("mixture", ("stage ends",)) else 3 * rounds * len(parts)
    assert len(set(steps)) >= least, "too little progress between the kills"
    assert of_case[-1]["code"] == 0
    calm, disturbed = (results(tmp_path / kind) for kind in ("calm", "killed"))
    assert calm.keys() == disturbed.keys()
    assert [name for name in calm if calm[name] != disturbed[name]] == []


def test_the_parts_kill_everywhere() -> None:
    points = {kill.get("point", "a moment") for part in PARTS for kill in kill_plan("left", part, 1)}
    assert points == {"a moment", "evaluate", *SAVING, "keep_stage", "checkpoint", "next_stage"}


@pytest.mark.parametrize("part", [pytest.param("moments", marks=pytest.mark.slow), "saving", "stage ends"])
def test_kills_change_no_byte(part: str, tmp_path: Path) -> None:
    """The mixture's part is in test_faults_mixture.py: a file is tested by one process."""
    check("curriculum with optimizer reset", (part,), tmp_path, rounds=1, horizon=8, iterations=400)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_very_many_kills_change_no_byte(name: str, tmp_path: Path) -> None:
    check(name, PARTS, tmp_path, rounds=3, horizon=30, iterations=4_500)
