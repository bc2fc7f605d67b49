"""What the tests of sweeps share: runs of three stages that take a moment, and what must come out of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from internalize import Execution, train
from internalize.sweeps import Sweep, sweep_of
from tests.runtime.faults import bytes_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sweeps"
BASE: dict[str, Any] = {
    "task": "C2",
    "horizon": 3,
    "iterations": 60,
    "batch": 8,
    "kernel": "plain",
    "model": {"depth": 1, "width": 8, "heads": 4},
    "evaluation": {"every": 1_000, "samples": 20, "final_samples": 40},
}


def tiny_sweep(seeds: int = 2, **fields: Any) -> Sweep:
    return sweep_of("tiny", "chain", {**BASE, **fields}, grid={"method": ["left", "inductive"]}, seeds=seeds)


def write_sweep(path: Path, seeds: int = 2, **fields: Any) -> Path:
    """The same as a file."""
    grid = {"method": ["left", "inductive"]}
    path.write_text(json.dumps({"base": {**BASE, **fields}, "grid": grid, "seeds": seeds}))
    return path


def one_after_the_other(sweep: Sweep, out: Path) -> dict[str, dict[str, bytes]]:
    """The serial sweep that others are compared with: run folder → bytes that must be the same."""
    runs = [train(case.config, Execution(out=out)) for case in sweep.cases]
    return {run.path.name: bytes_of(run.path) for run in runs}


def all_bytes(out: Path) -> dict[str, dict[str, bytes]]:
    return {run.name: bytes_of(run) for run in sorted(out.iterdir()) if (run / "config.json").exists()}


def steps_timed(out: Path) -> dict[str, list[int]]:
    """Run folder → the steps at which it noted its time: a step twice would mean that it was trained twice."""
    return {
        run.parent.name: [json.loads(line)["step"] for line in run.read_text().splitlines()]
        for run in sorted(out.glob("*/timing.jsonl"))
    }


def wait_for_a_stage(out: Path, runs: int) -> None:
    """Until so many runs have ended their first stage."""
    until = time.monotonic() + 300
    while len(list(out.glob("*/stages/0001.safetensors"))) < runs:
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
