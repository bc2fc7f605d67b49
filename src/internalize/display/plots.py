"""One style for every plot: colour-blind safe, legible in grey, the same on a light and a dark page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.outputs import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
"""Okabe and Ito's colours, which people with any common colour blindness can tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "////", "....", "xx", "--", "++", "oo")
"""What tells bars apart where there is no colour."""

INK = "#1a1b1c"
"""The colour of text and axes; on a page it becomes the page's own text colour."""

_STYLE = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "internalize",
    "figure.dpi": 100,
}


def new_figure(
    rows: int = 1, columns: int = 1, width: float = 7.0, height: float = 4.0, **grid: Any
) -> tuple[Figure, Any]:
    """A figure in the house style and its axes, shaped (rows, columns) as an array unless there is one.

    width, height: inches. Made without pyplot, so that nothing global changes and notebooks are left alone.
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        matplotlib.rcParams["axes.prop_cycle"] = cycler(color=PALETTE)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, **grid)
    return figure, axes


def _house_style(figure: Figure) -> None:
    """What was added to a figure after it was made (legends, titles, notes) gets the style too."""
    from matplotlib.colors import same_color
    from matplotlib.legend import Legend
    from matplotlib.text import Text

    for legend in figure.findobj(Legend):
        legend.set_frame_on(False)
    for text in figure.findobj(Text):
        if same_color(text.get_color(), "black"):
            text.set_color(INK)


def save(
    figure: Figure,
    stem: Path,
    formats: Sequence[str] = ("png", "svg"),
    write: Callable[[Path, bytes], None] = write_output,
) -> list[Path]:
    """Write the figure as stem.png, stem.svg, …; the same figure gives the same bytes."""
    import matplotlib

    _house_style(figure)
    paths = []
    for kind in formats:
        path, buffer = stem.with_name(f"{stem.name}.{kind}"), io.BytesIO()
        dates: dict[str, None] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        with matplotlib.rc_context(_STYLE):
            figure.savefig(buffer, format=kind, dpi=160, facecolor="white", metadata=dates)
        write(path, buffer.getvalue())
        paths.append(path)
    return paths


def inline_svg(figure: Figure, alt: str) -> str:
    """The figure as an <svg> element for a page: transparent, text in the page's own colour."""
    import matplotlib

    _house_style(figure)
    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return saved_svg_inline(buffer.getvalue(), alt)


def saved_svg_inline(svg: str, alt: str) -> str:
    """The text of a file that `save` wrote, as such an element: no background, nothing that names a host."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    svg = svg.replace('style="fill: #ffffff"', 'style="fill: none"')  # behind the figure and its panels
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'class="plot"', svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)
