"""How far each run of a study of readings got: the accuracy at the end of stage 1, and the last stage passed.

    python studies/readings_stages.py studies/readings-width.yaml runs > results/readings/width-stages.csv

`internalize collect` writes how runs ended; by what a reading is chosen stands in their folders. A stage is
passed if more than 95 % of its own targets were right at its end. Runs that are not finished are left out.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from internalize.errors import BadInput
from internalize.figures.rows import last_stage_passed, stage_ends
from internalize.runs.folder import Run
from internalize.sweeps import Case
from internalize.sweeps.sweep import find_sweep


def row_of(case: Case, runs: Path) -> dict[str, object] | None:
    run = Run(case.prepared.folder(runs))
    if not run.is_done:
        return None
    ends = stage_ends(list(run.metrics("evaluation")))
    first = ends[1]["id_target_accuracy"]
    return {"run": run.path.name, **case.fields, "stage_1_accuracy": first, "passed": last_stage_passed(ends)}


def main() -> None:
    words = argparse.ArgumentParser(description="How far each run of a sweep got, as CSV.")
    words.add_argument("sweep", help="its file")
    words.add_argument("runs", type=Path, help="the folder of its runs")
    given = words.parse_args()
    try:
        cases = find_sweep(given.sweep).cases
        rows = [row for case in cases if (row := row_of(case, given.runs)) is not None]
    except BadInput as problem:
        words.error(str(problem))
    if not rows:
        words.error(f"runs: none of the {len(cases)} runs of {given.sweep} is finished in {given.runs}")
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
