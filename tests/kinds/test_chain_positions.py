"""States that keep their positions: the rows of the table move, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from internalize import ChainConfig, ModelConfig, ScheduleConfig
from internalize.curricula import Shown
from internalize.errors import BadInput
from internalize.kinds.chain.positions import moves, row_order
from internalize.runtime.streams import Streams

CPU = torch.device("cpu")
CONFIG = ChainConfig(
    task="C3",
    horizon=4,
    iterations=40,
    batch=16,
    model=ModelConfig(depth=2, width=16, heads=4, init_std=0.2),
    rehearsal=0.5,
    rehearse="all",
    keep_positions=True,
)


def test_orders_by_hand() -> None:
    """T = 4, six rows: row t-1 predicts q_t, row 4 EOS; row 5 is only there for answers that are too long."""
    assert row_order((1, 2, 3, 4), 4, 6) == [0, 1, 2, 3, 4, 5]
    assert row_order((3, 4), 4, 6) == [2, 3, 4, 0, 1, 5]
    assert row_order((2, 4), 4, 6) == [1, 3, 4, 0, 2, 5]  # inductive
    assert row_order((3,), 4, 6) == [2, 4, 0, 1, 3, 5]  # EOS is the same row, though q_4 never comes
    assert moves((1, 2, 3, 4), (3, 4), 4, 6) == [2, 3, 4, 0, 1, 5]
    assert moves((2, 3, 4), (3, 4), 4, 6) == [1, 2, 3, 4, 0, 5]


@pytest.mark.parametrize("method", ["left", "right", "inductive", "even", "geometric"])
def test_there_and_back_again(method: str) -> None:
    curriculum = replace(CONFIG, method=method).find_curriculum({})[0]
    formats = [curriculum.shown(stage) for stage in range(1, curriculum.stages + 1)]
    for one in formats:
        for other in formats:
            there, back = moves(one, other, 4, 6), moves(other, one, 4, 6)
            assert [there[at] for at in back] == list(range(6))


@pytest.mark.parametrize("stage", [2, 3, 4])
def test_a_rehearsed_step_gives_the_gradient_of_the_naive_computation(stage: int) -> None:
    """A batch of the whole chain, at a later stage; against autograd before any row was moved."""
    experiment, streams = CONFIG.build(CPU, {}), Streams(3, CPU)
    state = experiment.init(streams)
    assert state.positions is not None
    own, whole = experiment.curriculum.shown(stage), experiment.curriculum.shown(1)
    table = "transformer.wpe.weight"
    canonical = {name: p.detach().clone().requires_grad_() for name, p in state.model.named_parameters()}
    symbols, states = experiment.data(0, streams)
    tokens = experiment.renderer.sequence(symbols, states, whole)
    logits = functional_call(state.model, canonical, (tokens[:, :-1],), {"first": 4})[0]
    cross_entropy(logits.transpose(1, 2), tokens[:, 5:]).backward()

    state.positions.move_training(whole, own)
    moved = dict(state.model.named_parameters())[table]
    for place, t in enumerate(own):  # q_t is predicted by the row that predicted it in the whole chain
        assert torch.equal(moved[4 + place], canonical[table][4 + t - 1])
    state.positions.move_weights(own, whole)
    state.step(tokens, 5)
    state.positions.move_weights_back(own, whole)
    assert all(torch.equal(moved[4 + place], canonical[table][4 + t - 1]) for place, t in enumerate(own))
    order = [4 + row for row in row_order(own, 4, 6)]
    for name, parameter in state.model.named_parameters():
        naive = canonical[name].grad
        assert naive is not None
        expected = torch.cat([naive[:4], naive[order]]) if name == table else naive
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, expected, atol=1e-6), name


def test_the_whole_chain_can_be_asked_for_at_the_last_stage() -> None:
    """A model whose table is moved there and asked back gives the very answers of the model before."""
    experiment, streams = CONFIG.build(CPU, {}), Streams(5, CPU)
    state = experiment.init(streams)
    symbols, _ = experiment.data(0, streams)
    before = experiment.predictor(state, None).generate(symbols)
    assert state.positions is not None
    last: Shown = experiment.curriculum.shown(4)
    state.positions.move_training(experiment.curriculum.shown(1), last)
    state.progress = replace(state.progress, stage=4)
    asked = experiment.chain_predictor(state)
    assert asked is not None
    assert torch.equal(asked.generate(symbols), before)


def test_other_positions_are_refused() -> None:
    for model in (ModelConfig(positions="rotary"), ModelConfig(positions="none")):
        with pytest.raises(BadInput, match="keep-positions"):
            ChainConfig(model=model, keep_positions=True).check({})
    smooth = ScheduleConfig(kind="controller", smoothing=0.2)
    with pytest.raises(BadInput, match="smoothing"):
        ChainConfig(keep_positions=True, schedule=smooth).check({})
    ChainConfig(keep_positions=True, rehearsal=0.2, schedule=smooth).check({})
