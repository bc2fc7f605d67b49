"""Bad input: one clear line on the error stream, exit code 2, no traceback, and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch

from internalize import Run
from internalize.cli import COMMANDS, main
from internalize.tasks import names as commands

FILES = {
    "empty.json": "",
    "not.json": "transitions: yes",
    "hole.json": '{"transitions": [[0, 1], [0]]}',
    "null.json": '{"transitions": [[0, 1], [0, null]]}',
    "float.json": '{"transitions": [[0, 1], [0, 0.5]]}',
    "range.json": '{"transitions": [[0, 1], [0, 2]]}',
    "key.json": '{"transition": [[0]]}',
    "not.yaml": "a: [",
    "broken.py": "import not_there",
    "wrong.py": "three = 3\ndef fails(): raise KeyError('x')\nclass Bad:\n  def __init__(self, T): pass\n",
    "file": "",
    "folder/config.json": "{",
}

TRAIN = [
    ("--task Z5", "task: unknown task 'Z5'; known: C<n>, S<n>, A<n>, D<n>, flipflop<n>, Q8"),
    ("--task C1", "task: a counter C_n needs n ≥ 2, got 1"),
    ("--task C0", "got 0"),
    ("--task C-2", "got -2"),
    ("--task C2xC1", "needs n ≥ 2, got 1"),
    ("--task S9", "S_n is possible for n = 2 … 8, got 9"),
    ("--task S3:what", "generators must be"),
    ("--task nowhere.json", "task: there is no file nowhere.json"),
    ("--task empty.json", "task (empty.json): the file is empty"),
    ("--task not.json", "task (not.json): the file is not JSON"),
    ("--task huge.json", "task (huge.json): the file has 1,099,511,627,776 bytes, at most"),
    ("--task hole.json", "transitions[1]: must have 2 entries, got 1 (a hole)"),
    ("--task null.json", "transitions[1][1]: must be a whole number or the name of a state, got None"),
    ("--task float.json", "transitions[1][1]: must be a whole number or the name of a state, got 0.5"),
    ("--task range.json", "transitions[1][1]: must be a state in 0…1, got 2"),
    ("--task key.json", "unknown key 'transition' (did you mean 'transitions'?)"),
    ("--task not.yaml", "task (not.yaml): the file is not YAML"),
    ("--task broken:x", "task: cannot import 'broken': ModuleNotFoundError: No module named 'not_there'"),
    ("--task broken.py:x", "task: cannot import 'broken.py': ModuleNotFoundError"),
    ("--task nowhere:x", "task: cannot import 'nowhere': ModuleNotFoundError"),
    ("--task wrong:four", "module 'wrong' has no attribute 'four'"),
    ("--task wrong:threee", "module 'wrong' has no attribute 'threee' (did you mean 'three'?)"),
    ("laptop", "train: unknown: laptop (did you mean --preset laptop?)"),
    ("--method halves.py", "method: halves.py is a file: name the curriculum in it, as halves.py:Class"),
    ("--task wrong:three", "wrong:three is not a Semiautomaton but 3"),
    ("--task wrong:fails", "wrong:fails failed: KeyError: 'x'"),
    ("--method lefft", "method: unknown method 'lefft' (did you mean 'left'?); known: cot, e2e, left"),
    ("--method mixture:inductive", "a mixture of 'inductive' is not possible"),
    ("--method broken:X", "method: cannot import 'broken'"),
    ("--method wrong:three", "wrong:three(3) failed: TypeError: 'int' object is not callable"),
    ("--method wrong:Bad", "wrong:Bad must be a subclass of internalize.Curriculum"),
    ("--horizon 0", "horizon: must be at least 1, got 0"),
    ("--horizon -3", "horizon: must be at least 1, got -3"),
    ("--horizon three", "--horizon: must be a whole number, got 'three'"),
    ("--horizon", "--horizon: a value must follow"),
    ("--iterations 0", "iterations: must be at least 1, got 0"),
    ("--iterations 2", "iterations: must be at least the 3 stages of left, got 2"),
    ("--batch 0", "batch: must be at least 1, got 0"),
    ("--seed -1", "seed: must lie in 0 … 2^63-1, got -1"),
    ("--log-every 0", "log-every: must be at least 1"),
    ("--inputs gauss", "inputs: must be uniform, binomial:p or weights:w0,w1,…; got 'gauss'"),
    ("--inputs weights:1,2,3", "inputs: weights needs 2 numbers"),
    ("--ood-inputs binomial:1.2", "ood-inputs: binomial:p needs 0 ≤ p ≤ 1, got '1.2'"),
    ("--initial-state 2", "initial-state: must be a state in 0…1, got 2"),
    ("--init-from nowhere", "init-from: "),
    ("--init-from folder", "init-from: "),
    ("--init-from folder@1", "init-from: "),
    ("--model.heads 3", "model.heads: must divide model.width = 16, got 3"),
    ("--model.heads 0", "model.heads: must be at least 1, got 0"),
    ("--model.depth 0", "model.depth: must be at least 1, got 0"),
    ("--model.mlp many", "--model.mlp: must be a whole number, got 'many'"),
    ("--model.heads 16 --model.positions rotary", "model.positions: rotary needs heads of even size"),
    ("--model.positions sinus", "--model.positions: must be one of 'absolute', 'none', 'rotary', got 'sinus'"),
    ("--optimizer.lr 0", "optimizer.lr: must be more than 0"),
    ("--optimizer.lr fast", "--optimizer.lr: must be a number, got 'fast'"),
    ("--optimizer.betas 0.9 1.5", "optimizer.betas: must lie in [0, 1), got (0.9, 1.5)"),
    ("--optimizer.betas 0.9 x", "--optimizer.betas: must be numbers, got '0.9', 'x'"),
    ("--schedule.cap 3", "schedule.cap: must be at least schedule.shortest = 100, got 3"),
    ("--schedule.cap 300", "schedule.cap: belongs to --schedule.kind adaptive"),
    ("--schedule.threshold -1", "schedule.threshold: must lie in"),
    ("--schedule.kind slow", "--schedule.kind: must be one of 'fixed', 'adaptive', 'controller', got 'slow'"),
    ("--evaluation.samples 0", "evaluation.samples: must be at least 1, got 0"),
    ("--evaluation.final-samples -5", "evaluation.final-samples: must be at least 1"),
    ("--config nowhere.yaml", "config: there is no file nowhere.yaml, and no run of that name"),
    ("--config not.yaml", "config (not.yaml): the file is not YAML"),
    ("--config key.json", "config (key.json): transition: unknown field"),
    ("--config key.json --preset laptop", "config"),
    ("--preset huge", "preset: must be one of paper, laptop; got 'huge'"),
    ("--device cuda", "device: cuda is not available here; there is"),
    ("--device tpu", "--device: must be one of 'auto', 'cpu', 'cuda', 'mps', got 'tpu'"),
    ("--threads 0", "threads: must be at least 1, got 0"),
    ("--checkpoint-minutes 0", "checkpoint-minutes: must be more than 0"),
    ("--horizn 3", "unknown: --horizn, 3 (did you mean --horizon?)"),
    ("C2", "train: unknown: C2"),
    ("--out file/x", "out: cannot write to file/x: "),
    ("--out file", "out: cannot write to file: "),
    ("--seeds 0", "seeds: must be at least 1, got 0"),
    ("--workers 3", "workers: belongs to --seeds: one run is one process"),
    ("--operations-limit inf", "operations-limit: must be finite, got inf"),
    ("--held-out 1e-320", "held-out: of "),
    ("--seeds 2 --workers 0", "workers: must be at least 1, got 0"),
    ("--seeds 2 --task Z5 --quiet", "task: unknown task 'Z5'"),
]  # fmt: skip

OTHERS = [
    ("trian", "command: unknown command 'trian' (did you mean 'train'?)"),
    ("evaluate", "evaluate: RUN is missing: The run: its folder, a unique part of its name"),
    ("runs latest", "runs: no command 'latest'; for one run: internalize runs show latest; there are show"),
    ("runs shwo", "runs: no command 'shwo' (did you mean 'show'?); there are show, compare"),
    ("runs", "out: there is no folder runs, so there are no runs yet; for a first one: internalize train"),
    ("data", "command: no command 'data'; there are data check and data make"),
    ("data chek x", "command: no command 'data chek' (did you mean 'data check'?); there are data check and"),
    ("help trian", "command: unknown command 'trian' (did you mean 'train'?); internalize --help lists all"),
    ("completion tcsh", "must be one of 'bash', 'zsh', 'fish', got 'tcsh'"),
    ("examples file", "folder: file is a file: name a folder"),
    ("evaluate nowhere", "run: nowhere is not a run folder"),
    ("evaluate file", "run: file is not a run folder"),
    ("evaluate folder", "run: folder/config.json cannot be read"),
    ("evaluate {run} --samples 0", "samples: must be at least 1, got 0"),
    ("evaluate {run} --samples many", "--samples: must be a whole number, got 'many'"),
    ("evaluate {run} --inputs gauss", "inputs: must be uniform"),
    ("evaluate {run}@3 --stage 2", "stage: is said twice: "),
    ("evaluate {run}@9", "kept are the stages [1, 2, 3, 4], not 9"),
    ("evaluate {run} --stage 9", "kept are the stages [1, 2, 3, 4], not 9"),
    ("evaluate {run} --budget 1", "budget: must lie in 2…5"),
    ("evaluate {run} --budget 6", "budget: must lie in 2…5"),
    ("evaluate {run} --budget -3", "budget: must lie in 2…5"),
    ("evaluate {run} --seed x", "--seed: must be a whole number"),
    ("evaluate {run} --seed -1", "seed: must lie in 0 … 2^63-1, got -1"),
    ("evaluate {run} --samples 100000000000", "samples: 100,000,000,000 sequences of 4 symbols would need "),
    ("show {run} --examples 100000000000", "examples: 100,000,000,000 sequences of 4 symbols would need "),
    ("check {run} --against {run}@1 --seed -1", "seed: must lie in"),
    ("matrix {run} --seed 9223372036854775808", "seed: must be less than 2^63, got a number of 64 bits"),
    ("probe {run} --seed -1", "seed: must lie in"),
    ("construct --seed -1", "seed: must lie in"),
    ("show {run} --examples 0", "examples: must be at least 1, got 0"),
    ("show {run} --inputs weights:1", "inputs: weights needs 2 numbers"),
    ("show nowhere", "run: nowhere is not a run folder"),
    ("show abc", "run: abc is not a run folder, nor a part of a name in runs, which has no runs; where runs "
                 "are elsewhere, the environment variable INTERNALIZE_RUNS says so"),
    ("show latest", "run: there is no run in runs yet, so none is the latest"),
    ("resume nowhere", "run: nowhere is not a run folder"),
    ("resume {run} --fresh", "fresh: belongs to train"),
    ("tasks Z5", "task: unknown task 'Z5'"),
    ("tasks key", "task: unknown task 'key' (did you mean 'key.json'?); known: C<n>"),
    ("tasks keys.json", "task: there is no file keys.json (did you mean 'key.json'?)"),
    ("check some-run", "check: --against is missing: The slow one"),
    ("runs compare a b --out sweep", "unknown: --out, sweep (name runs elsewhere by their path"),
    ("ask some-run", "ask: INPUT is missing: internalize ask RUN"),
    ("tasks float.json", "transitions[1][1]: must be a whole number"),
    ("tasks --draw", "task: say which task"),
    ("tasks C3 --draw --out file/x", "out: cannot write to file/x: "),
    ("tasks C3 --draw --out /proc/x", "out: cannot write to /proc/x: "),
    ("construct --order 2 --horizon 2 --draw --out /proc/x", "out: cannot write to /proc/x: "),
    ("race --methods ,", "methods: must name at least one"),
    ("race --operations inf", "operations: must be more than 0 and finite, got inf"),
    ("construct --order 0", "order"),
    ("demo --out file/x", "out: cannot write to file/x: "),
    ("demo --out /proc/x", "out: cannot write to /proc/x: "),
]  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder full of mistakes, and the user in it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(2**40)  # sparse: takes no room
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listing(folder: Path) -> set[str]:
    return {path.as_posix() for path in folder.rglob("*") if "__pycache__" not in path.parts}


def refuses(words: list[str], expected: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(here)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("internalize: ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    assert expected in captured.err
    assert "Traceback" not in captured.err
    assert listing(here) == before


@pytest.mark.parametrize(("words", "expected"), TRAIN, ids=[words for words, _ in TRAIN])
def test_train_refuses(words: str, expected: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "train --horizon 3 --iterations 6 --model.depth 1 --model.width 16 --model.heads 8 --out runs"
    refuses([*small.split(), *words.split()], expected, here, capsys)


@pytest.mark.parametrize(("words", "expected"), OTHERS, ids=[words for words, _ in OTHERS])
def test_other_commands_refuse(
    words: str, expected: str, here: Path, internalized: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    refuses(words.format(run=internalized.path).split(), expected, here, capsys)


def run_command(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, "-m", "internalize.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_wrong_flags_are_told_in_one_line_on_every_terminal(here: Path, encoding: str) -> None:
    result = run_command("evaluate", "x", "--sampels", "3", folder=here, PYTHONIOENCODING=encoding)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "internalize: evaluate: unknown: --sampels, 3 (did you mean --samples?)\n"


def test_a_refusal_in_a_process_of_its_own(here: Path) -> None:
    result = run_command("train", "--task", "hole.json", "--out", "runs", folder=here)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "internalize: task (hole.json): transitions[1]: must have 2 entries, got 1 (a hole)\n"
    )
    assert not (here / "runs").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert f"usage: internalize {command}" in capsys.readouterr().out
    main(["--help"])
    assert f"  {command} " in capsys.readouterr().out


def test_results_are_one_json_object_last(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "--horizon 3 --iterations 9 --model.depth 1 --model.width 16 --model.heads 8 --batch 8"
    measured = "--evaluation.samples 10 --evaluation.final-samples 20 --out runs --json"
    assert main(["train", *small.split(), *measured.split()]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    wanted = "run id_accuracy ood_accuracy response_length internalized iterations seconds"
    assert set(result) >= set(wanted.split())
    assert result["iterations"] == 9
    assert "parameters; about" in captured.err
    assert main(["train", *small.split(), *measured.split(), "--quiet"]) == 0  # finished already
    captured = capsys.readouterr()
    assert json.loads(captured.out) == result
    assert captured.err == ""
    assert main(["evaluate", result["run"], "--samples", "20", "--inputs", "binomial:0.8", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"accuracy", "interval", "response_length"}


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (lambda: torch.empty(10**15), "not enough memory for 4000000000000000 bytes more; a smaller batch"),
        (lambda: torch.empty(2**62, 2**10), "not enough memory; a smaller batch"),
        (lambda: numpy.empty(10**15), "not enough memory for 7.11 PiB more; a smaller batch"),
        (lambda: bytes(10**15), "not enough memory; a smaller batch"),
    ],
)
def test_memory_that_is_not_there_takes_one_line(
    problem: Callable[[], object],
    words: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "parse_task", lambda name: problem())
    assert main(["tasks", "C3"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"internalize: {words}")
    assert captured.err.count("\n") == 1


def test_other_mistakes_keep_their_traceback(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(name: str) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(commands, "parse_task", mistaken)
    with pytest.raises(RuntimeError, match="mat1"):
        main(["tasks", "C3"])


def test_names_that_look_like_markup_are_printed_as_they_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = {
        "transitions": [[0, 1], [1, 0]],
        "states": ["[red]", "[/b]"],
        "symbols": ["[a]", "b"],
        "name": "[x]",
    }
    (here / "odd.json").write_text(json.dumps(task))
    assert main(["tasks", "odd.json"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("[red]", "[/b]", "[a]", "[x]"))
