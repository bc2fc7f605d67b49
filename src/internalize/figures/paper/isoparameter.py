"""Figure 3, right, and its companions: width against depth at equal numbers of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from internalize.display.charts import rate_lines, task_name, waiting_curves
from internalize.display.plots import new_figure
from internalize.figures.cases import (
    HORIZONS,
    LONG_RECIPE,
    PAPER,
    PAPER_SEEDS,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY_ADAPTIVE,
    Grid,
    Tiers,
)
from internalize.figures.claims import MOSTLY, Claim, PositiveControl, chain_learned
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.numbers import WithField
from internalize.figures.rates import RateBelow
from internalize.figures.rows import FigureRow, chain_columns, group, rate
from internalize.figures.waiting import waits_of
from internalize.kinds.chain.config import ChainConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Shape = tuple[int, int, int]
"""(depth, embedding dimension, MLP width)."""
PAPER_SHAPES: Mapping[str, Sequence[Shape]] = {
    "20M": [(4, 512, 4096), (10, 512, 1024), (25, 344, 512)],
    "12M": [(4, 512, 2048), (10, 448, 512), (25, 296, 256)],
    "5M": [(4, 376, 1024), (10, 332, 128), (25, 216, 64)],
}
"""The paper swaps the labels 5M and 12M; these are by count."""
LAPTOP_SHAPES: Mapping[str, Sequence[Shape]] = {
    "50k": [(1, 64, 256), (2, 48, 160), (4, 32, 128)],
}


class Setting(NamedTuple):
    """What suits a shape: deep and narrow networks want other steps and first weights than shallow ones."""

    init_std: float
    lr: float


LAPTOP_SETTINGS: Mapping[Shape, Setting] = {
    (1, 64, 256): Setting(init_std=0.057, lr=2e-3),
    (2, 48, 160): Setting(init_std=0.1, lr=1e-3),
    (4, 32, 128): Setting(init_std=0.08, lr=1e-3),
}
"""Chosen on tuning seeds by how often, then how soon, one internalizes: studies/isoparameter-choose.yaml."""
SMOKE_SHAPES: Mapping[str, Sequence[Shape]] = {"1k": [(1, 8, 32), (2, 8, 8)]}
SCALES = {
    shape: scale
    for shapes in (PAPER_SHAPES, LAPTOP_SHAPES, SMOKE_SHAPES)
    for scale, those in shapes.items()
    for shape in those
}


MARGIN = 1.3
"""The axis of times ends so much after the last run has internalized; at the budget, where one never does."""


def grid(
    base: ChainConfig,
    tasks: Sequence[str],
    scales: Mapping[str, Sequence[Shape]],
    head_size: int,
    seeds: Sequence[int],
    settings: Mapping[Shape, Setting] | None = None,
) -> Grid:
    """All shapes of all scales; an MLP four times as wide as the model is the config's default.

    settings: of each shape its own, instead of the base's for all.
    """
    shapes = [shape for those in scales.values() for shape in those]
    own = [] if settings is None else [settings[shape] for shape in shapes]
    fitted = {"model.init_std": [one.init_std for one in own], "optimizer.lr": [one.lr for one in own]}
    return Grid(
        base,
        {"task": tasks},
        {
            "model.depth": [depth for depth, _, _ in shapes],
            "model.width": [width for _, width, _ in shapes],
            "model.heads": [width // head_size for _, width, _ in shapes],
            "model.mlp": [None if mlp == 4 * width else mlp for _, width, mlp in shapes],
            **(fitted if own else {}),
        },
        seeds,
    )


FITTED = replace(LONG_RECIPE, horizon=HORIZONS["C7"], iterations=40_000)
TIERS: Tiers = {
    "smoke": [grid(SMOKE, ["C2"], SMOKE_SHAPES, 2, SMOKE_SEEDS)],
    "toy": [grid(replace(TOY_ADAPTIVE, horizon=6), ["C5"], LAPTOP_SHAPES, 2, range(10, 22))],
    "laptop": [grid(FITTED, ["C7"], LAPTOP_SHAPES, 2, TEN_SEEDS, LAPTOP_SETTINGS)],
    "paper": [grid(PAPER, ["C7", "C11", "C13"], PAPER_SHAPES, 4, PAPER_SEEDS)],
}

ALL, DEEPEST = group("all shapes"), group("deepest", place="deepest", deep=True)
DEEP = 25
"""Layers of the paper's deepest models: of shallower ones it does not say that they are not suited."""
WORKS = PositiveControl(
    "the shallowest shape internalizes", group("shallowest", place="shallowest"), "internalized", by="task"
)
"""Where no shape internalizes, depth is not to blame."""
CLAIMS = [
    Claim(
        "deeper-is-worse",
        "At equal parameters, increasing depth is less beneficial for internalization than increasing width.",
        WithField(ALL, "model.depth", "iterations_until", "rises", ("task", "parameters"), number=True),
        [WORKS, *chain_learned(ALL, by="model.depth")],
        headline=True,
    ),
    Claim(
        "deeper-takes-more-operations",
        "The same, counted in operations, of which a deeper model of as many parameters takes more for each "
        "iteration (not in the paper).",
        WithField(ALL, "model.depth", "operations_until", "rises", ("task", "parameters"), number=True),
        [WORKS, *chain_learned(ALL, by="model.depth")],
        seen="added",
        restates="deeper-is-worse",
        ours=True,
    ),
    Claim(
        "deepest-not-suited",
        "The deepest models (25 layers) do not appear well suited for internalization.",
        RateBelow(DEEPEST, "internalized", MOSTLY, by="task"),
        [WORKS, *chain_learned(DEEPEST, by="task")],
    ),
]


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """parameters: about how many; size: the paper's width, the larger of d and MLP; place among the depths."""
    found = chain_columns(row, cases)
    depths = [case["model.depth"] for case in cases]
    places = {max(depths): "deepest", min(depths): "shallowest"}
    return {
        **found,
        "parameters": SCALES.get((row["model.depth"], row["model.width"], found["mlp_width"])),
        "size": max(row["model.width"], found["mlp_width"]),
        "place": places.get(row["model.depth"], "between"),
        "deep": row["model.depth"] >= DEEP,
    }


def draw(material: DrawingMaterial) -> Drawing:
    """Rates over width: a panel for each task, a line for each number of parameters, the depth at each point.
    Where stages end when they are learned, a second panel: when the runs of each depth had internalized."""
    tasks = list(dict.fromkeys(row["task"] for row in material.rows))
    timed = [row for row in material.rows if row["schedule.kind"] != "fixed" and "iterations_until" in row]
    panels = [(task, waits) for task in tasks for waits in (False, True)[: 1 + bool(_of(task, timed))]]
    size = 1.2 + 4.0 * len(panels)
    figure, axes = new_figure(1, len(panels), width=size, height=4.0, squeeze=False, sharey=True)
    for axis, (task, waits) in zip(axes[0], panels, strict=True):
        if waits:
            _draw_waits(axis, _of(task, timed))
        else:
            _draw_rates(axis, _of(task, material.rows))
        axis.set_title(task_name(task) + (", over the training" if waits else ""))
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper left", ncols=len(SCALES))
    return figure


def _of(task: str, rows: Sequence[FigureRow]) -> list[FigureRow]:
    return group("", task=task).of(rows)


def _draw_rates(axis: Axes, rows: Sequence[FigureRow]) -> None:
    series = {}
    for scale in dict.fromkeys(row["parameters"] for row in rows):
        of_scale = group("", parameters=scale).of(rows)
        points = []
        for depth in sorted({row["model.depth"] for row in of_scale}, reverse=True):
            here = group("", model__depth=depth).of(of_scale)
            points.append((here[0]["size"], rate(here, "internalized")))
            axis.annotate(
                f"depth {depth}",
                (points[-1][0], points[-1][1].value),
                xytext=(5, -6),  # beside the line, not on it
                textcoords="offset points",
                fontsize=8,
                va="top",
            )
        series[f"{scale} parameters"] = points
    rate_lines(axis, series, "runs that have internalized")
    sizes = sorted({row["size"] for row in rows})
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.margins(x=0.3)
    axis.set_xlabel("width: the larger of d and MLP")


def _draw_waits(axis: Axes, rows: Sequence[FigureRow]) -> None:
    depths = sorted({row["model.depth"] for row in rows})
    curves = {f"depth {depth}": waits_of(group("", model__depth=depth).of(rows)) for depth in depths}
    late = [row["iterations"] if not row["happened"] else MARGIN * row["iterations_until"] for row in rows]
    waiting_curves(axis, curves, until=max(late))
    axis.set_ylabel("")
    axis.legend(loc="lower right")


FIGURE = Figure(
    name="isoparameter",
    paper="Figure 3, right; appendix E for C_11 and C_13",
    shows="width against depth at equal numbers of parameters",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Share of runs of the left curriculum that answer at once with more than 95 % final-state accuracy. "
        "Along a line the number of parameters is about the same: to the right the model is wider and "
        "shallower; the number at a point is the depth (Wilson intervals, 95 %). "
        "Where stages end when they are learned, a second panel tells when the runs of each depth had "
        "internalized (Kaplan and Meier, 95 %)."
    ),
    claims=CLAIMS,
    notes=[
        "The paper swaps the labels 5M and 12M; here they are by count.",
        "The deepest model of the paper has 25 layers. At the laptop tier it has four, as many as the paper's "
        "shallowest.",
    ],
    columns=columns,
)
