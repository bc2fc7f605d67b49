"""The commands on text: every refusal is one line and writes nothing; a killed run gives the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from internalize import Execution, TextConfig, train, write_rows
from internalize.cli import main
from internalize.errors import Interrupted
from internalize.kinds.text.rendering import RemovalConfig
from tests.kinds.text.toys import SHAPES, parity_rows, shape_file
from tests.runtime.faults import Watcher, results, send

DRIVER = Path(__file__).with_name("kill_driver.py")
ROOT = Path(__file__).parents[3]


def words_of(folder: Path, **options: str) -> list[str]:
    rows = parity_rows(folder)
    fields = {"data": rows, "eval": f"id={rows}", "model": shape_file(folder, "gpt2"), "iterations": "9"}
    fields["tokenizer"] = "words"
    return ["text", *(word for name, value in (fields | options).items() for word in (f"--{name}", value))]


def refuse(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def bad_model(folder: Path, name: str) -> str:
    made = folder / name
    made.mkdir()
    (made / "config.json").write_text(json.dumps(SHAPES["gpt2"] | {"vocab_size": 20, "n_positions": 32}))
    if name == "pickled":
        (made / "pytorch_model.bin").write_bytes(b"\x80")
    if name == "bare":
        save_file({"x": torch.zeros(1)}, made / "model.safetensors")
    return str(made)


def test_refusals_are_one_line_and_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    bad = tmp_path / "bad.jsonl"
    bad.write_text(Path(parity_rows(tmp_path)).read_text() + '{"question": "x1", "steps": [], "answer": 3}\n')
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    strange = write_rows([{"question": "x7", "steps": [], "answer": "q1"}], tmp_path / "strange.jsonl")
    cases: list[tuple[dict[str, str], str]] = [
        ({"data": str(bad)}, r"data (bad.jsonl): line 9: the answer must be text, got 3"),
        ({"data": str(empty)}, "data (empty.jsonl): the file is empty"),
        ({"eval": f"ood={strange}"}, "eval ood (strange.jsonl), line 1: has 'x7', which no training row has"),
        ({"eval": "test.jsonl"}, "eval: must have the form NAME=FILE, got 'test.jsonl'"),
        ({"model": "gpt2"}, "model: there is no folder or config.json gpt2 here, and nothing is fetched"),
        ({"model": bad_model(tmp_path, "pickled")}, "pytorch_model.bin'], a pickle, not safetensors"),
        ({"model": bad_model(tmp_path, "bare"), "tokenizer": bad_model(tmp_path, "no-tokenizer")},
         "no-tokenizer has no tokenizer (none of tokenizer.json"),
        ({"model": shape_file(tmp_path, "llama", vocab_size=5)},
         "vocab_size is 5, but the tokenizer has 9 tokens"),
        ({"model": shape_file(tmp_path, "bloom", model_type="blum")}, "model: "),
        ({"model": shape_file(tmp_path, "gpt2", "short", n_positions=4)},
         "n_positions is 4, but the longest row with its answer needs 9"),
        ({"method": "mixture:even"}, "a mixture of 'even' is not possible"),
        ({"iterations": "1", "removal.per-stage": "1"}, "iterations: must be at least the 3 stages of left"),
        ({"lora.rank": "4"}, "lora.rank: needs "),
        ({"removal.positions": "kept", "boundary": "none"}, "removal.positions: cannot be kept"),
    ]  # fmt: skip
    for options, message in cases:
        assert message in refuse(capsys, [*words_of(tmp_path, **options), "--out", str(out), "--quiet"])
    no_tokenizer = words_of(tmp_path)[:-2]
    assert "tokenizer: a config.json has none" in refuse(capsys, [*no_tokenizer, "--out", str(out)])
    assert "data: is missing" in refuse(capsys, ["text", "--out", str(out)])
    assert not out.exists()


def test_data_made_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m" / "train.jsonl"
    make = ["data", "make", "multiplication:2x2", "--n", "300", "--split", "test=40", "--ood", "--json"]
    assert main([*make, "--out", str(out)]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {Path(name).name: count for name, count in files.items()} == {
        "test.jsonl": 40, "train.jsonl": 300, "ood_longer.jsonl": 1000, "ood_digits.jsonl": 1000,
    }  # fmt: skip
    check = ["data", "check", str(out), "--tokenizer", "words", "--json"]
    assert main([*check, "--eval", f"id={out.with_name('test.jsonl')}", "--removal.per-stage", "4"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 300
    assert report["tokens"]["chain"] == {"median": 8.0, "p99": 8.0, "longest": 8.0}
    assert [stage["stage"] for stage in report["stages"]] == ["1 of 3", "2 of 3", "3 of 3"]
    assert report["stages"][2]["writes"].startswith("<|answer|>·")
    assert report["warnings"] == []
    assert main([*check, "--eval", f"id={out}", "--eval", f"again={out}"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == [
        f"300 of 300 questions of '{name}' occur in training" for name in ("id", "again")
    ]
    assert "unknown problems" in refuse(capsys, ["data", "make", "sums:3"])


def test_warnings_of_what_to_beware_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Merged digits, boundaries inside a token, long tails, and test questions that were trained on."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    rows = [{"question": f"{i}+1", "steps": ["2", "12"], "answer": "12"} for i in range(100)]
    file = write_rows(rows, tmp_path / "rows.jsonl")
    test = write_rows(rows[:10], tmp_path / "test.jsonl")
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.train_from_iterator(["12\n12\n12 12\n"] * 9, trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))  # fmt: skip
    PreTrainedTokenizerFast(tokenizer_object=library).save_pretrained(tmp_path / "bpe")
    words = ["data", "check", file, "--model", shape_file(tmp_path, "gpt2"), "--eval", f"id={test}", "--json"]
    assert main([*words, "--tokenizer", str(tmp_path / "bpe")]) == 0
    warnings = "\n".join(json.loads(capsys.readouterr().out)["warnings"])
    assert "digits are merged into one token ('12'" in warnings
    assert "lies inside a token" in warnings
    assert "10 of 10 questions of 'id' occur in training" in warnings
    assert main([*words[:3], "--json"]) == 0
    tail = [*rows[:50], *({**row, "steps": ["12"] * 60} for row in rows[50:52])]
    assert main(["data", "check", write_rows(tail, tmp_path / "tail.jsonl"), "--json"]) == 0
    assert "very different lengths" in capsys.readouterr().out


def test_a_killed_run_gives_the_same_bytes(tmp_path: Path) -> None:
    """With dropout, smoothing and an adaptive schedule: everything that could hide a state."""
    words = [
        *words_of(tmp_path, iterations="40"), "--batch", "4", "--seed", "3", "--dropout", "0.2",
        "--removal.per-stage", "1", "--removal.smoothing", "1.0", "--optimizer.warmup", "5",
        "--schedule.kind", "adaptive", "--schedule.shortest", "10", "--schedule.cap", "14",
        "--evaluation.every", "17", "--evaluation.rows", "4", "--log-every", "7", "--quiet",
    ]  # fmt: skip
    kills: list[dict[str, Any]] = [
        {"steps": 7, "seconds": 0.0},
        {"point": "evaluate", "when": "after", "count": 1},
        {"point": "checkpoint", "when": "before", "count": 1, "after": "keep_stage"},
        {"point": "next_stage", "when": "after", "count": 1},
        {"steps": 11, "seconds": 0.005},
        {"point": "model", "when": "before", "count": 1},
    ]
    plan = [
        {"name": "undisturbed", "out": str(tmp_path / "whole"), "words": words, "kills": []},
        {"name": "killed", "out": str(tmp_path / "killed"), "words": words, "kills": kills},
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, str(DRIVER)], input=json.dumps(plan), text=True, capture_output=True, check=True,
        env=environment,
    )  # fmt: skip
    attempts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [attempt["code"] for attempt in attempts] == [0, *[-9] * len(kills), 0]
    assert results(tmp_path / "killed") == results(tmp_path / "whole")


def test_rows_of_a_list_are_trained_on_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in memory become a small file: what was begun in Python goes on from the command line."""
    monkeypatch.chdir(tmp_path)
    rows = [json.loads(line) for line in Path(parity_rows(tmp_path)).read_text().splitlines()]

    def config() -> TextConfig:
        data = write_rows(rows, "data/")
        return TextConfig(
            data=data, eval=(f"id={data}",), model=shape_file(tmp_path, "gpt2"), tokenizer="words",
            iterations=12, batch=4, removal=RemovalConfig(per_stage=1),
        )  # fmt: skip

    whole = train(config(), Execution(out=tmp_path / "whole"))
    assert train(config(), Execution(out=tmp_path / "whole")).path == whole.path  # the same rows, the same run
    with pytest.raises(Interrupted):
        train(config(), Execution(out=tmp_path / "runs"), [Watcher(5, send(signal.SIGTERM))])
    assert len(list((tmp_path / "data").iterdir())) == 1
    (begun,) = (tmp_path / "runs").iterdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["resume", str(begun), "--quiet"]) == 0
    assert results(tmp_path / "runs") == results(tmp_path / "whole")
