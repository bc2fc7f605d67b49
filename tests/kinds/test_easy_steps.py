"""Steps made easy when a stage begins: what changes in the inputs, what never does, and for how long."""

from __future__ import annotations

import pytest
import torch

from internalize.curricula import find_curriculum
from internalize.curricula.controller import Control
from internalize.curricula.schedule import Progress
from internalize.errors import BadInput
from internalize.kinds.chain.config import ChainConfig, OptimizerConfig
from internalize.kinds.chain.data import EasySteps, easy_share, easy_symbols, keeping_symbols
from internalize.tasks.inputs import Split, parse_inputs
from internalize.tasks.names import parse_task
from internalize.tasks.semiautomaton import semiautomaton

HORIZON, BATCH = 9, 64
TOGGLE = semiautomaton("toggle", [[1, 2], [1, 0], [0, 1]])
"""Only state 1 is kept by a symbol (0)."""


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_keeping_symbols_by_hand() -> None:
    assert keeping_symbols(parse_task("C5")).tolist() == [0] * 5
    assert keeping_symbols(TOGGLE).tolist() == [-1, 0, -1]


@pytest.mark.parametrize(
    ("method", "places"),
    [
        ("left", [[1], [2], [3], [4], [5]]),  # q_1 goes at stage 2: σ_2, the symbol after it
        ("right", [[5], [3], [2], [1], [0]]),  # q_5 goes: σ_6; then q_4: σ_4, the symbol before it
        ("inductive", [[1, 3, 5], [2, 4], [3], [4], [5]]),
        ("geometric", [[1], [2, 3], [4, 5]]),
    ],
)
def test_symbols_that_are_made_easy_by_hand(method: str, places: list[list[int]]) -> None:
    curriculum = find_curriculum(method, 6, {})[0]
    assert [easy_symbols(curriculum, stage) for stage in range(2, curriculum.stages + 1)] == places


def test_a_stage_of_right_begins_with_the_step_that_it_knows() -> None:
    """The last state shown before q_T and the symbols that the stage before leapt over give q_T. At stage 2
    both neighbours of the hidden state are shown: there it is the symbol after it that is easy."""
    task = parse_task("C7")
    curriculum = find_curriculum("right", HORIZON, {})[0]
    symbols = parse_inputs("uniform", 7).sample((BATCH, HORIZON), generator())
    for stage in range(3, HORIZON + 1):
        easy = EasySteps(task, curriculum, 0, None)
        eased, traced = easy(symbols, task.trace(symbols, 0), stage, 1.0, generator())
        leapt = eased[:, HORIZON - stage + 1 :]  # the stage before showed q_{T-t+1}, and then q_T
        assert torch.equal((traced[:, HORIZON - stage] + leapt.sum(1)) % 7, traced[:, HORIZON])


@pytest.mark.parametrize("method", ["left", "right", "inductive", "geometric"])
@pytest.mark.parametrize("name", ["C3", "S3"])
def test_the_steps_beside_what_was_taken_away_keep_the_state(name: str, method: str) -> None:
    task = parse_task(name)
    curriculum = find_curriculum(method, HORIZON, {})[0]
    symbols = parse_inputs("uniform", task.symbols).sample((BATCH, HORIZON), generator())
    states = task.trace(symbols, 0)
    for stage in range(2, curriculum.stages + 1):
        places = easy_symbols(curriculum, stage)
        easy = EasySteps(task, curriculum, 0, None)
        eased, traced = easy(symbols, states, stage, 1.0, generator())
        assert torch.equal(traced, task.trace(eased, 0))
        for place in places:
            assert torch.equal(traced[:, place + 1], traced[:, place])
        others = [t for t in range(HORIZON) if t not in places]
        assert torch.equal(eased[:, others], symbols[:, others])
        some, _ = easy(symbols, states, stage, 0.5, generator())
        changed = (some != symbols).any(1)
        assert not places or 0 < changed.sum() < (eased != symbols).any(1).sum()
        assert torch.equal(some[changed], eased[changed])


def test_a_state_that_every_symbol_moves_is_left() -> None:
    curriculum = find_curriculum("left", HORIZON, {})[0]
    symbols = parse_inputs("uniform", 2).sample((BATCH, HORIZON), generator())
    states = TOGGLE.trace(symbols, 0)
    eased, _ = EasySteps(TOGGLE, curriculum, 0, None)(symbols, states, 5, 1.0, generator())
    in_1 = states[:, 4] == 1
    assert (eased[in_1, 4] == 0).all()
    assert torch.equal(eased[~in_1], symbols[~in_1])


def test_held_out_inputs_are_never_made() -> None:
    task, split = parse_task("C2"), Split(0.3, 7)
    curriculum = find_curriculum("left", HORIZON, {})[0]
    symbols = parse_inputs("uniform", 2).sample((2000, HORIZON), generator())
    symbols = symbols[~split.held_out(symbols)]
    states = task.trace(symbols, 0)
    eased, traced = EasySteps(task, curriculum, 0, split)(symbols, states, 3, 1.0, generator())
    assert not split.held_out(eased).any()
    assert split.held_out(EasySteps(task, curriculum, 0, None)(symbols, states, 3, 1.0, generator())[0]).any()
    assert torch.equal(traced, task.trace(eased, 0))


def test_the_share_by_hand() -> None:
    def share(in_stage: int, stage: int = 3, control: Control | None = None, ease: int | None = 100) -> float:
        return easy_share(ease, Progress(iteration=999, stage=stage, in_stage=in_stage), control)

    assert [share(0), share(25), share(100), share(500)] == [1.0, 0.75, 0.0, 0.0]
    assert share(0, stage=1) == share(0, ease=None) == 0.0
    assert share(100, control=Control(attempt=2, frontier=3)) == 0.5
    assert share(0, stage=2, control=Control(attempt=2, frontier=3)) == 0.0  # has passed


def test_nothing_to_ease_is_refused() -> None:
    with pytest.raises(BadInput, match="ease: must be left out with cot"):
        ChainConfig(method="cot", ease=100).check({})
    with pytest.raises(BadInput, match="ease: must be at least 1"):
        ChainConfig(method="left", ease=0).check({})


def test_the_learning_rate_rises_at_every_stage_and_cools_in_the_last() -> None:
    optimizer = OptimizerConfig(lr=8.0, warmup=4, cooling=10)
    assert [optimizer.lr_at(i, 0) for i in (0, 1, 3, 20)] == [2.0, 4.0, 8.0, 8.0]
    assert [optimizer.lr_at(i, i) for i in (10, 20, 30)] == [4.0, 2.0, 1.0]
    assert OptimizerConfig(lr=8.0).lr_at(0, 0) == 8.0
