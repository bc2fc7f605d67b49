"""A checkpoint that is whole but makes no sense is refused in one line, whatever kind of run it is of.

Whoever hands on a folder can write any checkpoint with its checksum. Every alteration here restored once, and
then trained nonsense, never ended, or broke in the midst of a step.
"""

from __future__ import annotations

import math
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from internalize import Execution, HintsConfig, ParityConfig, Run, ScheduleConfig, SelfPlayConfig, TextConfig
from internalize import train as begin
from internalize.cli import main
from internalize.errors import Interrupted
from internalize.kinds.entrance import resume
from internalize.runs.checkpoint import METRICS, checkpoints, load_tensors, save_tensors
from internalize.runtime.restoration import SenselessCheckpoint
from tests.kinds.text.toys import parity_rows, shape_file
from tests.runtime.faults import CONFIG, Watcher, send

Alteration = Callable[[dict[str, Tensor], dict[str, Any]], None]
STEPS = {"chain": 31, "fixed": 31, "controller": 12, "hints": 20, "text": 12}
"""Where a run is asked to stop; the others are after their first step, which is a long one."""
FIRST_WEIGHTS = {"chain": "model/", "hints": "model.", "parity": "W", "selfplay": "weights", "text": "model/"}


def configs(folder: Path) -> dict[str, Any]:
    controller = ScheduleConfig(kind="controller", patience=40)
    data, model = parity_rows(folder), shape_file(folder, "gpt2")
    return {
        "chain": CONFIG,
        "fixed": replace(CONFIG, schedule=ScheduleConfig()),
        "controller": replace(CONFIG, schedule=controller),
        "hints": HintsConfig(d=6, k=2, width=8, steps=60, batch=4, log_every=7),
        "parity": ParityConfig(d=6, k=2, contrast=False),
        "selfplay": SelfPlayConfig(
            rounds=2, games=4, simulations=2, updates=2, measured=20, matches=2, width=8
        ),
        "text": TextConfig(data=data, model=model, tokenizer="words", iterations=24, batch=4, kernel="plain"),
    }


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run of that kind which was asked to stop in the midst of its training; read only."""
    place, made = tmp_path_factory.mktemp("stopped"), {}

    def make(kind: str) -> Path:
        if kind not in made:
            out = place / kind
            asked: list[int] = []

            class First(Watcher):
                def stepped(self, stage: Any) -> None:
                    if stage.step >= STEPS.get(kind, 1) and not asked:
                        asked.append(stage.step)
                        self.action()

            with pytest.raises(Interrupted):
                begin(configs(place)[kind], Execution(out=out), [First(0, send(signal.SIGTERM))])
            (made[kind],) = out.iterdir()
        return made[kind]

    return make


@pytest.fixture
def altered(stopped: Callable[[str], Path], tmp_path: Path) -> Callable[[str, Alteration], Run]:
    """A copy of such a run, the newest checkpoint of which was altered, with a checksum that is right."""

    def make(kind: str, alter: Alteration) -> Run:
        folder = tmp_path / f"{kind}-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(stopped(kind), folder)
        path = checkpoints(folder / "checkpoints")[0]
        tensors, scalars = load_tensors(path)
        alter(tensors, scalars["state"])
        save_tensors(path, tensors, scalars)
        return Run.open(folder)

    return make


def assert_refused(run: Run, *words: str) -> None:
    """In one line that names the file, what is wrong, and the ways out; and nothing else has changed."""
    path = checkpoints(run.path / "checkpoints")[0]
    before = {file: file.read_bytes() for file in run.path.glob("*/*")}
    with pytest.raises(SenselessCheckpoint) as refusal:
        resume(run, Execution())
    said = str(refusal.value)
    assert said.startswith(f"{path} does not hold the state of such a run: ")
    assert said.endswith("--fresh to start over")
    assert [word for word in words if word not in said] == []
    assert {file: file.read_bytes() for file in run.path.glob("*/*")} == before
    assert run.status()["state"] == "interrupted"


def put(dotted: str, value: Any) -> Alteration:
    """A value in place of an entry of the saved scalars."""

    def alter(tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
        *way, last = dotted.split(".")
        for name in way:
            scalars = scalars[name]
        scalars[last] = value

    return alter


def put_tensor(name: str, change: Callable[[Tensor], Tensor]) -> Alteration:
    """name: of a tensor, or what it begins with."""

    def alter(tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
        found = name if name in tensors else next(other for other in tensors if other.startswith(name))
        tensors[found] = change(tensors[found])

    return alter


def add_tensor(tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
    tensors["random"] = torch.Generator().get_state()


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "nan": lambda tensor: tensor * math.nan,
    "infinite": lambda tensor: tensor + math.inf,
    "flat": lambda tensor: tensor.flatten()[:1].clone(),
    "other type": lambda tensor: tensor.to(torch.bfloat16),
}


@pytest.mark.parametrize("kind", FIRST_WEIGHTS)
def test_every_kind_refuses_what_no_run_saves(kind: str, altered: Callable[[str, Alteration], Run]) -> None:
    for change in CHANGES.values():
        assert_refused(altered(kind, put_tensor(FIRST_WEIGHTS[kind], change)))
    assert_refused(altered(kind, add_tensor), "random")
    assert_refused(altered(kind, put("random", [1, 2, 3])), "random")
    assert_refused(altered(kind, lambda tensors, scalars: scalars.clear()))
    rows = torch.frombuffer(bytearray(b'{"loss": 1}\n[]\n'), dtype=torch.uint8)
    assert_refused(altered(kind, put_tensor(METRICS, lambda _: rows)), "metrics.jsonl: line 2 is no row")
    run = altered(kind, lambda tensors, scalars: None)
    path = checkpoints(run.path / "checkpoints")[0]
    path.rename(path.with_name("000000999999.safetensors"))
    assert_refused(run, "the file's name says 999999")


PROGRESS: dict[str, list[Any]] = {
    "progress.iteration": [-1, 10**30, 32, 31.0, "31", None, True],
    "progress.stage": [0, -1, 99, 1.5, "1"],
    "progress.in_stage": [-5, 0, 10**12, "x"],
    "progress.stage_ended": [1, "yes", None],
    "progress.finished": [True, 0],
    "progress": [[], "x", {}, {"iteration": 31, "unknown": 1}],
    "optimizer.step": [-1, 2.5, 10**400, "x", None],
    "optimizer": [{}, []],
    "cost.operations": [-1, "x", 1.5],
    "cost.passed": [[[1, 10**30]], [[1]], 7, [[1, 1]] * 99],
    "cost.measured_at": [-2, "x"],
}
SCALARS: dict[str, dict[str, list[Any]]] = {
    "chain": {**PROGRESS, "kernel": ["fast", "x", 3], "control": [{"attempt": 1}]},
    "fixed": {"progress.stage": [1, 3], "progress.in_stage": [2], "progress.stage_ended": [True]},
    "controller": {
        "control.attempt": [0, "x"],
        "control.frontier": [0, 99],
        "control.best": [math.nan, -1.0, "x"],
        "control.best_at": [-1, 10**9],
        "control.passing_since": [10**9],
        "control.undone": [-1],
        "control.settled": [3],
        "control.gave_up": [None],
        "good.step": [-1, "x"],
    },
    "hints": {"step": [-1, 10**9, 20.0, "x", None], "losses": [-1, 10**9, 1.5, "x"]},
    "parity": {
        "phase": [0, 99, "1", 1.0],
        "step": [-1, 10**12, "x"],
        "phase_ended": [1, "yes"],
        "stalled": [None],
        "loss": [math.nan, "x", None],
        "cell_changes": [-1, "x"],
        "steps_of_phases": [[-1], ["x"], 3, [1] * 9],
    },
    "selfplay": {
        "round": [0, 99, "1"],
        "part": [-1, 99, 0.5],
        "counts": [[-1], [10**9], "x", []],
        "losses": [[], [math.nan, 0.0], ["x", 1.0]],
        "passes": [-1, "x"],
        "moves": [0, None],
        "optimizer.step": [-1, 10**6, "x"],
    },
    "text": {key: values for key, values in PROGRESS.items() if key != "progress.iteration"}
    | {"progress.iteration": [-1, 10**30, 13, "x"]},
}
CASES = [(kind, name) for kind, entries in SCALARS.items() for name in entries]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_entry_that_makes_no_sense(kind: str, name: str, altered: Callable[[str, Alteration], Run]) -> None:
    for value in SCALARS[kind][name]:
        assert_refused(altered(kind, put(name, value)))


TENSORS = [
    ("chain", "optimizer/exp_avg_sq"),
    ("chain", "averages/counts"),
    ("controller", "good/exp_avg_sq"),
    ("text", "optimizer/exp_avg_sq"),
    ("text", "averages/running"),
    ("selfplay", "optimizer/exp_avg_sq"),
    ("selfplay", "examples/outcome"),
    ("selfplay", "examples/policy"),
]


@pytest.mark.parametrize(("kind", "name"), TENSORS)
def test_a_tensor_of_another_meaning(kind: str, name: str, altered: Callable[[str, Alteration], Run]) -> None:
    """A mean of squares below zero, counts below zero, probabilities of -1."""
    assert_refused(altered(kind, put_tensor(name, lambda tensor: -1 - tensor)), name.split("/")[1])


@pytest.mark.parametrize("kind", SCALARS)
def test_one_that_makes_sense_goes_on(kind: str, altered: Callable[[str, Alteration], Run]) -> None:
    """Else all of this would be refused for nothing; and whoever deletes the bad one goes on from the other."""
    run = altered(kind, lambda tensors, scalars: None)
    older = checkpoints(run.path / "checkpoints")[1]
    bad = older.with_name("000000999999.safetensors")
    shutil.copy(checkpoints(run.path / "checkpoints")[0], bad)
    assert_refused(run, "999999")
    bad.unlink()
    assert resume(run, Execution()).status()["state"] == "done"


def test_the_command_says_one_line(
    altered: Callable[[str, Alteration], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    run = altered("chain", put("progress.stage", 99))
    assert main(["resume", str(run.path), "--quiet"]) == 1
    line = capsys.readouterr().err
    assert line.startswith(f"internalize: the run failed: {run.path}/checkpoints/000000000031.safetensors ")
    assert "progress.stage: must be 1 … 3, a whole number; got 99" in line
    assert line.count("\n") == 1
