"""`data check` and `data make`: nothing is counted twice, overlooked, or lost without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.configs.command_line import options_of
from internalize.curricula.schedule import CONTROLS
from internalize.kinds.text.checking import TextArguments
from internalize.kinds.text.rows import write_rows
from tests.kinds.text.test_commands import refuse
from tests.kinds.text.toys import shape_file


def check(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["data", "check", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def additions(folder: Path, count: int, steps: int = 1, first: int = 0) -> str:
    rows = [
        {"question": f"x {i} +", "steps": ["a b"] * steps, "answer": "c"} for i in range(first, first + count)
    ]
    return write_rows(rows, folder / f"rows{count}-{steps}-{first}.jsonl")


def test_files_to_measure_on_are_read_with_a_tokenizer_or_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, other = additions(tmp_path, 40), additions(tmp_path, 10, first=35)
    for tokenizer in ([], ["--tokenizer", "characters"]):
        missing = ["data", "check", rows, "--eval", f"id={tmp_path / 'none.jsonl'}", *tokenizer]
        assert "eval id: there is no file" in refuse(capsys, missing)
        assert "must have the form" in refuse(capsys, ["data", "check", rows, "--eval", other, *tokenizer])
        taken = ["data", "check", rows, "--eval", f"train={other}", *tokenizer]
        assert "'train' is the name of the training rows" in refuse(capsys, taken)
        report = check(capsys, rows, "--eval", f"ood={other}", *tokenizer)
        assert report["rows"] == 40  # none of them is held out
        assert "5 of 10 questions of 'ood' occur in training" in report["warnings"]
        report = check(capsys, rows, "--eval", f"id={rows}", *tokenizer)
        assert "40 of 40 questions of 'id' occur in training" in report["warnings"]


def test_rows_are_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, other = additions(tmp_path, 20, steps=0), additions(tmp_path, 7, steps=0, first=1)
    for tokenizer in ([], ["--tokenizer", "characters"]):
        (warning,) = check(capsys, rows, *tokenizer)["warnings"]
        assert warning.startswith("20 of 20 rows have no steps")
        warnings = check(capsys, rows, "--eval", f"id={other}", *tokenizer)["warnings"]
        assert [text.partition(":")[0] for text in warnings[:2]] == [
            "20 of 20 rows have no steps", "7 of 7 rows of 'id' have no steps"
        ]  # fmt: skip


def test_lengths_are_judged_in_what_is_taken_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"question": f"q {i}", "steps": ["w " * (i + 1)], "answer": "c"} for i in range(90)]
    file = write_rows(rows, tmp_path / "rows.jsonl")
    long = "chains are of very different lengths (p10 10, median 46, p99 90 "
    assert long + "words)" in check(capsys, file)["warnings"][0]
    words = [file, "--tokenizer", "words"]
    assert long + "tokens)" in check(capsys, *words)["warnings"][0]
    assert not any("lengths" in text for text in check(capsys, *words, "--unit", "step")["warnings"])
    even = additions(tmp_path, 20, steps=3)
    assert not any("lengths" in text for text in check(capsys, even, "--tokenizer", "words")["warnings"])


def test_words_keep_a_number_as_one_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"question": "1234*7", "steps": ["n12 q10"], "answer": "8 6 3 8"}
    file = write_rows([row], tmp_path / "rows.jsonl")
    (warning,) = check(capsys, file, "--tokenizer", "words")["warnings"]
    assert "digits are merged into one token ('1234*7')" in warning
    assert check(capsys, file, "--tokenizer", "characters")["warnings"] == []


def test_a_mixture_shows_three_budgets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = additions(tmp_path, 20, steps=4)
    words = [file, "--tokenizer", "words", "--method", "mixture", "--removal.per-stage", "2"]
    stages = check(capsys, *words)["stages"]
    assert [stage["stage"] for stage in stages] == [
        f"1 of 1, budget {i} (up to {2 * i} tokens)" for i in (0, 2, 4)
    ]
    assert [stage["writes"].count("·") for stage in stages] == [2, 6, 10]
    assert [stage["reads"].rpartition("·")[2] for stage in stages] == [f"<|budget:{i}|>" for i in (0, 2, 4)]


def test_a_file_in_place_of_a_folder_with_a_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    file = additions(tmp_path, 20)
    words = ["data", "check", file, "--tokenizer", str(tmp_path / "tokenizer.json")]
    for model in ([], ["--model", shape_file(tmp_path, "gpt2")]):
        said = refuse(capsys, [*words, *model])
        assert f"tokenizer.json is a file: name the folder that it is in, {tmp_path}" in said


def test_help_names_forms_and_leaves_out_what_text_always_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["text"], ["data", "check"], ["data", "make"]):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        said = capsys.readouterr().out
        assert ("--split NAME=N" if words[-1] == "make" else "--eval NAME=FILE") in said
        assert "(default: '')" not in said
        if words == ["text"]:
            assert "--schedule.cap" in said
            assert not any(f"--schedule.{name.replace('_', '-')}" in said for name in CONTROLS)
    offered = options_of(TextArguments)
    assert "--schedule.cap" in offered
    assert not any(f"--schedule.{name.replace('_', '-')}" in offered for name in CONTROLS)


def test_a_row_of_median_length_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"question": f"{n} ?", "steps": ["7 0"] * n, "answer": "1"} for n in (1, 5, 3, 4, 2)]
    found = check(capsys, write_rows(rows, tmp_path / "rows.jsonl"), "--tokenizer", "characters")
    assert found["example"]["question"] == "3· ·?"
    assert found["example"]["chain"] == "7· ·0·⏎·7· ·0·⏎·7· ·0"


def test_help_of_the_first_word(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["data", "--help"], ["help", "data"]):
        assert main(words) == 0
        said = capsys.readouterr().out.splitlines()
        assert [line.split()[:3] for line in said] == [
            ["internalize", "data", part] for part in ("check", "make")
        ]


# Make ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["addition:2", "--split", "train=50"], "split: 'train' is also the name of the file of --file"),
        (["addition:2", "--split", "test=50", "--split", "test=7"], "split: the name 'test' is there twice"),
        (["addition:2", "--split", "ood_longer=5", "--ood"],
         "split: 'ood_longer' is also the name of one that --ood writes"),
        (["addition:2", "--ood", "--out", "d/ood_digits.jsonl"],
         "file: ood_digits.jsonl is also the name of one that --ood writes"),
        (["reachability:8:3", "--ood"], "ood: reachability:8:3 has no problems out of distribution: more hops"),
        (["sums:3"], "problem: unknown problems 'sums:3'"),
    ],
)  # fmt: skip
def test_no_file_is_lost_without_a_word(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--out" not in words:
        words = [*words, "--out", "d/train.jsonl"]
    assert message in refuse(capsys, ["data", "make", *words, "--n", "60"])
    assert list(tmp_path.iterdir()) == []
