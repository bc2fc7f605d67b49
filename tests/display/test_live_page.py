"""The page that renews itself: it follows the run, says what the model says, and changes nothing about it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from internalize import EvaluationConfig, Execution, ScheduleConfig, train
from internalize.contract import Stage
from internalize.display.live import Watched
from internalize.display.page import LivePage
from internalize.kinds.chain.kind import kept_answers
from tests.conftest import SMALL

SHORT = replace(
    SMALL,
    iterations=40,
    log_every=5,
    schedule=ScheduleConfig(),
    evaluation=EvaluationConfig(every=5, samples=20, final_samples=20),
)
HEADLINE = {"loss": "loss", "id_accuracy": "ID", "ood_accuracy": "OOD"}


def test_a_run_that_is_watched_is_the_same_run(tmp_path: Path) -> None:
    watched = train(
        SHORT,
        Execution(out=tmp_path / "watched"),
        [LivePage(Watched("short", HEADLINE, chance=0.5, answers=kept_answers()))],
    )
    alone = train(SHORT, Execution(out=tmp_path / "alone"))
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (watched.path / name).read_bytes() == (alone.path / name).read_bytes()
    page = (watched.path / "live.html").read_text(encoding="utf-8")
    assert "refresh" not in page, "a finished run renews nothing"
    assert page.count("<polyline") == 4
    assert page.count("<rect") == 2, "the last stage's answer has two positions"
    assert "loss by position: q4 " in page
    assert page.count("<tr><td>4</td>") >= 4 + 1, "the last stage in the table, and its answers"
    assert page.rstrip().endswith("</html>")


def test_while_it_runs_the_page_asks_to_be_loaded_again(tmp_path: Path) -> None:
    says = lambda folder: [["1", "0 1", "1 ■", f"<i>{folder.name}"]]  # noqa: E731
    view = LivePage(Watched("<b>run", HEADLINE, answers=says))
    losses = (("q1", 0.125), ("<u>", 0.5))
    stage = Stage(1, 4, "q1 … q4", just_ended=False, step=10, steps=40, losses=losses)
    view.begin(tmp_path, stage)
    page = tmp_path / "live.html"
    assert '<meta http-equiv="refresh" content="3">' in page.read_text(encoding="utf-8")
    assert "Nothing was measured yet" in page.read_text(encoding="utf-8")
    view.row(
        {"event": "evaluation", "iteration": 10, "stage": 1, "id_accuracy": 0.5, "ood_accuracy": 0.25}, stage
    )
    text = page.read_text(encoding="utf-8")
    assert "50.0 %" in text
    assert "25.0 %" in text
    assert f"&lt;i&gt;{tmp_path.name}" in text
    assert "<b>run" not in text
    bars = re.findall(r'height="([\d.]+)" fill="(#\w+)"><title>([^<]+): ', text)
    assert [(name, colour) for _, colour, name in bars] == [("q1", "#0072B2"), ("&lt;u&gt;", "#D55E00")]
    assert float(bars[1][0]) == pytest.approx(4 * float(bars[0][0]), rel=1e-2), "bars are as high as losses"
    assert list(tmp_path.iterdir()) == [page], "nothing half-written is left"
