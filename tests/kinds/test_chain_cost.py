"""Rehearsal, controller and the cost of a run, on small trainings."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, Run, ScheduleConfig, train
from internalize.curricula.schedule import Progress
from internalize.errors import BadInput, Interrupted
from internalize.kinds.chain.config import OptimizerConfig
from internalize.measure import cost
from internalize.measure.ledger import Ledger, ledger_from_json
from internalize.runtime.kind import Streams
from tests.entering import forecast_of
from tests.runtime.faults import Watcher, results, send

CPU = torch.device("cpu")
CONFIG = ChainConfig(
    task="C3",
    horizon=3,
    iterations=700,
    batch=32,
    model=ModelConfig(depth=1, width=16, heads=4, init_std=0.1),
    optimizer=OptimizerConfig(lr=5e-3),
    schedule=ScheduleConfig(
        kind="controller",
        threshold=0.4,
        memory=5,
        shortest=20,
        dwell=10,
        patience=30,
        attempts=3,
        gentler_dwell=2.0,
        guard=0.0,
    ),
    evaluation=EvaluationConfig(every=100, samples=20, final_samples=40),
    log_every=7,
    kernel="plain",
    rehearsal=0.5,
    length_token=True,
)
"""Its second stage is lost: thirty iterations are too few to learn the sum of two symbols."""


KEEPING = replace(
    CONFIG,
    keep_positions=True,
    length_token=None,
    schedule=replace(CONFIG.schedule, patience=10, gentler_dwell=0.0, guard=0.5),
)
"""The same with positions that states keep, which tell the formats apart instead of the token."""


MUON = replace(KEEPING, optimizer=replace(CONFIG.optimizer, muon=True), emphasis=3.0)
"""Another optimizer with a state of its own, and a loss in which the new position counts for more."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(CONFIG, Execution(out=tmp_path_factory.mktemp("controlled")))


def rows_of(run: Run, event: str) -> list[dict[str, Any]]:
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["event"] == event]


def lost_steps(run: Run) -> list[int]:
    return [row["iteration"] for row in rows_of(run, "train") if row.get("lost")]


def test_the_story_is_in_the_rows(finished: Run) -> None:
    """Otherwise the tests of going back below would test nothing."""
    summary = finished.status()["summary"]
    lost = lost_steps(finished)
    assert len(lost) == summary["attempts_undone"] == 2
    assert summary["gave_up"] == "stage 2 of 3 was tried 3 times and did not learn"
    attempts = [(row["stage"], row["attempt"]) for row in rows_of(finished, "train")]
    assert list(dict.fromkeys(attempts)) == [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)]
    assert finished.stages() == [1]  # a stage that was given up is not kept as if it had ended


def test_operations_are_those_of_every_batch_that_was_trained(finished: Run) -> None:
    """Against a naive loop over the rows and the same draws of formats, with the cost model's formula."""
    experiment, summary = CONFIG.build(CPU, {}), finished.status()["summary"]
    rows, streams = rows_of(finished, "train"), Streams(CONFIG.seed, CPU)
    total = rehearsed = undone = since_begin = 0
    before: tuple[int, int] = (1, 1)
    for iteration in range(summary["iterations"]):
        row = next(row for row in rows if row["iteration"] > iteration)
        at = (row["stage"], row["attempt"])
        if at != before:
            undone += since_begin if at[1] > before[1] else 0
            since_begin, before = 0, at
        share = min(0.9, 0.5 + 0.15 * (row["attempt"] - 1))
        chance = float(torch.rand(2, generator=streams("format", iteration))[0])
        foreign = row["stage"] == 2 and chance < share
        states = 3 if row["stage"] == 1 or foreign else 2
        vocabulary = 3 + 3 + 1 + 3  # symbols, states, EOS, and LEN_2 … LEN_4
        flops = cost.training_flops(CONFIG.model, vocabulary, 32, prompt=3 + 1 + 1, answer=states + 1)
        assert flops == experiment.operations_of_step(states + 1)
        total += flops
        since_begin += flops
        rehearsed += flops if foreign else 0
        if row["iteration"] == iteration + 1:
            assert row["operations"] == total
    assert summary["operations"] == total
    assert summary["rehearsed_operations"] == rehearsed > 0
    assert summary["undone_operations"] == undone > 0
    assert summary["operations_to_internalize"] is None
    assert summary["operations_to_stages"][1:] == [None, None]
    passed = summary["iterations_to_stages"][0]
    again = [row for row in rows if row["stage"] == 1]
    assert (passed, summary["operations_to_stages"][0]) == (again[-1]["iteration"], again[-1]["operations"])


@pytest.mark.parametrize("config", [CONFIG, KEEPING, MUON], ids=["length token", "positions kept", "muon"])
def test_killed_around_a_rollback_it_comes_to_the_same_bytes(config: ChainConfig, tmp_path: Path) -> None:
    """Stopped right before a lost attempt is undone, right after, and in the midst of the next attempt."""
    whole = train(config, Execution(out=tmp_path / "whole"))
    lost = lost_steps(whole)[0]
    for at in (lost - 1, lost, lost + 1, lost + 5):
        with pytest.raises(Interrupted):
            train(config, Execution(out=tmp_path / "parts"), [Watcher(at, send(signal.SIGTERM))])
    train(config, Execution(out=tmp_path / "parts"))
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


def test_going_back_gives_the_very_weights_of_the_stage_before() -> None:
    experiment, streams = CONFIG.build(CPU, {}), Streams(CONFIG.seed, CPU)
    state = experiment.init(streams)
    kept: dict[str, torch.Tensor] = {}
    while state.control is None or not state.control.lost:
        if state.progress.stage_ended:
            kept = {name: tensor.clone() for name, tensor in state.weights().items()}
            moments = {name: tensor.clone() for name, tensor in state.optimizer.tensors().items()}
        experiment.advance(state, streams)
    changed = [name for name, tensor in state.weights().items() if not torch.equal(tensor, kept[name])]
    assert changed
    assert state.good is not None
    state.good.take_back(state.optimizer)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in state.weights().items())
    assert all(torch.equal(tensor, moments[name]) for name, tensor in state.optimizer.tensors().items())


def test_the_signal_is_of_the_stages_own_format_alone() -> None:
    """At every position, the running loss is what a naive average over the stage's own steps gives."""
    schedule = ScheduleConfig(kind="adaptive", memory=10_000, shortest=50, threshold=1.3)
    config = replace(CONFIG, schedule=schedule)
    experiment, streams = config.build(CPU, {}), Streams(0, CPU)
    state = experiment.init(streams)
    while state.progress.stage == 1 and not state.progress.finished:
        experiment.advance(state, streams)
    step, own, rehearsed = state.step, [], 0

    def watched(tokens: Any, prompt: int, drops: Any = None, emphasis: float = 1.0) -> Any:
        nonlocal rehearsed
        stats = step(tokens, prompt, drops, emphasis)
        if tokens.shape[1] - prompt == 3:  # q_2, q_3, EOS
            own.append(stats.loss)
        else:
            rehearsed += 1
        return stats

    state.averages.begin_stage()
    state.step = watched
    for _ in range(40):
        experiment.advance(state, streams)
    assert state.progress.stage == 2
    assert rehearsed > 10
    expected = torch.stack(own).mean(0)
    assert torch.allclose(state.averages.running[0, :3], expected, atol=1e-5)
    assert state.averages.running_counts.tolist() == [len(own)] * 3 + [0]


def test_smoothing_shows_the_next_stage_only_in_a_further_attempt() -> None:
    config = replace(CONFIG, horizon=4, schedule=replace(CONFIG.schedule, smoothing=0.25))
    experiment, streams = config.build(CPU, {}), Streams(1, CPU)
    control = experiment.init(streams).control
    assert control is not None

    def lengths(attempt: int) -> list[int]:
        manner = experiment.manner(replace(control, attempt=attempt, frontier=2))
        return [len(experiment.shown_at(Progress(i, 2), streams, manner)) for i in range(400)]

    first, second = lengths(1), lengths(2)
    assert set(first) == {4, 3}
    assert first.count(4) == pytest.approx(200, abs=40)
    assert second.count(2) == pytest.approx(100, abs=35)
    assert second.count(4) == pytest.approx(0.65 * 400, abs=40)


def test_smoothing_is_refused_where_it_would_do_nothing() -> None:
    schedule = replace(CONFIG.schedule, smoothing=0.25)
    for fields in ({"method": "filler:left", "length_token": None}, {"method": "inductive", "horizon": 5}):
        with pytest.raises(BadInput, match=r"schedule\.smoothing|length-token"):
            replace(CONFIG, schedule=schedule, **fields).check({})


def test_a_stage_must_have_time_to_learn_after_its_easy_steps() -> None:
    easy = replace(CONFIG, ease=10)  # three attempts, the last one eased for 30 iterations; patience 30
    with pytest.raises(BadInput, match=r"ease: 10 iterations are too many: schedule.patience \(30\)"):
        easy.check({})
    replace(easy, ease=9).check({})
    replace(easy, schedule=replace(CONFIG.schedule, patience=0)).check({})


@pytest.mark.parametrize("reach", ["previous", "all"])
def test_the_forecast_weighs_formats_by_how_often_they_are_drawn(reach: Literal["previous", "all"]) -> None:
    """Against the formats that steps really draw."""
    config = replace(
        CONFIG, horizon=6, iterations=6_000, rehearsal=0.2, rehearse=reach, schedule=ScheduleConfig()
    )
    experiment, streams = config.build(CPU, {}), Streams(0, CPU)
    drawn = sum(
        experiment.operations_of_step(len(experiment.shown_at(Progress(i, 1 + i // 1_000), streams)) + 1)
        for i in range(6_000)
    )
    assert forecast_of(config).training_flops == pytest.approx(drawn, rel=0.01)
    assert forecast_of(replace(config, operations_limit=1e6)).training_flops == 1e6


def test_without_eos_in_the_loss_its_position_is_not_counted() -> None:
    plain, states = (replace(CONFIG, length_token=None, rehearsal=None, scored=s) for s in (None, "states"))
    step, shorter = (config.build(CPU, {}).operations_of_step for config in (plain, states))
    assert shorter(4) == step(3)


# The event: a success that the next measurement confirms -------------------------------------------------


def after(measurements: list[tuple[bool, float]]) -> Ledger:
    """A hundred iterations of ten operations between two measurements (last stage?, direct accuracy)."""
    ledger = Ledger()
    for number, (last, accuracy) in enumerate(measurements, start=1):
        for _ in range(100):
            ledger = ledger.step(10, rehearsed=False)
        ledger = ledger.measured(100 * number, last, accuracy)
        assert ledger.measured(100 * number, last, accuracy) == ledger  # made again after a stop
    return ledger_from_json(json.loads(json.dumps(ledger.to_json())), stages=3)


@pytest.mark.parametrize(
    ("measurements", "confirmed", "iterations"),
    [
        ([(True, 0.97), (True, 0.96)], False, 100),
        ([(True, 0.97), (True, 0.94), (True, 0.99), (True, 0.99)], True, 300),
        ([(False, 0.99), (True, 0.5), (True, 0.95)], True, None),  # 95 % is not above 95 %
        ([(False, 0.99), (True, 0.99)], True, 200),  # the last measurement of all confirms it
        ([(False, 0.99), (True, 0.99)], False, None),
        ([(True, 0.97), (True, 0.98), (True, 0.2)], False, 100),  # what happens later is another matter
    ],
)
def test_when_it_was_internalized(
    measurements: list[tuple[bool, float]], confirmed: bool, iterations: int | None
) -> None:
    row = after(measurements).row(batch=8, stages=2, confirmed=confirmed)
    assert row["iterations_to_internalize"] == iterations
    assert row["operations_to_internalize"] == (None if iterations is None else 10 * iterations)
    assert row["samples_to_internalize"] == (None if iterations is None else 8 * iterations)


def test_the_new_position_counts_for_more_from_the_second_stage_on_and_not_in_rehearsal() -> None:
    experiment = MUON.build(torch.device("cpu"), {})
    shown = experiment.curriculum.shown
    assert [experiment._emphasis(stage, shown(stage)) for stage in (1, 2, 3)] == [1.0, 3.0, 3.0]
    assert experiment._emphasis(3, shown(2)) == 1.0
    for wrong, field in (
        (replace(CONFIG, method="e2e", rehearsal=None, emphasis=2.0), "emphasis: must be left out with e2e"),
        (replace(MUON, keep_positions=None, model=ModelConfig(network="x:y")), "optimizer.muon: needs"),
    ):
        with pytest.raises(BadInput, match=field):
            wrong.check({})
