"""`internalize construct`: what it prints, draws and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from internalize.analysis import construction
from internalize.analysis.arguments import ConstructArguments
from internalize.analysis.construction import construct_command
from internalize.configs.command_line import parse
from internalize.constructions.comparison import TrainedModel
from internalize.errors import BadInput
from internalize.tasks import parse_task
from tests.constructions.test_comparison import untrained


def run(*words: str) -> None:
    construct_command(parse(ConstructArguments, list(words), "internalize construct"))


@pytest.fixture
def stands_for_a_run(monkeypatch: pytest.MonkeyPatch) -> Callable[[TrainedModel], None]:
    """Whatever --against names, it is this model."""
    return lambda model: monkeypatch.setattr(construction, "load_trained", lambda path: model)


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    run("--order", "6", "--horizon", "5", "--check", "exhaustive", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["exact"] is True
    assert report["inputs_checked"] == 6**5
    keys = {"depth", "embedding", "heads", "mlp_width", "largest_weight", "largest_weight_ratio", "theorem"}
    assert keys <= report.keys()


def test_the_command_prints_tables_and_draws(
    stands_for_a_run: Callable[[TrainedModel], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands_for_a_run(untrained("C6", 5))
    run("--order", "6", "--horizon", "5", "--draw", "--margins", "--out", str(tmp_path / "out"),
        "--against", "somewhere")  # fmt: skip
    printed = capsys.readouterr().out
    for word in ("depth", "⌈log2(T+1)⌉", "score gap", "slack", "exact", "smallest β", "a run"):
        assert word in printed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    stems = ("attention", "registers", "sizes", "margins", "against-attention", "against-readable")
    assert names == {"certificate.json", "weights.safetensors"} | {
        f"{s}.{k}" for s in stems for k in ("png", "svg")
    }


def test_the_run_says_what_to_build(
    stands_for_a_run: Callable[[TrainedModel], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands_for_a_run(untrained("C5", 3))
    run("--against", "x", "--json", "--out", str(tmp_path))
    report = json.loads(capsys.readouterr().out)
    assert (report["order"], report["horizon"], report["comparison"]["trained"]["name"]) == (5, 3, "a run")
    stands_for_a_run(untrained("S3", 3))
    with pytest.raises(BadInput, match="use --general for 'S3'"):
        run("--against", "x")


def test_the_command_builds_the_general_construction(capsys: pytest.CaptureFixture[str]) -> None:
    run("--general", "--task", "S3", "--horizon", "4", "--precision", "float32", "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["construction"], report["exact"], report["order"]) == ("general", True, 6)


def test_an_inexact_precision_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run("--order", "12", "--horizon", "100", "--precision", "bfloat16", "--samples", "20")
    assert "not exact" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--order", "1"], "order"),
        (["--horizon", "0"], "horizon"),
        (["--order", "5", "--initial-state", "5"], "initial_state"),
        (["--task", "S3"], "task"),
        (["--task", "C5", "--order", "5"], "task"),
        (["--samples", "0"], "samples"),
        (["--against", "x"], "against"),
        (["--out", "/dev/null/folder"], "out"),
        (["--general", "--task", "S6"], "task"),
    ],
)
def test_bad_input_names_the_flag(arguments: list[str], field: str) -> None:
    with pytest.raises(BadInput) as error:
        run(*arguments)
    assert error.value.field == field


def test_a_run_of_a_file_that_has_a_counter_s_name(
    stands_for_a_run: Callable[[TrainedModel], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Theorem 3 is not about it, whatever it is called; the general construction is made from its table."""
    (tmp_path / "C4.json").write_text(
        json.dumps({"transitions": [[q ^ s for s in range(4)] for q in range(4)]})
    )
    stands_for_a_run(replace(untrained("C4", 3), task=parse_task(str(tmp_path / "C4.json"))))
    with pytest.raises(BadInput, match="theorem 3 is about counters C_n; use --general for 'C4'"):
        run("--against", "x")
    run("--against", "x", "--general", "--json", "--out", str(tmp_path / "out"))
    assert json.loads(capsys.readouterr().out)["exact"] is True
