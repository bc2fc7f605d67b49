"""Runs of which one row is kept: the rows are what folders would say, and a kill costs none of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from internalize import Execution, train
from internalize.kinds import prepare
from internalize.kinds.parity.config import ParityConfig
from internalize.runs.storage import Owned, own
from internalize.runtime.fleet.pool import ROWS, execute_rows, rows_by_identity

CONFIGS = [ParityConfig(d=5, k=2, seed=seed, watch=False, contrast=False) for seed in range(12)]
DRIVER = """
import sys
from pathlib import Path
from internalize import Execution
from internalize.kinds import prepare
from internalize.runtime.fleet.pool import execute_rows
from tests.runtime.fleet.test_rows import CONFIGS
execute_rows([prepare(config) for config in CONFIGS], Path(sys.argv[1]), Execution(), workers=1)
"""


def test_a_row_is_what_the_folder_of_the_same_run_says(tmp_path: Path) -> None:
    config, diverges = CONFIGS[0], ParityConfig(d=5, k=2, step_size=1e200, watch=False)
    asked = [prepare(config), prepare(diverges), prepare(config)]
    outcomes = execute_rows(asked, tmp_path, Execution(), workers=2)
    assert [outcome.state for outcome in outcomes] == ["done", "failed", "done"]
    run = train(config, out=tmp_path / "runs")
    row = outcomes[0].row
    assert row == {"summary": run.summary(), "last": list(run.metrics("evaluation"))[-1]}
    assert len((tmp_path / ROWS).read_text().splitlines()) == 2  # what is asked for twice is computed once
    again = execute_rows(asked, tmp_path, Execution(), workers=1)
    assert [outcome.attempts for outcome in again] == [0, 0, 0]
    assert (again[0].row, again[1].error) == (row, outcomes[1].error)


@pytest.mark.slow
def test_a_killed_driver_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / ROWS
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], cwd=Path(__file__).parents[3])
    until = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < 3:
        assert driver.poll() is None
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    before = rows_by_identity(tmp_path)
    with path.open("a") as file:
        file.write('{"identity": "cut o')
    prepared = [prepare(config) for config in CONFIGS]
    outcomes = execute_rows(prepared, tmp_path, Execution(), workers=2)
    assert sum(outcome.attempts for outcome in outcomes) == len(CONFIGS) - len(before) < len(CONFIGS) - 2
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["identity"] for row in rows} == {one.identity.digest() for one in prepared}
    assert rows[: len(before)] == list(before.values())


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with own(tmp_path), pytest.raises(Owned):
        execute_rows([prepare(CONFIGS[0])], tmp_path, Execution())
