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


def kill_plan(method: str, rounds: int, seed: int) -> list[Kill]:
    """Random moments and named points, shuffled; what the end of a mixture needs comes last."""
    chance = random.Random(seed)
    kills: list[Kill] = []
    for _ in range(rounds):
        some: list[Kill] = [
            {"steps": chance.randint(1, 40), "seconds": chance.uniform(0, 0.02)} for _ in range(14)
        ]
        some += inside_saving(chance.randint(2, 5))
        some.append({"point": "evaluate", "when": "after", "count": 1})
        if method != "mixture":
            some += around_stage_ends(method)
        chance.shuffle(some)
        kills += some
    return kills + (around_stage_ends(method) if method == "mixture" else [])


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


def check(tmp_path: Path, rounds: int, horizon: int, iterations: int) -> None:
    cases = []
    for name, words in CASES.items():
        all_words = [*SMALL, *words, "--horizon", str(horizon), "--iterations", str(iterations)]
        plan = kill_plan(words[1], rounds, seed=rounds)
        often = [*all_words, "--checkpoint-minutes", "0.0002"]  # so that there is progress between the kills
        for kind, kills, said in (("calm", [], all_words), ("killed", plan, often)):
            out = tmp_path / name / kind
            cases.append({"name": f"{name}/{kind}", "out": str(out), "words": said, "kills": kills})
    attempts = drive(cases)
    for name, words in CASES.items():
        of_case = [a for a in attempts if a["case"] == f"{name}/killed"]
        killed = [a["kill"] for a in of_case if a["code"] == -9]
        assert len(killed) == len(kill_plan(words[1], rounds, rounds)) >= 25, of_case
        assert sum(kill.get("point") in SAVING for kill in killed) >= 5
        assert sum(kill.get("point") in STAGE_ENDS for kill in killed) >= 5
        steps = [a["step"] for a in of_case]
        assert steps == sorted(steps), "a kill cost more than the time since the last checkpoint"
        assert len(set(steps)) >= 10, "too little progress between the kills"
        assert of_case[-1]["code"] == 0
        calm, disturbed = (results(tmp_path / name / kind) for kind in ("calm", "killed"))
        assert calm.keys() == disturbed.keys()
        assert [name for name in calm if calm[name] != disturbed[name]] == []


def test_many_kills_change_no_byte(tmp_path: Path) -> None:
    check(tmp_path, rounds=1, horizon=16, iterations=2_400)


@pytest.mark.slow
def test_very_many_kills_change_no_byte(tmp_path: Path) -> None:
    check(tmp_path, rounds=2, horizon=30, iterations=4_500)
