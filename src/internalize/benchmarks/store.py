"""How quick the index of runs is with ten thousand of them: list, filter, refresh and rebuild.

`python -m internalize.benchmarks.store [COUNT]` makes the runs in a temporary folder and prints seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from internalize.runs.folder import Identity
from internalize.runs.index import Filter, Store
from internalize.runs.listing import listing

TASKS = ("C2", "C3", "C5", "C7", "S3")
METHODS = ("cot", "e2e", "left", "right", "mixture")


def make_runs(out: Path, count: int) -> None:
    """Folders with the small files of finished, interrupted and failed runs; no weights."""
    for i in range(count):
        config = {"task": TASKS[i % 5], "method": METHODS[i // 5 % 5], "horizon": 25, "seed": i,
                  "iterations": 50_000, "model": {"depth": 4, "width": 512, "heads": 128},
                  "optimizer": {"lr": 3e-4, "betas": [0.9, 0.95], "reset": True}}  # fmt: skip
        identity = Identity("chain", config, {})
        folder = out / identity.folder_name(f"{config['task']}-T25-{config['method']}-s{i}")
        folder.mkdir(parents=True)
        state = ("done", "done", "done", "interrupted", "failed")[i % 7 % 5]
        status: dict[str, Any] = {"state": state}
        if state == "done":
            accuracy = (i * 7919 % 1000) / 1000
            status |= {"summary": {"id_accuracy": accuracy, "ood_accuracy": accuracy / 2}, "seconds": 60.0}
        for name, content in (
            ("config.json", identity.to_json()),
            ("status.json", status),
            ("provenance.json", {"created": "2026-01-01T00:00:00+00:00", "identity": identity.to_json()}),
        ):
            (folder / name).write_text(json.dumps(content))


def measure(out: Path) -> dict[str, dict[str, float]]:
    """Seconds of each thing that people do with the index: by the clock, and of the processor alone."""
    store = Store(out)
    changed = next(out.glob("*/status.json"))
    steps: dict[str, Callable[[], object]] = {
        "rebuild": store.rebuild,
        "list": lambda: listing(store.entries()),
        "filter": lambda: listing(store.entries(Filter(task="C7", method="left", min_accuracy=0.9))),
        "change one run": lambda: changed.write_text(json.dumps({"state": "running"})),
        "list after a change": lambda: listing(store.entries()),
    }
    seconds = {}
    for name, step in steps.items():
        clock, processor = time.perf_counter(), time.process_time()
        step()
        seconds[name] = {
            "clock": round(time.perf_counter() - clock, 3),
            "processor": round(time.process_time() - processor, 3),
        }
    return seconds


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), count)
        print(json.dumps({"runs": count, "seconds": measure(Path(folder))}))


if __name__ == "__main__":
    main()
