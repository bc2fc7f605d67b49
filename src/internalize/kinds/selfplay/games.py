"""Games by their OpenSpiel name; what is no two-player game of skill alone is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

from internalize.errors import BadInput, closest, require

BOARD_TELLS_ALL = {
    "breakthrough",
    "clobber",
    "connect_four",
    "hex",
    "mnk",
    "nim",
    "pentago",
    "tic_tac_toe",
    "y",
}
"""Games in which the printed board and the player to move decide all that can follow. Positions of these that
are reached in several ways are one position; of every other game (repetitions, castling) the history is."""


def spiel() -> Any:
    """OpenSpiel, or a line that says how to get it."""
    try:
        import pyspiel
    except ImportError:
        raise BadInput("game", 'OpenSpiel is missing: pip install "internalize[selfplay]"') from None
    return pyspiel


@cache
def load_game(name: str) -> Any:
    """The game with this OpenSpiel name, for example `tic_tac_toe` or `connect_four(rows=4,columns=4)`."""
    pyspiel = spiel()
    short = name.partition("(")[0].strip()
    known = [game.short_name for game in pyspiel.registered_games()]
    hint = closest(short, known)
    require(short in known, "game", f"OpenSpiel has no game {short!r}{hint}")
    try:
        game = pyspiel.load_game(name)
    except (pyspiel.SpielError, RuntimeError) as error:
        raise BadInput("game", f"OpenSpiel refuses {name!r}: {error}") from None
    _refuse_others(name, game, pyspiel.GameType)
    return game


def _refuse_others(name: str, game: Any, kinds: Any) -> None:
    kind = game.get_type()
    for good, wanted in (
        (game.num_players() == 2, "for two players"),
        (kind.dynamics == kinds.Dynamics.SEQUENTIAL, "played in turns"),
        (kind.chance_mode == kinds.ChanceMode.DETERMINISTIC, "without chance"),
        (kind.information == kinds.Information.PERFECT_INFORMATION, "of perfect information"),
        (kind.utility == kinds.Utility.ZERO_SUM, "zero-sum"),
        (kind.reward_model == kinds.RewardModel.TERMINAL, "decided at its end"),
    ):
        require(good, "game", f"must be {wanted}, which {name} is not")
    good = kind.provides_observation_tensor
    require(good, "game", f"must show its positions as numbers (an observation tensor), which {name} does not")


def position_key(name: str, state: Any) -> Any:
    """What tells two positions of the game apart."""
    if name.partition("(")[0].strip() in BOARD_TELLS_ALL:
        return state.current_player(), str(state)
    return tuple(state.history())
