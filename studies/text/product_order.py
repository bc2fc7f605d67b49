"""Orders of one's own for multiplication: which steps of the chain are taken away, one after the other.

The steps of a row of 4 × 4 are p1, p2, (p1 + p2), p3, (p1 + p2 + p3), p4: products of the first number with
the digits of the second, and their sums. The answer is the seventh.

From the left, the first sum goes when both its products are gone. What was computed where the sum stood has
then to be computed elsewhere, from nothing, and two products at once. In the orders below every stage hides
one thing: a sum of numbers that can still be read, or one product.
"""

from internalize import Curriculum


class InOrder(Curriculum):
    """Steps go in the order of `order`, one at each stage."""

    order: tuple[int, ...]

    @property
    def stages(self) -> int:
        return len(self.order) + 1

    def shown(self, stage: int) -> tuple[int, ...]:
        gone = self.order[: stage - 1]
        return tuple(step for step in range(1, self.horizon + 1) if step not in gone)


class SumsFirst(InOrder):
    """The sums, then the products: the answer is at first the sum of four numbers."""

    order = (3, 5, 1, 2, 4, 6)


class LateProductsFirst(InOrder):
    """The last sum, then the last two products, then the first sum, then the first two products: the answer is
    never the sum of more than three numbers that are read."""

    order = (5, 6, 4, 3, 1, 2)


class LateProductFirst3(InOrder):
    """The same for 3 × 3, whose steps are p1, p2, (p1 + p2), p3: p3, the sum, then p1 and p2."""

    order = (4, 3, 1, 2)


class SumFirst3(InOrder):
    """For 3 × 3: the sum, the last product, the first two."""

    order = (3, 4, 1, 2)


class LastProduct(Curriculum):
    """The end of `LateProductsFirst`, to go on from a model that reads p2 alone."""

    stages = 2

    def shown(self, stage: int) -> tuple[int, ...]:
        return (2, self.horizon) if stage == 1 else (self.horizon,)


class LastProductByDigits(Curriculum):
    """The same by token: the digits of p2 go one by one from its end, its sign and first digit together."""

    stages = 7

    def shown(self, stage: int) -> tuple[int, ...]:
        tokens = range(6, 14 - stage) if stage < self.stages else ()  # p1 has 5 tokens, the sign is the sixth
        return (*tokens, self.horizon)
