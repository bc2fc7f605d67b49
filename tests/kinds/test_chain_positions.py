"""States that keep their positions: the rows of the table move, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from internalize import ChainConfig, ModelConfig
from internalize.curricula import Curriculum, Shown
from internalize.errors import BadInput
from internalize.kinds.chain.state import direct_row, moves, row_order
from internalize.runtime.kind import Streams

CPU = torch.device("cpu")
CONFIG = ChainConfig(
    task="C3",
    horizon=4,
    iterations=40,
    batch=16,
    model=ModelConfig(depth=2, width=16, heads=4, init_std=0.2),
    rehearsal=0.5,
    keep_positions=True,
)
TABLE = "transformer.wpe.weight"
METHODS = ["left", "right", "inductive", "even", "geometric"]


def test_orders_by_hand() -> None:
    """T = 4, six rows: row t-1 predicts q_t, row 4 EOS; 0 and 5 take turns with the first state shown."""
    left = CONFIG.find_curriculum({})[0]
    assert [row_order(left, stage) for stage in (1, 2, 3, 4)] == [
        [0, 1, 2, 3, 4, 5],
        [5, 2, 3, 4, 0, 1],
        [0, 3, 4, 1, 2, 5],
        [5, 4, 0, 1, 2, 3],
    ]
    assert moves(left, 1, 2) == [5, 2, 3, 4, 0, 1]
    assert moves(left, 2, 3) == [4, 2, 3, 5, 1, 0]
    right = replace(CONFIG, method="right").find_curriculum({})[0]
    # q1q2q3q4, q1q2q4, q1q4, q4: the first state is the same one until the last stage
    assert [direct_row(right, stage) for stage in (1, 2, 3, 4)] == [0, 0, 0, 5]
    assert row_order(right, 3)[:3] == [0, 3, 4]


@pytest.mark.parametrize("method", METHODS)
def test_there_and_back_again(method: str) -> None:
    curriculum = replace(CONFIG, method=method).find_curriculum({})[0]
    stages = range(1, curriculum.stages + 1)
    for one in stages:
        for other in stages:
            there, back = moves(curriculum, one, other), moves(curriculum, other, one)
            assert [there[at] for at in back] == list(range(6))


@pytest.mark.parametrize(("method", "stage", "row"), [("left", 3, 5), ("left", 4, 0), ("right", 4, 3)])
def test_with_easy_steps_a_new_direct_row_begins_as_the_row_that_knows_the_answer(
    method: str, stage: int, row: int
) -> None:
    """left: the last direct row. right, whose last stage is its first with another direct row: that of q_T."""
    config = replace(CONFIG, method=method, rehearsal=None, ease=5)
    experiment = config.build(CPU, {})
    state = experiment.init(Streams(0))
    assert state.positions is not None
    for before in range(1, stage - 1):
        state.positions.begin_stage(before, before + 1)
    first = state.positions.first
    at = row_order(experiment.curriculum, stage - 1).index(row)
    wanted = state.model.weights()[TABLE][first + at].clone()
    state.positions.begin_stage(stage - 1, stage)
    assert torch.equal(state.model.weights()[TABLE][first], wanted)


@pytest.mark.parametrize("stage", [2, 3, 4])
def test_a_rehearsed_step_gives_the_gradient_of_the_naive_computation(stage: int) -> None:
    """A batch of the stage before; against autograd on the weights before any row was moved."""
    experiment, streams = CONFIG.build(CPU, {}), Streams(3, CPU)
    state = experiment.init(streams)
    assert state.positions is not None
    earlier = experiment.curriculum.shown(stage - 1)
    before = {name: p.detach().clone().requires_grad_() for name, p in state.model.named_parameters()}
    symbols, states = experiment.data(0, streams)
    tokens = experiment.renderer.sequence(symbols, states, earlier)
    logits = functional_call(state.model, before, (tokens[:, :-1],), {"first": 4})[0]
    cross_entropy(logits.transpose(1, 2), tokens[:, 5:]).backward()

    state.positions.begin_stage(stage - 1, stage)
    moved = dict(state.model.named_parameters())[TABLE].detach().clone()
    state.positions.move_weights(stage, stage - 1)
    state.step(tokens, 5)
    state.positions.move_weights_back(stage, stage - 1)
    order = [4 + at for at in moves(experiment.curriculum, stage - 1, stage)]
    for name, parameter in state.model.named_parameters():
        naive = before[name].grad
        assert naive is not None
        expected = torch.cat([naive[:4], naive[order]]) if name == TABLE else naive
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, expected, atol=1e-6), name
    assert torch.equal(dict(state.model.named_parameters())[TABLE], moved)


def test_what_each_place_begins_a_stage_with() -> None:
    """Places after the first: the row that predicted the same state before; the first: the sum of two."""
    experiment, streams = CONFIG.build(CPU, {}), Streams(5, CPU)
    state = experiment.init(streams)
    assert state.positions is not None
    table = dict(state.model.named_parameters())[TABLE]
    chain = table.detach()[4:].clone()  # stage 1: row t-1 predicts q_t
    direct = chain[0]
    for stage in (2, 3, 4):
        last = table.detach()[4].clone()
        assert torch.equal(last, direct)
        state.positions.begin_stage(stage - 1, stage)
        for place, t in enumerate(experiment.curriculum.shown(stage)[1:], start=1):
            assert torch.equal(table[4 + place], chain[t - 1])
        direct = last + chain[stage - 1] - chain[:4].mean(0)
        if stage == 3:
            chain[0] = direct  # rows 0 and 5 take turns: from here on row 0 is no longer what predicted q_1
        assert torch.allclose(table[4], direct, atol=1e-6)
        direct = table.detach()[4].clone()


class MixedInTheMiddle(Curriculum):
    """Its second stage also draws a format that is no stage's own."""

    stages = 3

    def shown(self, stage: int) -> Shown:
        return {1: (1, 2, 3, 4), 2: (2, 4), 3: (4,)}[stage]

    def formats(self, stage: int) -> tuple[Shown, ...]:
        return (self.shown(stage), *([(1, 2, 4)] if stage == 2 else []))


@pytest.mark.usefixtures("named_by_the_user")
def test_what_cannot_be_kept_is_refused() -> None:
    for wrong in (
        replace(CONFIG, horizon=4, rehearsal=None, method=f"{__name__}:MixedInTheMiddle"),
        replace(CONFIG, model=ModelConfig(positions="rotary")),
        replace(CONFIG, model=ModelConfig(positions="none")),
        replace(CONFIG, rehearse="all"),
        replace(CONFIG, rehearsal=None, method="mixture"),
    ):
        with pytest.raises(BadInput, match="keep-positions"):
            wrong.check({})
