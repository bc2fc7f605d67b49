"""State diagrams: states on a circle, arrows for symbols, as the paper draws C_2, C_3 and C_5."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from internalize.display.plots import PALETTE, new_figure
from internalize.errors import require
from internalize.tasks.semiautomaton import Semiautomaton

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STATES = 24
MOST_ARROWS = 27
"""With more arrows than this in one circle, every symbol gets a circle of its own."""
MOST_PANELS = 25
MOST_WORDS = 12
"""With more arrows than this, symbols of several letters are named in a legend, not on the arrows."""
COLOURS = (PALETTE[6], PALETTE[1], PALETTE[0], PALETTE[2], PALETTE[4], PALETTE[3], PALETTE[5])
"""One colour for each symbol. Grey comes first: the first symbol is often the one that changes nothing."""
INK = "#1a1b1c"

Point = np.ndarray[Any, np.dtype[np.float64]]
"""(2,) or (count, 2) coordinates; the states lie on the circle of radius 1."""


@dataclass(frozen=True)
class Arrow:
    """All symbols that lead from one state to another."""

    source: int
    target: int
    symbols: tuple[int, ...]


@dataclass(frozen=True)
class Circle:
    """How one circle of states is drawn."""

    radius: float
    """Radius of a state."""
    font: float
    """Size of the states' names, in points."""
    named: bool
    """Whether arrows of a single symbol carry its name."""


def draw_diagram(task: Semiautomaton) -> Figure:
    """The state diagram of a semiautomaton, with the usual marks.

    An arrow from nowhere leads to the initial state. Accepting states, which answer yes, have a double ring;
    other outputs stand in the state, behind a slash.

    There is one circle where its arrows can be told apart, otherwise one circle for each symbol. Symbols that
    share an arrow share its label.
    """
    states, name = task.inner_states, task.name
    require(states <= MOST_STATES, "task", f"a diagram shows at most {MOST_STATES} states, {name} has {states}")
    arrows = merged_arrows(task, range(task.symbols))
    figure = _draw_one(task, arrows) if len(arrows) <= MOST_ARROWS else _draw_panels(task)
    figure.suptitle(f"{name}: {states} states, {task.symbols} symbols")
    return figure


def merged_arrows(task: Semiautomaton, symbols: Sequence[int]) -> list[Arrow]:
    """Arrows of these symbols, parallel ones as one, by source and target."""
    shared: dict[tuple[int, int], list[int]] = defaultdict(list)
    rows = task.transitions.tolist()
    for source in range(task.inner_states):
        for symbol in symbols:
            shared[source, rows[source][symbol]].append(symbol)
    return [Arrow(source, target, tuple(found)) for (source, target), found in sorted(shared.items())]


def _draw_one(task: Semiautomaton, arrows: Sequence[Arrow]) -> Figure:
    """All symbols in one circle."""
    states = task.inner_states
    flat = states <= 2
    side = 4.4 if states <= 3 else 5.4 if states <= 6 else 6.6
    figure, axes = new_figure(width=side, height=2.6 if flat else side + 0.5)
    words = max(len(name) for name in task.symbol_names) > 2
    named = not words or len(arrows) <= MOST_WORDS or task.symbols > len(COLOURS)
    _draw_circle(axes, task, arrows, side, named)
    if flat:
        axes.set_ylim(-0.5, 0.5)
    if not named:
        _draw_legend(axes, task, arrows)
    return figure


def _draw_panels(task: Semiautomaton) -> Figure:
    """A circle for each symbol."""
    count, most = task.symbols, MOST_PANELS
    message = f"a diagram of {task.inner_states} states shows at most {most} symbols, {task.name} has {count}"
    require(count <= most, "task", message)
    columns = 2 if count <= 4 else 3 if count <= 9 else 5
    side = (5.0 if count <= 4 else 3.8 if count <= 9 else 3.2) * (1.0 if task.inner_states > 8 else 0.75)
    rows = -(-count // columns)
    figure, axes = new_figure(rows, columns, width=side * columns, height=side * rows + 0.6, squeeze=False)
    for symbol, panel in enumerate(axes.flat):
        if symbol >= count:
            panel.set_visible(False)
            continue
        _draw_circle(panel, task, merged_arrows(task, [symbol]), side, named=False)
        panel.set_title(f"symbol {task.symbol_names[symbol]}", fontsize=10)
    return figure


def _draw_circle(axes: Any, task: Semiautomaton, arrows: Sequence[Arrow], side: float, named: bool) -> None:
    """States and arrows; side: inches that the circle can take."""
    states, names = task.inner_states, _state_labels(task)
    radius = min(0.17, 0.55 * math.sin(math.pi / max(2, states)))
    reach = 1 + 3.9 * radius
    # A name of k letters is about 0.62·k of its font size wide, and shall fill most of its state.
    across = 2 * radius * 72 * side / (2 * reach)
    longest = max(len(name) for name in names)
    circle = Circle(radius, min(13.0, 0.8 * across / (0.62 * max(longest, 1.6))), named)
    points = places(states)
    pairs = {(arrow.source, arrow.target) for arrow in arrows}
    for arrow in arrows:
        merged = len(arrow.symbols) > 1
        colour = INK if merged else COLOURS[arrow.symbols[0] % len(COLOURS)]
        text = _label(task, arrow.symbols) if merged or named else ""
        if arrow.source == arrow.target:
            _draw_loop(axes, points[arrow.source], circle, colour, text)
        else:
            ends = points[arrow.source], points[arrow.target]
            lift = bow(*ends, states, circle.radius, (arrow.target, arrow.source) in pairs)
            _draw_arrow(axes, *ends, lift, circle, colour, text)
    for state, point in enumerate(points):
        _draw_state(axes, point, circle, names[state], accepting=_answers_yes(task, state))
    _draw_start(axes, points[task.initial_state], circle)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.axis("off")


def places(states: int) -> Point:
    """(states, 2): clockwise from the top; two states side by side, as in the paper."""
    start = math.pi if states == 2 else math.pi / 2
    angle = start - 2 * math.pi * np.arange(states) / states
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def bow(source: Point, target: Point, states: int, radius: float, both_ways: bool) -> float:
    """How far the middle of an arrow lies to the left of the straight line.

    Arrows in both directions bow to different sides. An arrow past other states, which lie on the outside,
    is pulled inward until it clears them.
    """
    length = float(np.hypot(*(target - source)))
    middle = (source + target) / 2
    normal = np.array([source[1] - target[1], target[0] - source[0]]) / length
    lift = (0.1 if both_ways else 0.04) * length
    neighbours = length < 2 * math.sin(math.pi / states) + 1e-9
    depth = float(np.hypot(*middle))
    if neighbours or depth < 1e-9:
        return lift
    outward = math.copysign(1.0, float(normal @ middle))
    # The circle's own height over this chord, less a state and some air: the furthest out that is free.
    free = 1 - depth - 1.45 * radius
    if outward > 0:
        return min(lift, free)
    return max(lift, 0.14 * length - free) if both_ways else max(lift, -free)


def _draw_state(axes: Any, point: Point, circle: Circle, name: str, accepting: bool) -> None:
    from matplotlib.patches import Circle as Ring

    centre = float(point[0]), float(point[1])
    axes.add_patch(Ring(centre, circle.radius, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=3))
    if accepting:
        inner = 0.86 * circle.radius
        axes.add_patch(Ring(centre, inner, fill=False, edgecolor=INK, linewidth=0.7, zorder=4))
    axes.text(*point, name, ha="center", va="center", fontsize=circle.font, fontweight="bold", zorder=5)


def _draw_start(axes: Any, point: Point, circle: Circle) -> None:
    """A short arrow from outside, beside the loop that may stand there."""
    angle = math.atan2(point[1], point[0]) + 0.3 * math.pi
    outward = np.array([math.cos(angle), math.sin(angle)])
    axes.annotate(
        "",
        xy=point + 1.05 * circle.radius * outward,
        xytext=point + 2.6 * circle.radius * outward,
        arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0},
        zorder=3,
    )


def _answers_yes(task: Semiautomaton, state: int) -> bool:
    return task.outputs is not None and task.state_names[int(task.outputs[state])] == "yes"


def _state_labels(task: Semiautomaton) -> list[str]:
    """The states' names, with what they answer where a double ring does not say it."""
    names = list(task.state_names[: task.inner_states])
    if task.outputs is None or set(task.output_names) <= {"yes", "no"}:
        return names
    said = [task.state_names[output] for output in task.outputs.tolist()]
    return [f"{name}/{output}" for name, output in zip(names, said, strict=False)]


def _draw_arrow(
    axes: Any, source: Point, target: Point, lift: float, circle: Circle, colour: str, text: str
) -> None:
    across = target - source
    normal = np.array([-across[1], across[0]]) / np.hypot(*across)
    control = (source + target) / 2 + 2 * lift * normal
    curve = _bezier([source, control, target])
    _draw_curve(axes, curve, circle, colour)
    if text:
        # Before the middle: labels of arrows that cross in the centre lie apart.
        _draw_label(axes, curve[int(0.36 * len(curve))], text, colour, "center")


def _draw_loop(axes: Any, point: Point, circle: Circle, colour: str, text: str) -> None:
    """A loop on the outside of the circle, its label at the tip."""
    outward = point / np.hypot(*point)
    aside = np.array([-outward[1], outward[0]])
    out, wide = 4.2 * circle.radius, 2.6 * circle.radius
    controls = [point, point + out * outward + wide * aside, point + out * outward - wide * aside, point]
    _draw_curve(axes, _bezier(controls), circle, colour)
    if text:
        side = "center" if len(text) <= 2 or abs(outward[0]) < 0.3 else "left" if outward[0] > 0 else "right"
        _draw_label(axes, point + 3.2 * circle.radius * outward, text, colour, side)


def _draw_curve(axes: Any, curve: Point, circle: Circle, colour: str) -> None:
    """A curve with an arrow head, cut off where it would enter the states at its ends."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    from_source, from_target = (np.hypot(*(curve - end).T) for end in (curve[0], curve[-1]))
    outside = (from_source > circle.radius) & (from_target > 1.1 * circle.radius)
    size = 5 if circle.radius > 0.1 else 3.5
    head = f"-|>,head_length={size},head_width={0.45 * size}"
    path = Path(curve[outside])
    arrow = FancyArrowPatch(path=path, arrowstyle=head, color=colour, linewidth=1.2, zorder=2, shrinkA=0)
    axes.add_patch(arrow)


def _bezier(controls: Sequence[Point]) -> Point:
    """(200, 2) points of the Bézier curve with these control points."""
    t = np.linspace(0, 1, 200)[:, None]
    degree = len(controls) - 1
    terms = [math.comb(degree, i) * t**i * (1 - t) ** (degree - i) * p for i, p in enumerate(controls)]
    return np.asarray(sum(terms), dtype=np.float64)


def _draw_label(axes: Any, place: Point, text: str, colour: str, align: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text(*place, text, ha=align, va="center", fontsize=9, color=colour, bbox=box, zorder=2.5)


def _draw_legend(axes: Any, task: Semiautomaton, arrows: Sequence[Arrow]) -> None:
    """The symbols that have an arrow to themselves."""
    from matplotlib.lines import Line2D

    alone = sorted({arrow.symbols[0] for arrow in arrows if len(arrow.symbols) == 1})
    lines = [Line2D([], [], color=COLOURS[s], label=task.symbol_names[s], linewidth=1.8) for s in alone]
    axes.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(lines), frameon=False)


def _label(task: Semiautomaton, symbols: Sequence[int]) -> str:
    """Symbol names; many are cut short, with their number."""
    names = [task.symbol_names[symbol] for symbol in symbols]
    if len(names) > 4:
        return f"{', '.join(names[:3])}, … ({len(names)})"
    return ", ".join(names)
