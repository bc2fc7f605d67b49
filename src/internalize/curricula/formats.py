"""The paper's answer formats and curricula, and two of its neighbours'. T is the horizon, t the stage."""

from __future__ import annotations

from internalize.curricula.curriculum import Curriculum, Shown


class ChainOfThought(Curriculum):
    """Every state, q_1 … q_T, throughout."""

    stages = 1

    def shown(self, stage: int) -> Shown:
        return tuple(range(1, self.horizon + 1))


class EndToEnd(Curriculum):
    """The last state alone, q_T, throughout."""

    stages = 1

    def shown(self, stage: int) -> Shown:
        return (self.horizon,)


class OneByOne(Curriculum):
    """A curriculum with as many stages as states."""

    @property
    def stages(self) -> int:
        return self.horizon


class Left(OneByOne):
    """Take the first states away: q_t … q_T."""

    def shown(self, stage: int) -> Shown:
        return tuple(range(stage, self.horizon + 1))


class Right(OneByOne):
    """Take the last states before the answer away: q_1 … q_{T-t}, q_T."""

    def shown(self, stage: int) -> Shown:
        return (*range(1, self.horizon - stage + 1), self.horizon)


class Inductive(OneByOne):
    """Ever larger leaps: q_t, q_2t, …, the last one at most q_T."""

    def shown(self, stage: int) -> Shown:
        return tuple(range(stage, self.horizon + 1, stage))


class Even(OneByOne):
    """T-t+1 states spread evenly over the chain, q_T always among them."""

    def shown(self, stage: int) -> Shown:
        count = self.horizon - stage + 1
        return tuple(-(-i * self.horizon // count) for i in range(1, count + 1))


class Geometric(Curriculum):
    """Like left, in doubling chunks: after stage 1 the next 1, 2, 4, … first states go."""

    @property
    def stages(self) -> int:
        return 1 + (self.horizon - 1).bit_length()

    def shown(self, stage: int) -> Shown:
        return tuple(range(min(2 ** (stage - 1), self.horizon), self.horizon + 1))


class Mixture(Curriculum):
    """No order: every step draws a stage of another curriculum, and LEN_L tells the answer's length."""

    stages = 1
    length_hint = True

    def __init__(self, components: OneByOne) -> None:
        super().__init__(components.horizon)
        self.components = components

    def shown(self, stage: int) -> Shown:
        """The direct answer: what a mixture is trained to reach."""
        return (self.horizon,)

    def formats(self, stage: int) -> tuple[Shown, ...]:
        return tuple(self.components.shown(t) for t in range(1, self.components.stages + 1))
