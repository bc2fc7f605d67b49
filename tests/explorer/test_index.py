"""The index of runs: complete, to filter and to sort, and as harmless as the explorer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from internalize import Run
from internalize.cli import main
from internalize.contract import Row, RunState
from internalize.explorer.page import POINTS, curve_of, describe
from internalize.runs.commands import Selection
from tests.explorer.browser import Browser

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def page(internalized: Run, tmp_path: Path) -> Path:
    """Two runs, one of them with an explorer and one with a hostile name."""
    runs = tmp_path / "runs"
    shutil.copytree(internalized.path, runs / "good")
    shutil.copytree(internalized.path, runs / HOSTILE)
    (runs / "good" / "explorer.html").write_text("the explorer")
    assert main(["runs", "page", "--out", str(runs)]) == 0
    return runs / "index.html"


def test_runs_are_filtered_sorted_and_looked_at(fresh_browser: Browser, page: Path) -> None:
    fresh_browser.size(1200, 800)
    fresh_browser.open(page.as_uri())
    names = "[...document.querySelectorAll('tbody tr')].map((e) => e.firstChild.textContent)"
    assert fresh_browser.run(names) == [HOSTILE, "good"]
    fresh_browser.run("document.querySelector('th button').click()")
    assert fresh_browser.run(names) == ["good", HOSTILE]
    assert fresh_browser.run("document.querySelector('tbody a').getAttribute('href')") == "good/explorer.html"
    fresh_browser.run("document.getElementById('filter').focus()")
    fresh_browser.type("goo")
    assert fresh_browser.run(names) == ["good"]
    assert fresh_browser.run("document.querySelectorAll('#aside polyline').length") == 2
    assert "internalized" in fresh_browser.run("document.getElementById('aside').textContent")
    assert fresh_browser.run("window.hacked") is None
    assert fresh_browser.requests() == [page.as_uri()]
    assert fresh_browser.complaints() == []


def test_missing_explorers_are_written_and_others_left_alone(page: Path) -> None:
    runs = page.parent
    assert main(["runs", "page", "--out", str(runs), "--explorers"]) == 0
    assert (runs / "good" / "explorer.html").read_text() == "the explorer"
    assert "internalize.answer" in (runs / HOSTILE / "explorer.html").read_text(encoding="utf-8")
    assert '"explorer":null' not in page.read_text(encoding="utf-8")


def test_a_long_curve_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    rows = [{"event": "evaluation", "iteration": i, "id_accuracy": i / 999} for i in range(1000)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    points = curve_of(tmp_path)
    assert len(points) == POINTS
    assert points[0] == [0, 0.0, None]
    assert points[-1] == [999, 1.0, None]
    assert curve_of(tmp_path / "nowhere") == []


def test_a_wrong_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "page", "--out", str(tmp_path), "--page", str(tmp_path / "x.txt")]) == 2
    assert capsys.readouterr().err.startswith("internalize: page: must be a file that ends in .html")


def test_an_unfinished_run_shows_what_was_measured_last(page: Path) -> None:
    """On its stage's own target, with the stage, as `internalize runs` does; of a finished one, its results."""
    done = next(entry for entry in Selection(out=page.parent).entries() if entry.path == "good")
    shown = describe(done, page.parent, page.parent, {})
    assert (shown["id"], shown["stage"], shown["tokens"]) == (done.accuracy, None, 2.0)
    stopped = replace(done, state=RunState.INTERRUPTED, accuracy=None, ood_accuracy=None, summary_text="{}")
    so_far: Row = {
        "stage": 3,
        "id_accuracy": 0.3,
        "id_target_accuracy": 0.9,
        "id_response_length": 4.0,
        "ood_accuracy": "x",
    }
    shown = describe(stopped, page.parent, page.parent, so_far)
    assert [shown[key] for key in ("id", "ood", "stage", "tokens", "speaks")] == [0.9, None, 3, 4.0, False]
