"""Curves as text, for terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MARKS = "●○▲△■□"
"""One a curve; told apart by shape, not by colour."""

Points = Sequence[tuple[float, float]]


def text_plot(curves: Mapping[str, Points], width: int = 60, height: int = 10) -> str:
    """Curves of (x, y) points as lines of text: an axis on the left, a legend below. Empty without points.

    Where two curves meet in one place the later one is seen.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    xs, ys = ([point[i] for point in points] for i in (0, 1))
    x_range, y_range = (min(xs), max(xs)), (min(ys), max(ys))
    grid = [[" "] * width for _ in range(height)]
    for mark, curve in zip(MARKS, curves.values(), strict=False):
        for x, y in curve:
            grid[height - 1 - _place(y, y_range, height)][_place(x, x_range, width)] = mark
    labels = {0: _number(y_range[1]), height - 1: _number(y_range[0])}
    margin = max(map(len, labels.values()))
    lines = [f"{labels.get(i, ''):>{margin}} │{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    first, last = _number(x_range[0]), _number(x_range[1])
    below = f"{first}{last:>{max(1, width - len(first))}}"
    legend = "   ".join(f"{mark} {name}" for mark, name in zip(MARKS, curves, strict=False))
    return "\n".join([*lines, f"{'':>{margin}} └{'─' * width}", f"{'':>{margin}}  {below}", legend])


def _place(value: float, between: tuple[float, float], cells: int) -> int:
    low, high = between
    return 0 if high == low else round((value - low) / (high - low) * (cells - 1))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
