"""The self-play kind: round after round, play with search, learn what the search said, measure what is left."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from internalize.contract import Row, Stage
from internalize.errors import RunWarning
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.positions import Positions, draw_starts, numpy_generator
from internalize.kinds.selfplay.rounds import (
    SelfPlayState,
    new_state,
    parts_of,
    play_part,
    require_sense,
    restored_state,
    train_part,
)
from internalize.kinds.selfplay.search import Evaluations, Player, Rule
from internalize.models.mlp import PolicyValue
from internalize.runtime.kind import Finish, Streams
from internalize.runtime.loop import StopNow, cut_short_if_asked

if TYPE_CHECKING:  # the solver stands behind it, and training must not know the solver
    from internalize.kinds.selfplay.evaluation import Yardstick


class SelfPlayExperiment:
    """Built from its config; all that changes is in the state, and in a table of positions that is a cache."""

    def __init__(self, config: SelfPlayConfig) -> None:
        self.config = config
        self._yardstick: tuple[int, Yardstick] | None = None
        self._cut_short = False
        """Whether the last step was given up and has left the state as it was."""

    @cached_property
    def positions(self) -> Positions:
        positions = Positions(self.config.game)
        positions.enumerate()
        return positions

    def init(self, streams: Streams) -> SelfPlayState:
        return new_state(
            self.config, self.positions.inputs, self.positions.actions, streams.on_processor("weights")
        )

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> SelfPlayState:
        state = restored_state(self.init(Streams(self.config.seed)), tensors, scalars)
        require_sense(state, self.config, self.positions.inputs, self.positions.actions)
        return state

    # A step ----------------------------------------------------------------------------------------------

    def advance(self, state: SelfPlayState, streams: Streams) -> tuple[SelfPlayState, Row | None]:
        """A part of self-play or of training. Consumes streams("play", …) or streams("train", …).

        A part can take minutes. Where somebody asks to stop in the midst of it, it is thrown away: the state
        is as it was, and the part is begun anew when the run goes on.
        """
        config = self.config
        if self._round_ended(state):
            state.round, state.part = state.round + 1, 0
        self._cut_short = False
        tensors, scalars = state.kept(), state.scalars()
        try:
            with cut_short_if_asked():
                self._carry_out_part(state, streams.on_processor)
        except StopNow:
            self._cut_short = True
            del self.positions  # it may have been left in the midst of a change, and can be made again
            return restored_state(state, tensors, scalars), None
        state.part += 1
        if not self._round_ended(state):
            return state, None
        policy, value = (loss / config.updates for loss in state.losses)
        row: Row = {
            "event": "train",
            "round": state.round,
            "step": self._step(state),
            "loss": policy + value,
            "policy_loss": policy,
            "value_loss": value,
            "examples": len(state.examples),
            "moves": state.moves,
            "passes_per_move": state.passes / state.moves,
        }
        return state, row

    def _carry_out_part(self, state: SelfPlayState, streams: Streams) -> None:
        step = self._step(state)
        if state.part < parts_of(self.config)[0]:
            play_part(self.config, self.positions, state, streams("play", step))
        else:
            train_part(self.config, state, streams("train", step))

    def _step(self, state: SelfPlayState) -> int:
        return (state.round - 1) * sum(parts_of(self.config)) + state.part

    def _round_ended(self, state: SelfPlayState) -> bool:
        return state.part == sum(parts_of(self.config))

    # For the loop ----------------------------------------------------------------------------------------

    def stage(self, state: SelfPlayState) -> Stage:
        training = state.part >= parts_of(self.config)[0]
        return Stage(
            index=state.round,
            total=self.config.rounds,
            label="training" if training else "self-play",
            just_ended=self._round_ended(state),
            step=self._step(state),
            steps=self.config.rounds * sum(parts_of(self.config)),
            unit="parts",
        )

    def done(self, state: SelfPlayState) -> bool:
        return state.round == self.config.rounds and self._round_ended(state)

    def evaluation_due(self, state: SelfPlayState) -> bool:
        """After every round; and in the first before any training, for what search makes of knowing nothing.

        Not once more after a part that was cut short: the state it left was measured when it was reached.
        """
        return not self._cut_short and (self._round_ended(state) or self._step(state) == 1)

    def evaluate(self, state: SelfPlayState, streams: Streams) -> Row:
        """Consumes streams("measured") and streams("matches"): the same positions after every round."""
        return {
            "event": "evaluation",
            "round": state.round if self._round_ended(state) else 0,
            "step": self._step(state),
            **self._measure(state, streams, final=False),
        }

    def _measure(self, state: SelfPlayState, streams: Streams, final: bool) -> Row:
        """final: over all positions, where the game can be enumerated."""
        from internalize.kinds.selfplay import evaluation

        config, streams, table = self.config, streams.on_processor, self.positions
        raw, searching = self.players(state)
        table.clear_if_large()
        everything = self.yardstick(streams).numbered(table)
        on = everything if final else everything.sample(config.measured, numpy_generator(streams("measured")))
        found = evaluation.rates(raw, searching, on) if len(on.numbers) else None
        starts = draw_starts(table, "auto", config.matches // 2, numpy_generator(streams("matches")))
        row: Row = {
            "raw_accuracy": None if found is None else found.raw,
            "search_accuracy": None if found is None else found.search,
            "agreement": None if found is None else found.agreement,
            "match_score": evaluation.match_score(raw, searching, starts),
            "search_passes": None if found is None else found.search_passes,
            "positions": len(on.numbers),
        }
        if table.complete:
            row["raw_loses"], row["raw_lines"] = evaluation.lost_lines(raw)
        if self._round_ended(state) and len(on.numbers):
            before = self._network(state.before)
            slow = Player(Evaluations(table, before), searching.rule)
            verdict = evaluation.internalization(raw, slow, on, config.epsilon)
            row["gap"], row["internalized"] = verdict.gap, verdict.holds
            if final:
                row["definition"] = evaluation.verdict_row(verdict)
        return row

    def yardstick(self, streams: Streams) -> Yardstick:
        """The positions that are measured; consumes streams("yardstick"). Made once."""
        from internalize.kinds.selfplay.evaluation import yardstick

        if self._yardstick is None or self._yardstick[0] != streams.seed:
            rng = numpy_generator(streams.on_processor("yardstick"))
            made = yardstick(self.positions, self.config.measured, rng)
            if not len(made.numbers):
                why = f"of {made.asked:,} positions none is known to have optimal and worse moves"
                warnings.warn(f"{self.config.game}: moves are not measured: {why}", RunWarning, stacklevel=2)
            self._yardstick = streams.seed, made
        return self._yardstick[1]

    def snapshot(self, state: SelfPlayState) -> dict[str, Tensor]:
        return state.weights()

    def finish(self, state: SelfPlayState, streams: Streams) -> Finish:
        on = self.yardstick(streams)
        row = self._measure(state, streams, final=True)
        summary: Row = {
            "raw_optimal_rate": row["raw_accuracy"],
            "search_optimal_rate": row["search_accuracy"],
            # measuring may have numbered the table anew
            "chance_rate": on.numbered(self.positions).chance(self.positions) if len(on.numbers) else None,
            "raw_loses": row.get("raw_loses"),
            "raw_lines": row.get("raw_lines"),
            "agreement": row["agreement"],
            "match_score": row["match_score"],
            "forward_passes_per_move": {"raw": 1.0, "search": row["search_passes"]},
            "simulations": self.config.simulations,
            "positions": len(on.numbers),
            "exhaustive": on.exhaustive,
            "positions_asked": on.asked,
            "positions_unsolved": on.unsolved,
            "internalized": row.get("internalized"),
            "gap": row.get("gap"),
            "definition": row.get("definition"),
            "rounds": state.round,
        }
        return Finish(summary, state.weights())

    # Players ---------------------------------------------------------------------------------------------

    def _network(self, flat: Tensor) -> PolicyValue:
        """A network with these weights, (numel,)."""
        network = PolicyValue(
            self.positions.inputs, self.positions.actions, self.config.width, self.config.depth
        )
        torch.nn.utils.vector_to_parameters(flat, network.parameters())
        return network

    def players(self, state: SelfPlayState) -> tuple[Player, Player]:
        """The raw network, and the same network with search."""
        return self.predictor(state, 0), self.predictor(state, None)

    def predictor(self, state: SelfPlayState, budget: int | None) -> Player:
        """budget: simulations; 0 is the raw network, None as many as in self-play."""
        simulations = self.config.simulations if budget is None else budget
        said = Evaluations(self.positions, state.network)
        return Player(said, Rule(simulations, self.config.exploration))
