"""Batched search against a naive one, P_SP's outcomes, and games that are refused."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')

from internalize.errors import BadInput
from internalize.kinds.selfplay.positions import Positions, draw_starts, load_game
from internalize.kinds.selfplay.rounds import self_play
from internalize.kinds.selfplay.search import Evaluations, Noise, Rule, openspiel_search, search
from internalize.models.mlp import PolicyValue
from tests.kinds.selfplay.reference import naive_evaluation, naive_search, random_network

FOUR = "connect_four(rows=4,columns=4)"
BOXES = "dots_and_boxes(num_rows=1,num_cols=2)"
"""Whoever closes a box moves again: the players do not take turns."""


def fresh(name: str, seed: int = 0) -> tuple[Positions, PolicyValue]:
    positions = Positions(name)
    return positions, random_network(positions.inputs, positions.actions, seed)


def test_reachable_positions_are_drawn_only_where_all_are_known() -> None:
    """Else they would be those that this process has met so far."""
    with pytest.raises(BadInput, match="starts: reachable needs a game whose positions can all be listed"):
        draw_starts(Positions("connect_four"), "reachable", 5, np.random.default_rng(0))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", ["tic_tac_toe", FOUR, BOXES, "oware"])
def test_every_search_of_a_batch_is_the_naive_search(name: str, keep: bool) -> None:
    """The same visits, move by move, and as many questions to the network."""
    positions, network = fresh(name)
    numbers = draw_starts(positions, "random", 6, np.random.default_rng(1))
    found = search(Evaluations(positions, network, keep), numbers, Rule(60, 1.3))
    evaluate = naive_evaluation(network)
    for row, number in enumerate(numbers):
        visits, asked = naive_search(positions.state(int(number)), evaluate, 60, 1.3)
        assert {a: int(found.visits[row, a]) for a in visits} == visits
        assert found.visits[row].sum() == 60
        assert found.passes[row] == asked


def test_a_search_does_not_depend_on_what_the_table_has_met() -> None:
    """To the last bit: else an interrupted run, whose table begins anew, would go on differently."""
    results = []
    for known in (False, True):
        positions, network = fresh("connect_four(rows=4,columns=3,x_in_row=3)")
        if known:
            assert positions.enumerate()
        starts = [positions.number_of(_after(positions, moves)) for moves in ([], [0], [0, 1, 2], [2, 2, 2])]
        results.append(search(Evaluations(positions, network), np.array(starts), Rule(200, 1.5)))
    assert np.array_equal(results[0].visits, results[1].visits)
    assert np.array_equal(results[0].value, results[1].value)


def _after(positions: Positions, moves: list[int]) -> Any:
    state = positions.game.new_initial_state()
    for move in moves:
        state.apply_action(move)
    return state


def test_search_finds_the_win_and_the_defence() -> None:
    """x at 0 and 1, o at 3 and 4, x to move: 2 wins. With x at 8 instead, o to move must win by 5."""
    positions, network = fresh("tic_tac_toe")
    winning = positions.number_of(_after(positions, [0, 3, 1, 4]))
    theirs = positions.number_of(_after(positions, [0, 3, 1, 4, 8]))
    found = search(Evaluations(positions, network), np.array([winning, theirs]), Rule(300, 1.5))
    assert found.best_actions().tolist() == [2, 5]
    assert (found.value > 0.8).all()


def test_outcomes_are_those_of_the_player_to_move() -> None:
    """Each game is replayed on OpenSpiel's own states, and its rows compared with the returns at its end."""
    positions, network = fresh("tic_tac_toe")
    rng = np.random.default_rng(0)
    starts = draw_starts(positions, "random", 40, rng)
    played = self_play(Evaluations(positions, network), starts, Rule(10, 1.5), rng, noise=Noise(0.25, 0.5, rng))
    assert np.array_equal(played.numbers[:40], starts)
    assert set(played.outcome.tolist()) == {0.0, 0.5, 1.0}
    assert np.allclose(played.policy.sum(1), 1)
    for game in range(40):
        rows = np.flatnonzero(played.game == game)
        last = positions.state(int(played.numbers[rows[-1]]))
        ends = {action: last.child(action) for action in last.legal_actions()}
        # the last drawn move is not kept: some end of the game must explain every row
        assert any(
            end.is_terminal()
            and all(
                played.outcome[row] == (1 + end.returns()[positions.player[played.numbers[row]]]) / 2
                for row in rows
            )
            for end in ends.values()
        )
        for earlier, later in pairwise(rows):
            moves = range(int(positions.moves[played.numbers[earlier]]))
            following = {positions.after(int(played.numbers[earlier]), move) for move in moves}
            assert int(played.numbers[later]) in following


def test_all_reachable_positions_are_met_once() -> None:
    positions = Positions("tic_tac_toe")
    assert positions.enumerate()
    assert positions.count == 5478
    over = positions.is_over(np.arange(positions.count))
    assert (~over).sum() == 4520
    assert not Positions("connect_four").enumerate(at_most=2000)


def test_openspiels_own_search_agrees_on_a_won_position() -> None:
    positions, network = fresh("tic_tac_toe")
    state = _after(positions, [0, 3, 1, 4])
    assert openspiel_search("tic_tac_toe", network, Rule(200, 1.5))(state) == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tictactoe", "did you mean 'tic_tac_toe'?"),
        ("kuhn_poker", "without chance"),
        ("matrix_rps", "played in turns"),
        ("dark_hex", "of perfect information"),
        ("connect_four(columns=x)", "OpenSpiel refuses"),
    ],
)
def test_other_games_are_refused(name: str, why: str) -> None:
    with pytest.raises(BadInput, match=r"game: ") as refused:
        load_game(name)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value).strip()


def test_without_openspiel_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    load_game.cache_clear()
    with pytest.raises(BadInput, match=r'pip install "internalize\[selfplay\]"'):
        load_game("tic_tac_toe")
