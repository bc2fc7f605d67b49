"""The solver against naive minimax, and what is measured against enumeration."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')

from internalize.kinds.selfplay.evaluation import (
    Yardstick,
    internalization,
    lost_lines,
    match_score,
    rates,
    yardstick,
)
from internalize.kinds.selfplay.positions import Positions
from internalize.kinds.selfplay.search import Evaluations, Player, Rule
from internalize.kinds.selfplay.solver import Searcher, solve_all
from tests.kinds.selfplay.reference import minimax, random_network

THREE = "connect_four(rows=3,columns=3,x_in_row=3)"
BOXES = "dots_and_boxes(num_rows=1,num_cols=1)"
"""Whoever closes a box moves again; and its positions are histories."""


def complete(name: str) -> Positions:
    positions = Positions(name)
    assert positions.enumerate()
    return positions


@pytest.mark.parametrize("name", ["tic_tac_toe", THREE, BOXES])
def test_the_solver_is_minimax(name: str) -> None:
    positions = complete(name)
    known: dict[str, float] = {}
    values = solve_all(positions)
    for number in range(positions.count):
        assert values[number] == minimax(positions.state(number), known)
    if name == "tic_tac_toe":
        assert values[0] == 0.5


def test_the_searcher_of_large_games_agrees_with_the_solver_or_says_nothing() -> None:
    positions = complete(THREE)
    values = solve_all(positions)
    patient, hasty = Searcher(THREE, budget=100_000), Searcher(THREE, budget=1)
    for number in range(0, positions.count, 7):
        if positions.player[number] < 0:
            continue
        entries, _ = positions.entries(np.array([number]))
        after = values[positions.child[entries]]
        mine = after if positions.player[number] == 0 else 1 - after
        assert patient.move_values(positions.state(number)) == mine.tolist()
    assert hasty.move_values(positions.state(0)) is None


def test_small_connect_four_is_a_draw() -> None:
    """Known: with 4 rows and 4 columns neither side can force a win."""
    positions = complete("connect_four(rows=4,columns=4)")
    assert positions.count == 161_029
    assert solve_all(positions)[0] == 0.5


def test_the_yardstick_holds_the_positions_where_a_choice_matters() -> None:
    positions = complete("tic_tac_toe")
    known: dict[str, float] = {}
    found = yardstick(positions, 10, np.random.default_rng(0))
    optimal = dict(zip(found.numbers.tolist(), found.optimal, strict=True))
    for number in range(positions.count):
        state = positions.state(number)
        if state.is_terminal():
            continue
        sign = 1 if state.current_player() == 0 else -1
        values = {a: sign * minimax(state.child(a), known) for a in state.legal_actions()}
        best = {a for a, value in values.items() if value == max(values.values())}
        assert (number in optimal) == (len(best) < len(values))
        if number in optimal:
            assert set(np.flatnonzero(optimal[number]).tolist()) == best
    assert found.exhaustive
    assert found.chance(positions) == pytest.approx(0.4046, abs=1e-4)


def test_lost_lines_are_those_of_playing_them_all_out() -> None:
    positions = complete("tic_tac_toe")
    raw = Player(Evaluations(positions, random_network(positions.inputs, positions.actions)))

    def play(number: int, side: int) -> tuple[int, int]:
        state = positions.state(number)
        if state.is_terminal():
            return int(state.returns()[side] < 0), 1
        actions = state.legal_actions()
        if state.current_player() == side:
            actions = raw.choose(np.array([number]))[0].tolist()
        ends = [play(positions.number_of(state.child(action)), side) for action in actions]
        return sum(lost for lost, _ in ends), sum(lines for _, lines in ends)

    first, second = play(0, 0), play(0, 1)
    assert lost_lines(raw) == (first[0] + second[0], first[1] + second[1])


def test_rates_match_and_definition_by_hand() -> None:
    """Search finds what its network does not: rates, the match and the definition must all say so."""
    positions = complete("tic_tac_toe")
    network, other = (random_network(positions.inputs, positions.actions, seed) for seed in (0, 1))
    raw = Player(Evaluations(positions, network))
    searching = Player(Evaluations(positions, network), Rule(100, 1.5))
    everything = yardstick(positions, 10, np.random.default_rng(0))
    on = everything.sample(200, np.random.default_rng(0))
    assert isinstance(on, Yardstick)
    assert not on.exhaustive
    found = rates(raw, searching, on)
    moves = {player: player.choose(on.numbers) for player in (raw, searching)}
    right = {player: on.optimal[np.arange(200), chosen] for player, (chosen, _) in moves.items()}
    assert (found.raw, found.search) == (right[raw].mean(), right[searching].mean())
    assert found.agreement == (moves[raw][0] == moves[searching][0]).mean()
    assert found.search > found.raw + 0.2
    assert match_score(raw, searching, on.numbers[:40]) < 0.5
    assert match_score(raw, raw, on.numbers[:40]) == 0.5
    verdict = internalization(raw, searching, on, 0.1)
    assert verdict.gap == pytest.approx(found.search - found.raw)
    assert set(verdict.failed) == {"different_weights", "risk"}
    assert verdict.slow_cost.forward_passes == pytest.approx(found.search_passes + 1)
    wide = internalization(raw, Player(Evaluations(positions, other), Rule(50, 1.5)), everything, 1.0)
    assert wide.holds
    assert wide.exact


def test_training_never_meets_the_solver() -> None:
    """A whole round of playing and training in a fresh interpreter, after which no solver is loaded."""
    code = """
import sys, torch
from internalize.kinds.selfplay import SelfPlayConfig
from internalize.runtime.kind import Streams
config = SelfPlayConfig(rounds=1, games=4, simulations=4, updates=2, width=8, depth=1)
experiment = config.build(torch.device("cpu"), {})
state = experiment.init(Streams(0))
while not experiment.done(state):
    state, _ = experiment.advance(state, Streams(0))
loaded = [name for name in sys.modules if name.startswith("internalize.kinds.selfplay.")]
assert "internalize.kinds.selfplay.rounds" in loaded
print(*(name for name in loaded if name.endswith((".solver", ".evaluation"))))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
