"""What runs of text measured on the way, also those that were stopped by hand: `collect` reads finished ones.

python studies/text/trials.py runs/mult4/* > results/text/multiplication-choose.csv
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from internalize.runs.folder import Run
from internalize.runs.table import Table

MEASURED = ("id_accuracy", "id_chain_accuracy", "id_response_length", "ood_accuracy")


def measured(path: Path) -> Iterator[dict[str, Any]]:
    """A row for each measurement: where the run was, how many rows were right, what was logged last."""
    logged: dict[str, Any] = {"loss": None, "worst_loss": None, "token_accuracy": None, "operations": None}
    run = Run.open(path)
    whose = {"run": path.name, **{name: run.identity().config[name] for name in ("method", "seed")}}
    for row in run.metrics():
        if row["event"] == "train":
            logged = {name: row[name] for name in logged}
        elif row["event"] == "evaluation":
            place = {name: row.get(name) for name in ("stage", "iteration", *MEASURED)}
            yield {**whose, **place, **logged}


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[1:]]
    print(Table([row for path in paths for row in measured(path)]).to_csv(), end="")
