"""SIGKILL around and inside a rollback of the controller: every byte is that of a run that nobody disturbed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.runtime.faults import results
from tests.runtime.test_faults import drive

WORDS = [
    *("train", "--task", "C3", "--horizon", "3", "--iterations", "700", "--batch", "32", "--kernel", "plain"),
    *("--model.depth", "1", "--model.width", "16", "--model.heads", "4", "--model.init-std", "0.1"),
    *("--optimizer.lr", "5e-3", "--optimizer.warmup", "5", "--log-every", "7", "--quiet"),
    *("--evaluation.every", "100", "--evaluation.samples", "20", "--evaluation.final-samples", "40"),
    *("--schedule.kind", "controller", "--schedule.threshold", "0.4", "--schedule.memory", "5"),
    *("--schedule.shortest", "20", "--schedule.dwell", "10", "--schedule.patience", "10"),
    *("--rehearsal", "0.5", "--keep-positions", "True", "--ease", "2"),
]
KILLS: list[dict[str, Any]] = [
    {"point": "go_back", "when": "before", "count": 1},
    {"point": "go_back", "when": "after", "count": 1},
    {"point": "evaluate", "when": "after", "count": 1, "after": "go_back"},
    {"point": "checkpoint", "when": "before", "count": 1, "after": "go_back"},
    {"point": "checkpoint", "when": "after", "count": 1, "after": "go_back"},
]


def test_killed_inside_a_rollback(tmp_path: Path) -> None:
    often = [*WORDS, "--checkpoint-minutes", "0.0002"]
    attempts = drive(
        [
            {"name": "calm", "out": str(tmp_path / "calm"), "words": WORDS, "kills": []},
            {"name": "killed", "out": str(tmp_path / "killed"), "words": often, "kills": KILLS},
        ]
    )
    codes = [attempt["code"] for attempt in attempts if attempt["case"] == "killed"]
    assert codes == [-9] * len(KILLS) + [0], attempts  # every kill came, so there was a rollback each time
    assert results(tmp_path / "calm") == results(tmp_path / "killed")
