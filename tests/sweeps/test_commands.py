"""What `sweep`, `collect` and `plan` say and refuse, before and after anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.contract import RunState
from internalize.errors import BadInput
from internalize.runtime.fleet.driver import Outcome
from internalize.sweeps import Sweep, run_sweep, sweep_of
from internalize.sweeps.report import groups_table, outcome_lines, results_console
from internalize.sweeps.run import SweepOutcome
from tests.sweeps.tiny import BASE, tiny_sweep, write_sweep

TRICKY = "wants list[int], got [/x] :warning:"
"""Somebody's text: no markup, and no picture."""


def never(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("nothing is measured here")


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--out", "FILE"], "out: cannot write to "),
        (["--address", "auto"], "address: belongs to --backend ray"),
        (["--gpus", "0.5"], "gpus: belongs to --backend ray"),
        (["--device", "DEVICE"], "device: DEVICE is not available here; there is cpu"),
        (["--workers", "0"], "workers: must be at least 1"),
        (["--retries", "-1"], "retries: must be 0 or more"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_measured(
    dry: bool,
    options: list[str],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("internalize.sweeps.commands.expected_seconds", never)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    file = write_sweep(tmp_path / "s.json")
    words = [word.replace("FILE", str(file)).replace("DEVICE", "cuda") for word in options]
    assert main(["sweep", str(file), *words, *(["--dry-run"] if dry else [])]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith(f"internalize: {complaint.replace('DEVICE', 'cuda')}")
    assert said.out == ""
    assert list(tmp_path.iterdir()) == [file]


def test_a_cluster_is_not_kept_waiting_for_an_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its device looked for on the machine where the sweep is issued."""
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'internalize[ray]'")
    monkeypatch.setattr("internalize.sweeps.commands.expected_seconds", never)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    file = write_sweep(tmp_path / "s.json")
    words = ["sweep", str(file), "--out", str(tmp_path / "runs"), "--dry-run", "--json", "--quiet"]
    assert main([*words, "--backend", "ray", "--gpus", "0.25", "--device", "cuda"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert main(["sweep", str(file), "--dry-run", "--backend", "ray", "--device", "cuda"]) == 0
    assert (said["to do"], said["seconds"]) == (4, None)
    assert said["disk_bytes"] > 0


def test_ray_that_is_not_there_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("internalize.sweeps.run.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"^backend: ray is not installed: pip install 'internalize\[ray\]'"):
        run_sweep(tiny_sweep(), out=tmp_path, backend="ray")
    with pytest.raises(BadInput, match=r"^sweep: nothing has no runs"):
        run_sweep(Sweep("nothing", ()), out=tmp_path)


def test_no_more_workers_are_announced_than_there_are_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of ten seconds each on three workers take ten seconds, not seven."""
    monkeypatch.setattr(
        "internalize.sweeps.commands.expected_seconds", lambda configs, *_: [10.0] * len(configs)
    )
    file = write_sweep(tmp_path / "s.json", seeds=1)
    assert main(["sweep", str(file), "--out", str(tmp_path / "runs"), "--dry-run", "--workers", "3"]) == 0
    said = capsys.readouterr().out
    assert "about 10 s on 2 workers of this machine (20 s of one core)" in said


def test_the_end_names_the_command_that_reads_these_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_sweep(Path("my sweep.json"), seeds=1, iterations=3)
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": "list[int] [/x]"}))
    assert main(["sweep", str(file), "--out", "else where", "--no-estimate"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "list[int] [/x]: 2 runs of chain: 2 to do"
    assert lines[-1] == "results: internalize collect 'my sweep.json' --out 'else where'"
    assert main(["collect", "my sweep.json", "--out", "else where"]) == 0
    assert "2 of 2 runs finished" in capsys.readouterr().out


def test_names_and_errors_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of("a [bold]name[/x]", "chain", BASE, grid={"task": ["C2"]})
    failed = Outcome(sweep.cases[0].prepared, RunState.FAILED, error=TRICKY)
    (line,) = outcome_lines(SweepOutcome(sweep, (failed,)), "", quiet=True)
    assert line.plain == f"failed: task=C2 seed=0: {TRICKY}"
    results_console().print(groups_table(sweep.name, [], ["list[int]"], ["got_[/x]"]))
    said = capsys.readouterr().out
    assert said.startswith("a [bold]name[/x]: share of")
    assert "list[int]" in said
    assert "got [/x]" in said

    file = write_sweep(tmp_path / "s.json", seeds=1)
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": sweep.name}))
    monkeypatch.setattr(
        "internalize.sweeps.commands.expected_seconds", lambda configs, *_: [1.0] * len(configs)
    )
    assert main(["sweep", str(file), "--out", str(tmp_path / "runs"), "--dry-run"]) == 0
    assert "a [bold]name[/x]: 2 runs of chain: 2 to do" in capsys.readouterr().out
    monkeypatch.setattr("internalize.sweeps.collection._row", lambda case, folder: (None, f"failed: {TRICKY}"))
    assert main(["collect", str(file), "--out", str(tmp_path / "runs")]) == 0
    assert f"missing 2, failed: {TRICKY}: method=left seed=0; method=inductive" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--gpus"], "gpus: must be one or more numbers from 1 up, got ()"),
        (["--gpus", "0"], "gpus: must be one or more numbers from 1 up, got (0,)"),
        (["--gpus", "1", "x"], "gpus: must be whole numbers, got 1 x"),
        (["--peak", "inf"], "peak: must be more than 0 and finite, got inf"),
        (["--price", "nan"], "price: must be a number, got nan"),
        (["--utilisation", "50"], "utilisation: must lie in (0, 1], got 50.0"),
    ],
)
def test_a_plan_that_says_nothing_is_refused(
    options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(write_sweep(tmp_path / "s.json")), *options]) == 2
    assert capsys.readouterr().err.splitlines() == [f"internalize: {complaint}"]


def test_a_plan_says_what_does_not_fit_and_what_no_gpu_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parity computes on the processor: however much memory it takes, that of a GPU does not matter."""
    huge = tmp_path / "huge.json"
    huge.write_text(json.dumps({"base": {"batch": 200_000}}))
    parity = tmp_path / "parity.json"
    parity.write_text(json.dumps({"kind": "parity", "base": {"d": 5, "k": 2, "batch": 10**10}, "seeds": 3}))
    assert main(["plan", str(huge), str(parity), "--gpu", "l4"]) == 0
    said = capsys.readouterr().out.splitlines()
    large = [line for line in said if "largest run needs more memory" in line]
    assert large == [
        f"{name}: its largest run needs more memory than the 24 GB of l4"
        for name in ("huge", "all, shared runs once")
    ]
    assert any("(parity: 3; all, shared runs once: 3)" in line for line in said)
