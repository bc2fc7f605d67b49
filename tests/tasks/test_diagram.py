"""State diagrams: every transition is drawn once, labels are legible, large tasks are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from internalize.display.plots import save
from internalize.errors import BadInput
from internalize.tasks import parse_task
from internalize.tasks.diagram import MOST_ARROWS, bow, draw_diagram, merged_arrows, places
from internalize.tasks.semiautomaton import semiautomaton


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def arrows_drawn(figure: Figure) -> int:
    return sum(type(patch).__name__ == "FancyArrowPatch" for axes in figure.axes for patch in axes.patches)


@pytest.mark.parametrize("name", ["C2", "C3", "C5"])
def test_the_papers_figure(name: str, tmp_path: Path) -> None:
    task = parse_task(name)
    figure = draw_diagram(task)
    assert len(figure.axes) == 1
    assert arrows_drawn(figure) == task.states * task.symbols
    for symbol in task.symbol_names:
        assert (
            texts(figure).count(symbol) == task.states + 1
        )  # an arrow from each state, and the state so named
    assert all(path.stat().st_size > 0 for path in save(figure, tmp_path / name))


@pytest.mark.parametrize("name", ["S3", "D4", "Q8", "flipflop4", "D12", "C9", "C2xC3"])
def test_every_transition_is_in_an_arrow(name: str) -> None:
    task = parse_task(name)
    arrows = merged_arrows(task, range(task.symbols))
    found = {(arrow.source, symbol): arrow.target for arrow in arrows for symbol in arrow.symbols}
    assert found == {(q, s): int(task.table[q, s]) for q in range(task.states) for s in range(task.symbols)}
    figure = draw_diagram(task)
    one_circle = len(arrows) <= MOST_ARROWS
    assert arrows_drawn(figure) == (len(arrows) if one_circle else task.states * task.symbols)


def test_parallel_arrows_share_a_label() -> None:
    figure = draw_diagram(parse_task("flipflop2"))
    assert {"keep, write0", "keep, write1"} <= set(texts(figure))
    many = semiautomaton("many", [[0] * 9 + [1], [1] * 10])
    assert "0, 1, 2, … (9)" in texts(draw_diagram(many))


def test_arrows_clear_the_states_they_pass() -> None:
    states, radius = 24, 0.07
    points = places(states)
    for step in range(2, states - 1):
        for both_ways in (False, True):
            source, target = points[0], points[step]
            across = target - source
            normal = np.array([-across[1], across[0]]) / np.hypot(*across)
            control = (source + target) / 2 + 2 * bow(source, target, states, radius, both_ways) * normal
            t = np.linspace(0, 1, 100)[:, None]
            curve = (1 - t) ** 2 * source + 2 * t * (1 - t) * control + t**2 * target
            between = [point for k, point in enumerate(points) if k not in (0, step)]
            nearest = min(float(np.hypot(*(curve - point).T).min()) for point in between)
            assert nearest > 0.75 * radius


@pytest.mark.parametrize("name", ["C25", "S5"])
def test_too_many_states_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="at most 24 states"):
        draw_diagram(parse_task(name))


def test_too_many_symbols_are_refused() -> None:
    rows = [[(q + s) % 8 for s in range(40)] for q in range(8)]
    with pytest.raises(BadInput, match="at most 25 symbols"):
        draw_diagram(semiautomaton("busy", rows))


def test_one_state() -> None:
    assert arrows_drawn(draw_diagram(semiautomaton("point", [[0, 0]]))) == 1
