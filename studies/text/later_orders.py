"""More orders for multiplication, found after `product_order.py` had been judged.

A run is named by the content of the file that its order stands in: these stand apart, so that the judged runs
of 3 × 3 keep their names.
"""

from internalize import Curriculum


class SumsThenLateProducts(Curriculum):
    """4 × 4, whose steps are p1, p2, (p1 + p2), p3, (p1 + p2 + p3), p4: the sums go first, then the products
    from the last one on, as it went well with 3 × 3. The answer is the sum of four numbers that can be read,
    before any of them is hidden."""

    order = (3, 5, 6, 4, 1, 2)
    stages = len(order) + 1

    def shown(self, stage: int) -> tuple[int, ...]:
        gone = self.order[: stage - 1]
        return tuple(step for step in range(1, self.horizon + 1) if step not in gone)


class AnswerAlone(Curriculum):
    """No step at all, from the beginning: to go on from a model that has lost its chain."""

    stages = 1

    def shown(self, stage: int) -> tuple[int, ...]:
        return (self.horizon,)
