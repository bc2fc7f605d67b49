"""A user's own kind, in one file that nothing else knows of: all that the house does, it does with this too."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from internalize import Run, train
from internalize.cli import main
from internalize.kinds import find_kind, prepare
from internalize.kinds.entrance import load_experiment
from internalize.sweeps import read_sweep, run_sweep
from tests.runtime.faults import bytes_of

FILE = Path(__file__).with_name("toy_kind.py")
NAME = "toy_kind.py:KIND"
FIGURE = """
from internalize.display.plots import new_figure
from internalize.figures import Figure
from internalize.figures.cases import Grid
from internalize.kinds import find_kind

BASE = find_kind("toy_kind.py:KIND").config(steps=20)


def draw(material):
    figure, axes = new_figure()
    axes.plot([row["d"] for row in material.rows], [row["accuracy"] for row in material.rows], "o")
    return figure


FIGURE = Figure("planes", "nowhere", "accuracy over d", {"smoke": [Grid(BASE, {"d": [2, 3]}, seeds=(0, 1))]},
                draw, "Planes.", ())
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A user's folder with the one file, which they trust."""
    shutil.copy(FILE, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("internalize.runtime.kind._OWN", {})  # as if no test before this one had loaded it
    assert main(["runs", "trust", "toy_kind.py"]) == 0
    capsys.readouterr()
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The JSON that a command prints."""
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_is_one_short_file() -> None:
    assert len(FILE.read_text().splitlines()) <= 120


def test_it_trains_and_is_listed_with_its_accuracy(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = said(capsys, "experiment", NAME, "--d", "3", "--lr", "1")
    assert result["accuracy"] > 0.8
    stored = json.loads((here / result["run"] / "config.json").read_text())
    assert (stored["kind"], list(stored["sources"])) == (NAME, [NAME])
    (entry,) = said(capsys, "runs")
    assert (entry["task"], entry["accuracy"], entry["kind"]) == ("plane3", result["accuracy"], NAME)
    status = json.loads((here / result["run"] / "status.json").read_text())
    assert (status["subject"], status["unit"], status["accuracy"]) == ("plane3", "strides", result["accuracy"])

    # the run needs the user's file no more, and another content is another run
    (here / "toy_kind.py").write_text(FILE.read_text() + "# changed\n")
    assert said(capsys, "experiment", NAME, "--d", "3", "--lr", "1")["run"] != result["run"]
    (here / "toy_kind.py").unlink()
    assert said(capsys, "resume", result["run"]) == result
    config, experiment = load_experiment(Run.open(Path(result["run"])))
    assert (config.d, type(experiment).__name__) == (3, "Toy")


def test_the_command_line_is_its_config(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["experiment", NAME, "--help"])
    assert "--lr FLOAT" in capsys.readouterr().out
    for words, complaint in (
        (f"experiment {NAME} --d 0", "d: must be at least 1, got 0"),
        (f"experiment {NAME} --steps many", "--steps: must be a whole number, got 'many'"),
        ("experiment toy_kind.py:Toy", "kind: toy_kind.py:Toy is no kind of experiment: it has no name"),
        ("experiment nowhere.py:KIND", "kind: there is no file nowhere.py"),
        ("experiment toy", "kind: unknown kind 'toy'"),
        (f"experiment {NAME} --d 1000000000000", "d: 16 points of 1,000,000,000,000 numbers would need about"),
    ):
        assert main(words.split()) == 2
        captured = capsys.readouterr()
        assert complaint in captured.err
        assert captured.err.count("\n") == 1


def test_live_views_speak_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", NAME, "--steps", "10"]) == 0
    assert "10/10 strides" in capsys.readouterr().err


def test_several_seeds_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "experiment", NAME, "--seeds", "3", "--workers", "1", "--quiet")
    assert [run["steps"] for run in found["runs"]] == [60, 60, 60]
    assert found["succeeded"]["of"] == 3


def test_killed_again_and_again_it_comes_to_the_same_bytes(here: Path) -> None:
    config = find_kind(NAME).config(steps=3_000)
    expected = bytes_of(train(config, out=here / "at once").path)
    words = [
        "experiment",
        NAME,
        "--steps",
        "3000",
        "--out",
        "killed",
        "--quiet",
        "--checkpoint-minutes",
        "1e-5",
    ]
    command = [sys.executable, "-m", "internalize.cli", *words]
    folder, kills = prepare(config).folder(here / "killed"), 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    for rows in (40, 700):
        process = subprocess.Popen(command, env=environment)
        while process.poll() is None and _rows(folder) < rows:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 2
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert bytes_of(folder) == expected


def _rows(folder: Path) -> int:
    journal = folder / "metrics.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def sweep_file(here: Path) -> str:
    text = json.dumps({"kind": NAME, "base": {"steps": 20}, "grid": {"d": [2, 3]}, "seeds": 2})
    (here / "s.json").write_text(text)
    return "s.json"


def test_it_is_swept_collected_and_planned(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sweep_file(here)
    dry = said(capsys, "sweep", file, "--dry-run", "--quiet")
    assert (dry["to do"], dry["disk_bytes"]) == (4, 2 * 5 * 4 * (2 + 3))
    assert dry["seconds"] > 0
    assert said(capsys, "sweep", file, "--workers", "2", "--quiet")["done"] == 4
    found = said(capsys, "collect", file)
    assert [(row["d"], row["seed"]) for row in found["rows"]] == [(2, 0), (2, 1), (3, 0), (3, 1)]
    (planned,) = said(capsys, "plan", file)["sweeps"]
    assert (planned["runs"], planned["on_processor"]) == (4, 4)
    assert planned["training_flops"] == 2 * 4 * 16 * 20 * (2 + 3)


def test_a_figure_is_drawn_of_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "toy_figure.py").write_text(FIGURE)
    made = said(capsys, "figure", "toy_figure.py:FIGURE", "--tier", "smoke", "--workers", "1", "--quiet")
    assert made["runs"] == {**made["runs"], "planned": 4, "done": 4}
    assert (here / "results" / "planes-smoke" / "planes.png").stat().st_size > 0
    (planned,) = said(capsys, "plan", "toy_figure.py:FIGURE@smoke")["sweeps"]  # the same runs as a sweep
    assert (planned["name"], planned["runs"]) == ("planes-smoke", 4)
    assert main(["plan", "toy_figure.py:FIGURE"]) == 2
    assert "but a Figure: name one of its tiers behind it, @smoke" in capsys.readouterr().err
    assert main(["plan", "toy_figure.py:BASE@smoke"]) == 2
    assert "toy_figure.py:BASE has no tiers: it is a ToyConfig, no figure" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_is_swept_on_ray(here: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: internalize[ray]")
    sweep = read_sweep(sweep_file(here))
    ended = run_sweep(sweep, out=here / "ray", backend="ray")
    assert [outcome.state for outcome in ended.outcomes] == ["done"] * 4
    for case in sweep.cases:
        apart = train(case.config, out=here / "apart").path
        assert bytes_of(case.prepared.folder(here / "ray")) == bytes_of(apart)


def test_a_row_that_could_not_be_read_again_is_refused_at_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An accuracy in percent would end in a run that is done and damaged, however often it is trained."""
    text = FILE.read_text().replace('Finish({"accuracy": right,', 'Finish({"accuracy": 100 * right,')
    (here / "toy_kind.py").write_text(text)
    assert main(["runs", "trust", "toy_kind.py"]) == 0
    assert main(["experiment", NAME, "--quiet"]) == 2
    told = "measurements: a row at step 60 has accuracy = '9"
    captured = capsys.readouterr().err
    assert told in captured
    assert captured.rstrip().endswith("which must be a number from 0 to 1")
    (run,) = (here / "runs").glob("toy-*")
    assert Run.open(run).state() == "interrupted"


def test_a_field_that_is_an_object_can_be_swept(here: Path) -> None:
    text = FILE.read_text().replace(
        "    seed: int = 0\n", "    seed: int = 0\n    more: dict[str, int] = field(default_factory=dict)\n"
    )
    text = text.replace("from dataclasses import dataclass", "from dataclasses import dataclass, field")
    (here / "toy_kind.py").write_text(text)
    assert main(["runs", "trust", "toy_kind.py"]) == 0
    (here / "s.yaml").write_text(f"kind: {NAME}\nbase: {{steps: 4, more: {{a: 1}}}}\ngrid: {{d: [2, 3]}}\n")
    assert main(["sweep", "s.yaml", "--workers", "1", "--no-estimate", "--quiet"]) == 0
    assert len(list((here / "runs").glob("toy-*"))) == 2


def test_a_kind_that_counts_no_operations_can_be_planned(here: Path) -> None:
    text = FILE.read_text().replace("return Forecast(64.0 * d * steps, 3e3 * d,", "return Forecast(0.0, 0.0,")
    (here / "toy_kind.py").write_text(text)
    assert main(["runs", "trust", "toy_kind.py"]) == 0
    (here / "s.yaml").write_text(f"kind: {NAME}\nbase: {{steps: 4}}\nseeds: 2\n")
    assert main(["sweep", "s.yaml", "--dry-run"]) == 0


def test_its_live_page_has_its_own_lines_and_steps(here: Path) -> None:
    assert main(["experiment", NAME, "--steps", "10", "--page", "--quiet"]) == 0
    page = next((here / "runs").glob("toy-*/live.html")).read_text(encoding="utf-8")
    assert "Nothing was measured yet" not in page
    assert page.count("10 strides</text>") == 2
    assert "<title>accuracy</title>" in page
    losses = page.split("<title>mean</title>")[0].rpartition('points="')[2].partition('"')[0].split()
    assert len({point.partition(",")[0] for point in losses}) == 10, "each loss stands at its own step"
