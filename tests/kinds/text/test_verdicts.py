"""`check` compares whatever two runs have in common; `diagnose` speaks of a chain only where there was one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.kinds.entrance import train
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.open_text import open_text
from internalize.kinds.text.rendering import RemovalConfig
from internalize.kinds.text.rows import write_rows
from internalize.runtime.execution import Execution
from tests.kinds.text.test_commands import refuse
from tests.kinds.text.toys import parity_rows, shape_file


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Barely trained: what is said of them matters, not how good they are."""
    folder = tmp_path_factory.mktemp("verdicts")
    rows, model = parity_rows(folder), shape_file(folder, "gpt2")
    fewer = [json.loads(line) for line in Path(rows).read_text().splitlines()][:4]
    few, stranger = write_rows(fewer, folder / "few.jsonl"), write_rows(fewer[:2], folder / "stranger.jsonl")

    def made(name: str, evals: tuple[str, ...] = (), **fields: Any) -> str:
        config = TextConfig(
            data=rows, eval=evals or (f"id={rows}",), model=model, iterations=6,
            **{"tokenizer": "words", "removal": RemovalConfig(per_stage=1), **fields},
        )  # fmt: skip
        return str(train(config, Execution(out=folder / name)).path)

    return {
        "left": made("left", unit="step"),
        "cot": made("cot", method="cot"),
        "more": made("more", evals=(f"id={rows}", f"ood={few}"), method="cot", seed=1),
        "mixture": made("mixture", method="mixture"),
        "e2e": made("e2e", method="e2e"),
        "filler": made("filler", method="filler"),
        "characters": made("characters", tokenizer="characters", method="cot"),
        "other": made("other", evals=(f"id={few}",), method="cot"),
        "strange": made("strange", evals=(f"id={stranger}", f"ood={few}"), method="cot"),
    }


def test_nothing_is_drawn_for_text(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    run, why = runs["left"], "cannot be chosen for a run of text"
    for command in (
        f"evaluate {run}",
        f"show {run}",
        f"matrix {run}",
        f"diagnose {run}",
        f"check {run} --against {run}",
    ):
        assert f"seed: {why}" in refuse(capsys, [*command.split(), "--seed", "3"])
    assert f"horizon: {why}" in refuse(capsys, ["evaluate", run, "--horizon", "5"])
    for command in ("evaluate", "show"):
        said = refuse(capsys, [command, run, "--inputs", "uniform"])
        assert "inputs: must be one of id, or a file of rows; got 'uniform'" in said
        assert main([command, run, "--json"]) == 0
        capsys.readouterr()


def test_rows_for_which_there_is_no_room(
    runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "x0 x1 x0"
    long = write_rows([{"question": question, "steps": ["q0"] * 3, "answer": "q1"}], tmp_path / "long.jsonl")
    wide = write_rows(
        [{"question": f"{question} x1 x1", "steps": ["q0"], "answer": "q1"}], tmp_path / "wide.jsonl"
    )
    said = refuse(capsys, ["evaluate", runs["filler"], "--inputs", long])
    assert "long.jsonl has chains of 3 tokens: the run's own have at most 2" in said
    said = refuse(capsys, ["evaluate", runs["left"], "--inputs", wide])
    assert "wide.jsonl has rows of 10 tokens, markers included: the run's own have at most 9" in said


def test_a_marker_in_the_wrong_place_is_shown(runs: dict[str, str]) -> None:
    tokenizer = open_text(runs["left"]).experiment.material.tokenizer
    written = [tokenizer.markers.chain, *tokenizer.encode(["q1"])[0]]
    assert tokenizer.decode(written) == "<|chain|> q1"


@pytest.mark.parametrize("against", ["cot", "more", "mixture", "characters"])
def test_runs_with_a_file_in_common_are_compared(
    against: str, runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--epsilon", "0.5"]):
        assert main(["check", runs["left"], "--against", runs[against], "--json", *more]) in (0, 1)
        found = json.loads(capsys.readouterr().out)
        assert (found["distribution"], found["inputs"]) == ("id", 8)
    alone = ["evaluate", runs[against], "--samples", "8", "--json"]
    assert main(alone) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert found["slow_risk"] == pytest.approx(1 - accuracy)  # texts are judged as tokens are


def test_runs_are_compared_on_a_file_that_both_have(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", runs["more"], "--against", runs["strange"], "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["distribution"] == "ood"
    words = ["check", runs["more"], "--against", runs["strange"], "--inputs"]
    assert "against: the two runs have different rows in 'id'" in refuse(capsys, [*words, "id"])
    assert "inputs: must be one of id, ood" in refuse(capsys, [*words, "else"])
    differ = refuse(capsys, ["check", runs["cot"], "--against", runs["other"]])
    assert "against: the two runs were measured on different rows" in differ


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("cot", "chain not learned"),
        ("left", "chain not learned"),
        ("mixture", "chain not learned"),
        ("e2e", "answers not learned"),
        ("filler", "answers not learned"),
    ],
)
def test_what_was_not_learned(
    name: str, verdict: str, runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", runs[name], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == verdict
    if verdict == "answers not learned":
        assert "no chain was shown" in found["headline"]
        assert any("--method left" in line for line in found["suggestions"])


def test_a_mixture_that_knows_its_chain_lacks_the_direct_answer(runs: dict[str, str]) -> None:
    from internalize.kinds.text.diagnosis import _verdict
    from internalize.kinds.text.open_text import open_text

    curriculum = open_text(runs["mixture"]).experiment.curriculum
    summary = {"succeeded": False, "internalized": False, "chain_id_accuracy": 1.0}
    status = {"state": "done", "summary": summary}
    assert _verdict(status, [], curriculum) == ("direct answers not learned", None)
