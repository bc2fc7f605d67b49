"""The page of text runs: it says what the models say, and whatever stands in a row is only shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from internalize import Execution, Run, TextConfig, train, write_rows
from internalize.cli import main
from internalize.explorer.page import write_explorer
from internalize.kinds.text.open_text import OpenText, open_text
from internalize.kinds.text.rendering import RemovalConfig
from tests.explorer.browser import Browser
from tests.kinds.text.toys import shape_file

HOSTILE = "<img/src=x/onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[OpenText]:
    """Left, a mixture and a direct one, hardly trained: their mistakes are to be shown."""
    folder = tmp_path_factory.mktemp("text")
    rows = [
        {
            "question": f"{HOSTILE} a{i} b{j}",
            "steps": [f"s{i}", f"s{j}", "</script>"],
            "answer": f"s{(i + j) % 3}",
        }
        for i in range(3)
        for j in range(3)
    ]
    data, model = write_rows(rows, folder / "rows.jsonl"), shape_file(folder, "gpt2")
    found = []
    for method in ("left", "mixture", "e2e"):
        config = TextConfig(
            data=data, eval=(f"id={data}",), model=model, tokenizer="words", method=method, iterations=24,
            batch=8, removal=RemovalConfig(per_stage=1),
        )  # fmt: skip
        found.append(open_text(train(config, Execution(out=folder / "runs")).path, "cpu"))
    return found


@pytest.fixture(scope="module")
def page(runs: list[OpenText]) -> Path:
    path = runs[0].path.parent / "page.html"
    write_explorer([run.path for run in runs], path)
    return path


def test_the_page_answers_as_the_models_do(fresh_browser: Browser, runs: list[OpenText], page: Path) -> None:
    fresh_browser.size(1200, 900)
    fresh_browser.open(page.as_uri())
    questions = fresh_browser.run("internalize.questions")
    assert len(questions) == 9
    for m, run in enumerate(runs):
        numbers: list[int] = [3, 0] if run.config.method == "mixture" else run.stages
        for number in numbers:
            asked = {"budget": number} if run.config.method == "mixture" else {"stage": number}
            for question in questions[:3]:
                said = fresh_browser.run(f"internalize.answer({json.dumps(question)}, {number}, {m})")
                own = run.answer(question, **asked)
                assert (said["answer"], said["right"], said["tokens"]) == (own.answer, own.right, own.tokens)
                assert " ".join(said["chain"]) == own.chain  # with markers that are out of place
                assert said["truth"] == own.truth
    assert fresh_browser.run("window.hacked") is None
    assert fresh_browser.requests() == [page.as_uri()]
    assert fresh_browser.complaints() == []


def test_stages_and_questions_are_changed(fresh_browser: Browser, page: Path) -> None:
    fresh_browser.size(390, 800)
    fresh_browser.open(page.as_uri())
    gone = "document.querySelectorAll('.said-row.current .word.gone').length"
    assert fresh_browser.run(gone) == 0
    for expected in (1, 2, 3):
        fresh_browser.press("ArrowRight")
        assert fresh_browser.run(gone) == expected
    first = fresh_browser.run("document.getElementById('question').textContent")
    assert first.startswith("<img")
    fresh_browser.click("#next")
    assert fresh_browser.run("document.getElementById('question').textContent") != first
    assert fresh_browser.run("document.documentElement.scrollWidth") <= 390
    assert fresh_browser.complaints() == []


def test_one_page_shows_one_kind(
    runs: list[OpenText], internalized: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = str(tmp_path / "page.html")
    assert main(["explore", str(runs[0].path), str(internalized.path), "--out", out]) == 2
    assert "one kind" in capsys.readouterr().err
    assert not Path(out).exists()
