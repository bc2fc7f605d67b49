"""The scripts that tell and draw what runs of text measured on the way."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from internalize import Execution, train
from internalize.kinds.text.rendering import RemovalConfig
from tests.kinds.text.test_material import config_of

STUDIES = Path(__file__).parents[3] / "studies/text"


def call(script: str, *words: Path) -> tuple[int, str, str]:
    line = [sys.executable, str(STUDIES / script), *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_what_a_run_measured_on_the_way_is_told_and_drawn(tmp_path: Path) -> None:
    config = config_of(tmp_path, method="left", removal=RemovalConfig(per_stage=1))
    config = replace(config, eval=(*config.eval, f"ood={config.data}"))
    run = train(config, Execution(out=tmp_path / "out", quiet=True))
    code, out, err = call("trials.py", run.path)
    assert (code, err) == (0, "")
    told = list(csv.DictReader(io.StringIO(out)))
    kept = run.metrics("evaluation")
    for name in ("stage", "iteration", "id_accuracy", "ood_accuracy", "id_response_length"):
        assert [float(row[name]) for row in told] == kept[name]
    assert {(row["run"], row["method"], row["seed"]) for row in told} == {
        (run.path.name, "left", str(config.seed))
    }
    table = tmp_path / "curves.csv"
    table.write_text(out)
    code, out, err = call("multiplication.py", table)
    assert (code, out, err.count("picture:")) == (0, "", 2)
    assert {path.suffix for path in tmp_path.glob("multiplication.*")} == {".png", ".svg"}
    table.write_text("method,seed\nleft,1\n")
    code, out, err = call("multiplication.py", table)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "must be what trials.py wrote, it has no operations" in err
    assert call("multiplication.py", tmp_path / "none.csv")[0] == 2
