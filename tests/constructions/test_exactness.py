"""Batches side by side: same results, same order, torch's threads given back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from internalize.constructions.exactness import one_thread, side_by_side


def test_results_come_in_order_and_items_are_taken_as_needed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for i in range(50):
            taken.append(i)
            yield i

    torch.set_num_threads(2)
    results = side_by_side(lambda i: (i * i, torch.get_num_threads()), items())
    assert next(results) == (0, 1)
    assert len(taken) < 10
    assert list(results) == [(i * i, 1) for i in range(1, 50)]
    assert torch.get_num_threads() == 2


def test_threads_are_given_back_after_an_error() -> None:
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda i: 1 // i, [1, 0, 1]))
    assert torch.get_num_threads() == 2
    with one_thread() as before:
        assert (before, torch.get_num_threads()) == (2, 1)
