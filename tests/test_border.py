"""The border of a command: nobody reads, nothing can be written, strange folders, absurd values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from internalize.cli import main
from internalize.kinds.chain.presets import PRESETS, preset_in

SMALL = (
    "--horizon 2 --iterations 4 --model.depth 1 --model.width 8 --model.heads 2 --batch 4 --kernel plain "
    "--evaluation.samples 8 --evaluation.final-samples 8 --evaluation.every 1 --out runs"
)
SWEEP = {
    "kind": "chain",
    "base": {"task": "C2", "horizon": 2, "iterations": 4, "batch": 4, "kernel": "plain",
             "model": {"depth": 1, "width": 8, "heads": 2},
             "evaluation": {"samples": 8, "final_samples": 8, "every": 1}},
    "grid": {"method": ["cot", "left"]},
}  # fmt: skip


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line for bash in which $I is the command; the exit code is that of its last command."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    environment |= {"I": f"{sys.executable} -P -m internalize.cli", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
        check=False,
    )


def states(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["state"] for path in folder.glob("runs/*/status.json")]


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        (f"$I train {SMALL} 2>&1 | head -1 > /dev/null; exit ${{PIPESTATUS[0]}}", 1),
        pytest.param(
            "$I sweep sweep.json --no-estimate --out runs 2>&1 | head -1 > /dev/null; exit ${PIPESTATUS[0]}",
            2,
            marks=pytest.mark.slow,
        ),
        (f"$I train {SMALL} 2> /dev/full", 1),
        (f"$I train {SMALL} >&- 2>&- <&-", 1),
    ],
)
def test_a_training_outlives_whoever_reads_what_it_says(line: str, runs: int, tmp_path: Path) -> None:
    """Its exit code is 0, and that is true: all runs are finished."""
    (tmp_path / "sweep.json").write_text(json.dumps(SWEEP))
    result = shell(line, tmp_path)
    assert (result.returncode, states(tmp_path)) == (0, ["done"] * runs), result.stderr


def test_results_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    result = shell(f"$I train {SMALL} --quiet --json > /dev/full", tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("internalize: No space left on device")
    assert result.stderr.count("\n") == 1


def test_workers_import_nothing_from_where_the_user_is(tmp_path: Path) -> None:
    """But find there the module that a config names."""
    for name in ("numba", "scipy", "json", "internalize"):
        (tmp_path / f"{name}.py").write_text(f"open('{name}-was-here', 'w')\nraise SystemExit(3)\n")
    (tmp_path / "mine.py").write_text(
        "from internalize.tasks import parse_task\nprint('nobody reads this')\ntask = parse_task('C3')\n"
    )
    words = f"train --task mine:task --seeds 2 --workers 1 {SMALL}"
    result = shell(f"$I {words} 2>&1 | head -1; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert result.returncode == 0, result.stdout
    assert states(tmp_path) == ["done"] * 2
    assert list(tmp_path.glob("*-was-here")) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("train --model.depth 1000000", "model.depth: must be at most 1,000"),
        ("train --threads 1000000000", "threads: must be at most 4,096"),
        ("train --method mixture --horizon 1000000", "horizon: must be at most 1,000 with mixture"),
        ("train --iterations 1000000000000000000", "run: it would take about 2e+11 years of one core"),
        (
            "train --model.depth 1 --model.width 8 --model.heads 1 --horizon 3 --iterations 1000000000000",
            "run: it would take about 33 years of one core",
        ),
        ("hints --width 8 --steps 1000000000000", "run: it would take about 32 years of one core"),
        ("hints --d 1000000000", "d: must lie in 1…100,000"),
        ("train --model.width 1000000000", "model.width: must be at most 100,000,000"),
        ("train --seeds 2 --iterations 1000000000000000", "years of one core"),
        ("pds original --steps 1000000000000000", "years of one core"),
        ("pds original --samples 1000000000000", "samples: must lie in 1…1,000,000,000"),
        ("race --seeds 1000000000", "seeds: must lie in 1…100,000"),
        ("frontier --minutes inf", "minutes: must be more than 0, and at most a year"),
        ("frontier --seeds 1000000000", "seeds: must lie in 1…100,000"),
        ("parity diagram --seeds 1000000000", "seeds: must lie in 1…10,000"),
        (
            "hints --evaluation.samples 1000000000000",
            "evaluation: measuring on 1,000,000,000,000 inputs would need",
        ),
        ("hints --depth 1000000000000", "depth: must be at most 1,000"),
        ("parity --check-inputs 1000000000000", "check-inputs: must lie in 1…1,000,000,000"),
        ("train --evaluation.samples 1000000000000", "evaluation: measuring on 1,000,000,000,000 inputs would"),
        ("text --evaluation.rows 1000000000000", "evaluation.rows: must be at most 1,000,000,000"),
        ("selfplay --game go", "game: go has 362 kinds of moves"),
        ("tasks C1000000000", "task: C_1000000000 would have"),
        ("runs --out \udcff", "out: must be UTF-8 text"),
        (f"train --out {'y' * 300}", "File name too long"),
    ],
)
def test_absurd_values_take_one_line(
    words: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_no_words_name_no_preset() -> None:
    """`internalize train` alone is the paper's own training."""
    assert preset_in([]) is None
    assert preset_in(["--preset=laptop"]) == preset_in(["--preset", "laptop"]) == PRESETS["laptop"]
