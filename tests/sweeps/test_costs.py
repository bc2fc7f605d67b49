"""Counted operations against a walk through every step, and the plan against arithmetic by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, train
from internalize.cli import main
from internalize.curricula import Progress
from internalize.curricula.schedule import begin_step, end_step
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.forecast import measured_answers
from internalize.kinds.chain.kind import ChainKind
from internalize.measure import cost
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared
from internalize.sweeps import sweep_of
from internalize.sweeps.plan import Gpu, expected_seconds, plan
from tests.entering import forecast_of
from tests.sweeps.tiny import tiny_sweep, write_sweep

CONFIG = ChainConfig(
    task="C3",
    horizon=4,
    method="left",
    iterations=23,
    batch=5,
    model=ModelConfig(depth=2, width=8, heads=2),
    evaluation=EvaluationConfig(every=7, samples=3, final_samples=11),
)


def test_a_run_is_the_sum_of_its_steps() -> None:
    experiment = ChainExperiment(CONFIG, torch.device("cpu"), {})
    size, prompt = experiment.renderer.vocabulary.size, experiment.renderer.prompt_length()
    progress, flops = Progress(), 0
    while not progress.finished:
        progress = begin_step(progress)
        answer = len(experiment.curriculum.shown(progress.stage)) + 1
        flops += cost.training_flops(CONFIG.model, size, CONFIG.batch, prompt, answer)
        progress = end_step(CONFIG.schedule, progress, CONFIG.iterations, experiment.curriculum.stages, None)
    assert forecast_of(CONFIG).training_flops == flops


@pytest.mark.parametrize(("iterations", "every", "horizon"), [(23, 7, 4), (20, 5, 4), (24, 16, 3), (30, 31, 3)])
def test_every_measurement_of_a_real_run_is_counted(
    iterations: int, every: int, horizon: int, tmp_path: Path
) -> None:
    evaluation = EvaluationConfig(every=every, samples=3, final_samples=11)
    config = replace(CONFIG, iterations=iterations, horizon=horizon, evaluation=evaluation)
    run = train(config, Execution(out=tmp_path))
    rows = [row for row in run.metrics() if row["event"] == "evaluation"]
    answers = 2 * (3 * len(rows) + 11)  # in distribution and out of it, and once more at the end
    counted = list(measured_answers(ChainExperiment(config, torch.device("cpu"), {})))
    assert sum(asked.answers for asked in counted) == answers
    assert [asked.written for asked in counted] == list(range(horizon + 1, 1, -1))


@pytest.mark.parametrize(
    ("every", "horizon", "times"),
    [(70, 9, 23), (250, 4, 4), (None, 4, 12)],
    ids=["between", "at ends", "default"],
)
def test_measurements_that_fall_on_a_stage_end_are_one(every: int | None, horizon: int, times: int) -> None:
    """1,000 iterations in `horizon` stages; the last is the paper's setting in small, every 100 iterations."""
    config = ChainConfig(horizon=horizon, iterations=1_000, evaluation=EvaluationConfig(every, 1, 1))
    asked = measured_answers(ChainExperiment(config, torch.device("cpu"), {}))
    assert sum(each.answers for each in asked) == 2 * (times + 1)


def test_the_bytes_are_those_of_the_folder(tmp_path: Path) -> None:
    """But for headers and journals, which are small beside weights of any size."""
    config = ChainConfig("C3", 4, "left", 8, 0, ModelConfig(depth=1, width=128, heads=4), batch=2,
                         evaluation=EvaluationConfig(every=100, samples=2, final_samples=2))  # fmt: skip
    for keep in ("all", "none"):
        run = train(config, Execution(out=tmp_path / keep, keep_stages=keep))
        written = sum(path.stat().st_size for path in run.path.rglob("*.safetensors"))
        assert forecast_of(config, Execution(keep_stages=keep)).disk_bytes == pytest.approx(written, rel=0.05)


def test_hours_and_dollars_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs of 1, 2 and 3 hours of a GPU that does 1 TFLOP/s at half its peak; the longest bounds all."""
    hour = 3600e12
    sweep = sweep_of("by-hand", "chain", {}, grid={"batch": [1, 2, 3]})

    def forecast(self: ChainKind, prepared: Prepared, *_: object) -> Forecast:
        batch = prepared.config.batch
        return Forecast(0.75 * hour * batch, 0.25 * hour * batch, 10.0, batch)

    monkeypatch.setattr(ChainKind, "forecast", forecast)
    planned = plan(sweep, Gpu(2.0, 100.0, 80.0, 1.5), 0.5, (1, 2, 64))
    assert planned.gpu_hours == pytest.approx(6.0)
    assert planned.longest_hours == pytest.approx(3.0)
    assert (planned.disk_bytes, planned.memory_bytes, planned.fits) == (30.0, 3.0, True)
    assert not plan(sweep, Gpu(2.0, 100.0, 2.5e-9, 1.5), 0.5).fits  # 3 bytes do not go into two and a half
    found = [(on.gpus, on.hours, on.dollars) for on in planned.on]
    assert found == [pytest.approx(row) for row in ((1, 6.0, 9.0), (2, 3.0, 9.0), (64, 3.0, 288.0))]


def test_every_shape_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[ChainConfig] = []

    def one_second(run: Prepared, execution: Execution) -> float:
        measured.append(run.config)
        return 1.0

    monkeypatch.setattr("internalize.sweeps.plan._measured_seconds", one_second)
    cases = [case.prepared for case in tiny_sweep(seeds=3).cases]
    assert expected_seconds(cases, Execution()) == [1.0] * 6
    assert [config.method for config in measured] == ["inductive", "left"]


def test_the_commands_tell_without_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_sweep(tmp_path / "s.json")
    assert main(["sweep", str(file), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "4 runs of chain: 4 to do" in said
    assert "worker" in said
    assert main(["plan", str(file), str(file), "--json", "--utilisation", "0.5"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["stated"]["utilisation"] == 0.5
    assert [on["gpus"] for on in answer["sweeps"][0]["on"]] == [1, 8, 64]
    assert main(["plan", str(file), "--utilisation", "50"]) == 2
    assert list(tmp_path.iterdir()) == [file]
