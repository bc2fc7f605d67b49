"""How 4 × 4 multiplication was learned: with words taken away, at the published pace, and without any words.

    python studies/text/trials.py runs/*-2x256-* > results/text/multiplication-curves.csv
    python studies/text/multiplication.py results/text/multiplication-curves.csv

Reads what trials.py wrote and draws all of its runs: multiplication.png and .svg beside that table.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from internalize.display.plots import LINES, MARKERS, PALETTE, accuracy_axis, new_figure, save
from internalize.errors import BadInput, require

WAYS = {
    "studies/text/later_orders.py:SumsThenLateProducts": "sums, then products, when learned",
    "left": "left, eight tokens an epoch",
    "e2e": "no chain at all",
}
"""What the method of a run is called in the picture."""
PANELS = {
    "id_accuracy": "new rows right",
    "ood_accuracy": "rows with high digits right",
    "id_response_length": "tokens written",
}

Curves = Mapping[tuple[str, str], Sequence[Mapping[str, str]]]
"""(method, seed) → the measurements of this run, in order."""


def curves_of(table: Path) -> Curves:
    """The runs of a table; those of a way are beside each other, in the order of WAYS."""
    try:
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput("table", f"{table} cannot be read: {error}") from None
    needed = ("method", "seed", "operations", *PANELS)
    lacking = [name for name in needed if not rows or not rows[0].get(name)]
    require(not lacking, "table", f"{table} must be what trials.py wrote, it has no {', '.join(lacking)}")
    unknown = sorted({row["method"] for row in rows} - set(WAYS))
    require(not unknown, "method", f"must be one of {', '.join(WAYS)}, got {', '.join(unknown)}")
    found: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for row in sorted(rows, key=lambda row: (list(WAYS).index(row["method"]), int(row["seed"]))):
        found.setdefault((row["method"], row["seed"]), []).append(row)
    return found


def draw(curves: Curves, stem: Path) -> list[Path]:
    """Accuracy in and out of distribution, and how much is written, over the operations of training."""
    figure, axes = new_figure(1, len(PANELS), width=11.0, height=3.9)
    for axis, (column, title) in zip(axes, PANELS.items(), strict=True):
        for (method, seed), rows in curves.items():
            style = list(WAYS).index(method)
            own = [s for m, s in curves if m == method]
            label = f"{WAYS[method]} (seed{'s' * (len(own) > 1)} {', '.join(own)})" if seed == own[0] else None
            look: dict[str, Any] = {"color": PALETTE[style], "alpha": 0.8, "lw": 1.3, "label": label}
            operations = [float(row["operations"]) / 1e12 for row in rows]
            values = [float(row[column]) for row in rows]
            axis.plot(operations, values, LINES[style], marker=MARKERS[style], markersize=3, **look)
        if column.endswith("accuracy"):
            accuracy_axis(axis, None)
        else:
            axis.set_ylim(0, None)
        axis.set(title=title, xlabel="operations (10¹²)", ylabel="")
        axis.set_xlim(0, None)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(WAYS))
    return save(figure, stem)


def main(words: Sequence[str]) -> int:
    try:
        require(len(words) == 1, "table", "name one: what trials.py wrote")
        for path in draw(curves_of(Path(words[0])), Path(words[0]).with_name("multiplication")):
            print(f"picture: {path}", file=sys.stderr)
    except BadInput as problem:
        print(f"multiplication: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
