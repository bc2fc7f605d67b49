"""The chain kind: what it trains on, when it moves on, and what it remembers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from internalize import ChainConfig, EvaluationConfig, ModelConfig, OptimizerConfig, ScheduleConfig
from internalize.curricula import Curriculum, Progress, Shown
from internalize.errors import BadInput
from internalize.kinds.chain.data import BULK, TrainingData
from internalize.kinds.chain.evaluation import modes
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.state import AnswerAverages, ChainState, saved_kernel
from internalize.models.path import AnswerStats
from internalize.runtime.kind import Streams, cpu
from internalize.tasks import parse_inputs, parse_task
from tests.conftest import SMALL

CPU = torch.device("cpu")
TINY = ChainConfig(
    task="C3",
    horizon=4,
    iterations=13,
    batch=8,
    model=ModelConfig(depth=1, width=8, heads=4),
    evaluation=EvaluationConfig(samples=10, final_samples=20),
    kernel="plain",
)


def start(config: ChainConfig) -> tuple[ChainExperiment, ChainState, Streams]:
    experiment, streams = config.build(CPU, {}), Streams(config.seed)
    return experiment, experiment.init(streams), streams


class Recorder:
    """Stands in for a training step: keeps the tokens, reports what it is told."""

    def __init__(self, loss: float = 1.0) -> None:
        self.seen: list[Tensor] = []
        self.loss = loss

    def __call__(
        self, tokens: Tensor, prompt: int, drops: torch.Generator | None = None, emphasis: float = 1.0
    ) -> AnswerStats:
        self.seen.append(tokens)
        answer = tokens.shape[1] - prompt
        return AnswerStats(torch.full((answer,), self.loss), torch.full((answer,), 0.5))


def train_recorded(
    config: ChainConfig, loss: float = 1.0
) -> tuple[ChainExperiment, ChainState, list[list[str]]]:
    """All batches of a training, as text."""
    experiment, state, streams = start(config)
    recorder = Recorder(loss)
    state.step = recorder
    while not experiment.done(state):
        state, _ = experiment.advance(state, streams)
    return experiment, state, [experiment.renderer.text(tokens) for tokens in recorder.seen]


def states_of(line: str) -> list[int]:
    """All true states q_0 … q_T of a rendered sequence, by a sum of its symbols modulo 3."""
    symbols = [int(word[2:]) for word in line.split() if word.startswith("x:")]
    return [sum(symbols[:t]) % 3 for t in range(5)]


def test_every_iteration_trains_on_fresh_sequences_of_its_stage() -> None:
    """13 iterations of 4 stages: 3, 3, 3 and 4."""
    shown = [(1, 2, 3, 4)] * 3 + [(2, 3, 4)] * 3 + [(3, 4)] * 3 + [(4,)] * 4
    _, _, batches = train_recorded(TINY)
    assert len(batches) == 13
    for lines, indexes in zip(batches, shown, strict=True):
        for line in lines:
            answer = [f"q:{states_of(line)[t]}" for t in (0, *indexes)]
            assert line.split()[4:] == [*answer, "EOS"]
    inputs = [line.split(" q:")[0] for lines in batches for line in lines]
    assert len(set(inputs)) > 50  # of 81 possible ones, in 104 draws


def test_filler_stands_where_states_were() -> None:
    """Each state that is still shown keeps its place, and the answer alone is scored."""
    experiment, state, batches = train_recorded(replace(TINY, method="filler:left"))
    for number, lines in enumerate(batches):
        hidden = min(number // 3, 3)
        for line in lines:
            pauses, states = ["PAUSE"] * hidden, [f"q:{q}" for q in states_of(line)]
            assert line.split()[4:] == [states[0], *pauses, *states[1 + hidden :], "EOS"]
    asked = modes(experiment.curriculum, state.progress.stage)
    assert [(mode.budget, mode.shown) for mode in asked] == [(2, (4,)), (5, (1, 2, 3, 4))]
    for wrong, why in (
        (replace(TINY, method="filler:left", keep_positions=True), "keep-positions: must be left out: behind"),
        (replace(TINY, method="filler:left", length_token=True), "length-token: must be left out: pauses"),
    ):
        with pytest.raises(BadInput, match=why):
            wrong.check({})


def test_a_mixture_draws_one_format_for_a_whole_batch() -> None:
    config = replace(TINY, method="mixture", iterations=400)
    experiment, _, batches = train_recorded(config)
    counts: Counter[str] = Counter()
    for lines in batches:
        lengths = {line.split()[5] for line in lines}
        assert len(lengths) == 1
        length = int(lengths.pop().removeprefix("LEN_"))
        counts[f"LEN_{length}"] += 1
        for line in lines:
            assert line.split()[6:] == [*(f"q:{q}" for q in states_of(line)[6 - length :]), "EOS"]
    assert set(counts) == {"LEN_2", "LEN_3", "LEN_4", "LEN_5"}
    assert all(abs(count - 100) < 40 for count in counts.values())  # uniform: 100 ± 9
    at_seven = [experiment.shown_at(Progress(iteration=7), Streams(0)) for _ in range(3)]
    assert len(set(at_seven)) == 1  # a function of the iteration


@pytest.mark.parametrize(
    ("reset", "steps"), [(True, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4]), (False, range(1, 14))]
)
def test_the_optimizer_forgets_at_stage_ends_if_it_should(reset: bool, steps: Any) -> None:
    experiment, state, streams = start(replace(TINY, optimizer=OptimizerConfig(reset=reset)))
    seen = []
    while not experiment.done(state):
        state, _ = experiment.advance(state, streams)
        seen.append(state.optimizer.scalars()["step"])
    assert seen == list(steps)


def test_an_adaptive_training_moves_on_by_its_running_loss() -> None:
    adaptive = ScheduleConfig(kind="adaptive", shortest=10, stop_early=True)
    config = replace(TINY, iterations=100, schedule=adaptive)
    _, state, batches = train_recorded(config, loss=0.01)
    assert len(batches) == 40  # ten a stage, the soonest that the signal is looked at
    assert state.progress.stage == 4
    _, state, batches = train_recorded(config, loss=0.03)
    assert (len(batches), state.progress.stage) == (100, 1)


def test_running_averages_by_hand() -> None:
    averages = AnswerAverages(4, CPU)
    worst, mean = ScheduleConfig("adaptive"), ScheduleConfig("adaptive", judge="mean")
    accurate = ScheduleConfig("adaptive", signal="accuracy")
    for loss in ([1.0, 2.0, 6.0], [3.0, 2.0, 0.0]):
        averages.add(AnswerStats(torch.tensor(loss), torch.tensor(loss) / 10), memory=2)
    assert averages.signal(worst) == 3.0  # plain means so far: 2, 2, 3; the fourth position is not in use
    assert averages.signal(mean) == pytest.approx(7 / 3)
    assert averages.signal(accurate) == pytest.approx(0.2)
    averages.add(AnswerStats(torch.tensor([0.0, 0.0, 9.0]), torch.zeros(3)), memory=2)
    assert averages.signal(worst) == 6.0  # now exponential: 1, 1, 6
    assert averages.signal(mean) == pytest.approx(8 / 3)
    assert averages.read_window() == pytest.approx(
        {"loss": 23 / 9, "token_accuracy": 14 / 90, "worst_loss": 15 / 3}
    )
    averages.begin_stage()
    averages.add(AnswerStats(torch.tensor([0.5]), torch.ones(1)), memory=2)
    assert averages.signal(worst) == 0.5
    assert averages.read_window()["loss"] == 0.5


def test_training_data_is_a_function_of_the_iteration() -> None:
    def data() -> TrainingData:
        return TrainingData(parse_task("S3"), parse_inputs("uniform", 4), 5, 6, 2)

    iterations = [0, 1, BULK - 1, BULK, 3 * BULK + 2]
    one, other, streams = data(), data(), Streams(3)
    forwards = {i: one(i, streams) for i in iterations}
    for i in reversed(iterations):
        symbols, states = other(i, streams)
        assert torch.equal(symbols, forwards[i][0])
        assert torch.equal(states, parse_task("S3").trace(symbols, 2))
        assert torch.equal(states, forwards[i][1])
    assert len({tuple(symbols.flatten().tolist()) for symbols, _ in forwards.values()}) == len(iterations)
    assert not torch.equal(data()(0, Streams(4))[0], forwards[0][0])


@pytest.mark.parametrize(("dropout", "kernel"), [(None, "plain"), (0.1, "plain"), (0.1, "auto")])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(dropout: float | None, kernel: Any) -> None:
    config = replace(TINY, log_every=5, method="mixture", kernel=kernel)
    config = replace(config, model=replace(config.model, dropout=dropout))
    experiment, state, streams = start(config)
    assert state.kernel == ("plain" if kernel == "plain" else "fast")
    for _ in range(7):
        experiment.advance(state, streams)
    saved = {name: tensor.clone() for name, tensor in state.tensors().items()}
    scalars = json.loads(json.dumps(state.scalars()))
    again = config.build(CPU, {})
    restored = again.restore(saved, scalars)
    while not experiment.done(state):
        assert experiment.advance(state, streams)[1] == again.advance(restored, streams)[1]
    assert again.done(restored)
    assert state.scalars() == restored.scalars()
    for name, tensor in state.tensors().items():
        assert torch.equal(tensor, restored.tensors()[name]), name


def test_measuring_changes_nothing() -> None:
    experiment, state, streams = start(TINY)
    experiment.advance(state, streams)
    before = {name: tensor.clone() for name, tensor in state.tensors().items()}
    rows = [experiment.evaluate(state, streams) for _ in range(2)]
    assert rows[0] == rows[1]
    experiment.finish(state, streams)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.tensors().items())


def test_measurements_are_due_at_stage_ends_and_now_and_then() -> None:
    experiment, state, streams = start(replace(TINY, evaluation=replace(TINY.evaluation, every=5)))
    due = []
    while not experiment.done(state):
        experiment.advance(state, streams)
        if experiment.evaluation_due(state):
            due.append(state.progress.iteration)
    assert due == [3, 5, 6, 9, 10, 13]


def test_a_mixture_is_asked_for_both_its_answers() -> None:
    experiment, state, streams = start(replace(TINY, method="mixture"))
    summary = experiment.finish(state, streams).summary
    for name in ("id_accuracy", "ood_accuracy", "response_length", "forward_passes", "flops"):
        assert name in summary
        assert f"chain_{name}" in summary


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"initial_state": 3}, r"initial-state: must be a state in 0…2, got 3"),
        ({"initial_state": -1}, "initial-state: must be a state"),
        ({"iterations": 3}, "iterations: must be at least the 4 stages of left, got 3"),
        ({"inputs": "weights:1,2"}, "^inputs: weights needs 3 numbers"),
        ({"ood_inputs": "binomial:2"}, "^ood-inputs: binomial:p needs"),
        ({"init_from": "nowhere"}, "^init-from: .*nowhere"),
        ({"init_from": "nowhere@x"}, "^init-from: must end in a stage's number after @"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        replace(TINY, **fields).check({})


def test_the_fast_path_is_the_processor_s() -> None:
    """A run that began here goes on elsewhere with the plain path; who asks for the fast one there is told."""
    gpu, config = torch.device("cuda"), replace(SMALL, kernel="auto")
    assert saved_kernel("fast", config, gpu) == "plain"
    assert [saved_kernel(name, config, cpu()) for name in ("fast", "plain")] == ["fast", "plain"]
    experiment = ChainExperiment(replace(SMALL, kernel="fast"), cpu(), {})
    experiment.device = gpu
    with pytest.raises(
        BadInput, match="kernel: the fast path is the processor's: on cuda choose auto or plain"
    ):
        experiment._kernel()


def test_formats_are_drawn_by_their_shares() -> None:
    """Nine of ten draws are the format that has nine tenths; equal shares draw as they always did."""

    class Unequal(Curriculum):
        stages = 1

        def shown(self, stage: int) -> Shown:
            return (1, 2)

        def formats(self, stage: int) -> tuple[Shown, ...]:
            return (1, 2), (2,)

        def shares(self, stage: int) -> dict[Shown, float]:
            return {(1, 2): 0.9, (2,): 0.1}

    experiment = ChainExperiment(replace(SMALL, horizon=2), cpu(), {})
    experiment.curriculum = Unequal(2)
    drawn = Counter(experiment.shown_at(Progress(iteration=i), Streams(0)) for i in range(2_000))
    assert abs(drawn[(2,)] - 200) < 4 * 13.5, "four standard deviations"
