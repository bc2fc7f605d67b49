"""`internalize selfplay draw`: the figure and its numbers from finished runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from internalize.configs.outputs import write_output
from internalize.display.plots import save
from internalize.display.terminal import errors_console
from internalize.errors import BadInput, require
from internalize.experiments.selfplay.drawing import draw_gap
from internalize.runs.folder import Run
from internalize.runs.table import Table


@dataclass(frozen=True)
class SelfPlayDrawArguments:
    """Draw the gap between raw and searched play over the rounds, from finished runs of any games and seeds."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or the beginnings of their hashes; runs of one game are drawn together."""
    out: Path = Path("drawings")
    """Folder for gap.png, gap.svg, rounds.csv and selfplay.json: settings, results and where they are from."""
    quiet: bool = False
    """Do not say what was written."""


def selfplay_draw_command(arguments: SelfPlayDrawArguments) -> None:
    require(len(arguments.runs) >= 1, "runs", "must name at least one run folder")
    runs = [Run.open(path, "runs") for path in arguments.runs]
    for run in runs:
        require(run.identity().kind == "selfplay", "runs", f"must be runs of selfplay, which {run.path} is not")
    order = list(dict.fromkeys(run.identity().config["game"] for run in runs))
    runs.sort(key=lambda run: (order.index(run.identity().config["game"]), run.identity().config["seed"]))
    summaries = [run.summary() for run in runs]
    games: dict[str, list[list[dict[str, Any]]]] = {}
    chances: dict[str, float] = {}
    for run, summary in zip(runs, summaries, strict=True):
        game = run.identity().config["game"]
        games.setdefault(game, []).append(list(run.metrics("evaluation")))
        chances[game] = summary["chance_rate"]
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        save(draw_gap(games, chances), arguments.out / "gap")
        write_output(arguments.out / "rounds.csv", _table(runs).to_csv())
        text = json.dumps([_record(run) for run in runs], indent=1, ensure_ascii=False) + "\n"
        write_output(arguments.out / "selfplay.json", text)
    except OSError as error:
        raise BadInput("out", f"cannot write to {arguments.out}: {error.strerror}") from None
    if not arguments.quiet:
        errors_console().print(
            f"written to {arguments.out}: gap.png, gap.svg, rounds.csv, selfplay.json", soft_wrap=True
        )


def _table(runs: list[Run]) -> Table:
    """One row a run and round."""
    rows = []
    for run in runs:
        config = run.identity().config
        for row in run.metrics("evaluation"):
            measured = {key: value for key, value in row.items() if key not in ("event", "step")}
            rows.append({"game": config["game"], "seed": config["seed"], **measured})
    return Table(rows)


def _record(run: Run) -> dict[str, Any]:
    return {
        "config": run.identity().config,
        "summary": run.summary(),
        "seconds": run.status()["seconds"],
        "provenance": {k: v for k, v in run.provenance().items() if k != "identity"},
    }
