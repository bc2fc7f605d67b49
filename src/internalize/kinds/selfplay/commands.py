"""`internalize selfplay` and `internalize selfplay draw`: search folded into a policy, told and drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from internalize.configs.files import require_writable, write_output
from internalize.configs.named import own_files
from internalize.display.plots import LINES, MARKERS, PALETTE, new_figure, save, text_plot
from internalize.display.terminal import PlainConsole, duration, errors_console, percent, results_table
from internalize.errors import BadInput, require
from internalize.kinds import prepare
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.runs.folder import Run
from internalize.runs.location import find_folders
from internalize.runs.provenance import for_others
from internalize.runs.table import Table
from internalize.runtime.execution import Execution, observers_for, result_of, threads
from internalize.runtime.fleet.seeds import SideBySide, report_side_by_side
from internalize.runtime.train import train_prepared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The picture ---------------------------------------------------------------------------------------------

RAW, SEARCH, CHANCE = PALETTE[1], PALETTE[0], PALETTE[6]
FLOOR = 0.02
"""Percentage points below which a gap is drawn at the bottom: a logarithm has no zero."""

Rounds = Sequence[Mapping[str, Any]]
"""The evaluations of one run, one row for each round."""


def draw_gap(games: Mapping[str, Sequence[Rounds]], chances: Mapping[str, float]) -> Figure:
    """One column for each game: rates of optimal moves above, what search adds below; a line for each seed.

    games: game → the runs of its seeds. chances: game → the rate of a player who moves at random.
    """
    figure, axes = new_figure(2, len(games), 4.6 * len(games) + 0.6, 6.0, squeeze=False, sharex="col")
    for column, (game, runs) in enumerate(games.items()):
        _draw_rates(axes[0, column], runs, chances[game])
        _draw_rest(axes[1, column], runs)
        axes[0, column].set_title(f"{game} ({len(runs)} seed{'s' if len(runs) > 1 else ''})")
        axes[1, column].set_xlabel("round")
    axes[0, 0].set_ylabel("optimal moves, %")
    axes[1, 0].set_ylabel("raw network against search,\npercentage points")
    axes[0, 0].legend(loc="lower right")
    axes[1, 0].legend(loc="upper right")
    return figure


def _values(runs: Sequence[Rounds], key: str) -> NDArray[np.float64]:
    """(seeds, rounds), in percent; runs of different lengths up to the shortest."""
    shortest = min(map(len, runs))
    return 100 * np.array([[row[key] for row in rows[:shortest]] for rows in runs])


def _draw_rates(axis: Axes, runs: Sequence[Rounds], chance: float) -> None:
    raw, search = _values(runs, "raw_accuracy"), _values(runs, "search_accuracy")
    rounds = np.arange(raw.shape[1])
    for values, colour, line, marker, label in (
        (search, SEARCH, LINES[0], MARKERS[0], "network with search"),
        (raw, RAW, LINES[1], MARKERS[1], "raw network"),
    ):
        axis.plot(rounds, values.T, color=colour, linewidth=0.7, alpha=0.5)
        axis.plot(rounds, values.mean(0), line, color=colour, marker=marker, markersize=4, label=label)
    axis.fill_between(rounds, raw.mean(0), search.mean(0), color=CHANCE, alpha=0.18, label="the gap")
    axis.axhline(100 * chance, color=CHANCE, linestyle=LINES[3], label="moves at random")
    axis.set_ylim(0, 102)


def _draw_rest(axis: Axes, runs: Sequence[Rounds]) -> None:
    """On a logarithmic scale: the rate of search less that of the raw network, and how often they differ."""
    from matplotlib.ticker import MaxNLocator

    gap = _values(runs, "search_accuracy") - _values(runs, "raw_accuracy")
    differ = 100 - _values(runs, "agreement")
    rounds = np.arange(gap.shape[1])
    for values, colour, line, marker, label in (
        (differ, PALETTE[2], LINES[2], MARKERS[2], "another move than search"),
        (gap, RAW, LINES[1], MARKERS[1], "fewer optimal moves than search"),
    ):
        shown = np.maximum(values, FLOOR)
        axis.plot(rounds, shown.T, color=colour, linewidth=0.7, alpha=0.5)
        middle = np.maximum(values.mean(0), FLOOR)
        axis.plot(rounds, middle, line, color=colour, marker=marker, markersize=4, label=label)
    axis.set_yscale("log")
    ticks = (FLOOR, 0.1, 1, 10, 100)
    axis.set_yticks(ticks, [f"≤ {FLOOR}", *(f"{tick:g}" for tick in ticks[1:])])
    axis.set_ylim(FLOOR * 0.9, 150)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


# The commands --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SelfPlayArguments:
    """A network plays itself with tree search and learns to move at once as the search does."""

    config: Annotated[SelfPlayConfig, tyro.conf.arg(name="")] = field(default_factory=SelfPlayConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)


def selfplay_command(arguments: SelfPlayArguments) -> int | None:
    config, execution = arguments.config, arguments.execution
    require_writable(execution.out)
    with own_files():
        prepared = prepare(config)
    if not arguments.many.is_one_run():
        outcomes = arguments.many.train(prepared, execution)
        results = prepared.kind.results
        return report_side_by_side(outcomes, execution, results.columns, results.rates, _result)
    run = train_prepared(prepared, execution, observers_for(prepared, execution))
    if execution.json:
        print(json.dumps(_result(run)))
    elif not execution.quiet:
        _print(run, config)
    return None


def _result(run: Run) -> dict[str, Any]:
    """The run's results, and what a move takes on this machine now."""
    from internalize.kinds.selfplay.search import seconds_per_move

    with threads(1):
        taken = seconds_per_move(run)
    return {**result_of(run), "seconds_per_move": taken}


def _print(run: Run, config: SelfPlayConfig) -> None:
    console = PlainConsole()
    rounds = list(run.metrics("evaluation"))
    result = _result(run)
    if result["positions"]:
        curves = {
            "raw network": [(row["round"], 100 * row["raw_accuracy"]) for row in rounds],
            "with search": [(row["round"], 100 * row["search_accuracy"]) for row in rounds],
        }
        console.print("optimal moves after each round, %", style="bold")
        console.print(text_plot(curves), soft_wrap=True)
    console.print(results_table(config.label(), ["", "raw network", "with search"], _rows(result)))
    for line in _remarks(result):
        console.print(line, soft_wrap=True)
    console.print(f"{duration(result['seconds'])}, {run.path}", soft_wrap=True)


def _rows(result: Mapping[str, Any]) -> list[list[str]]:
    """What can be said of both players."""
    passes, seconds = result["forward_passes_per_move"], result["seconds_per_move"]
    score = result["match_score"]
    return [
        ["optimal moves", percent(result["raw_optimal_rate"]), percent(result["search_optimal_rate"])],
        ["score of their match", percent(score), percent(1 - score)],
        ["forward passes a move", f"{passes['raw']:.0f}", _told(passes["search"], ".1f")],
        ["milliseconds a move", *(f"{1000 * seconds[name]:.2f}" for name in ("raw", "search"))],
    ]


def _told(number: float | None, form: str) -> str:
    return "–" if number is None else format(number, form)


def _remarks(result: Mapping[str, Any]) -> list[str]:
    """What holds of the raw network, in sentences."""
    where = "all" if result["exhaustive"] else "a sample of"
    lines = [
        "moves were not measured: no position was found that has optimal and worse moves"
        if not result["positions"]
        else f"measured on {where} {result['positions']:,} positions with optimal and worse moves "
        f"(chance {percent(result['chance_rate'])}, the same move in {percent(result['agreement'])})"
    ]
    if result["positions_unsolved"]:
        unsolved, asked = result["positions_unsolved"], result["positions_asked"]
        lines.append(f"{unsolved:,} of {asked:,} drawn positions were too deep for the exact solver")
    if result["raw_loses"] is not None:
        lost, all_lines = result["raw_loses"], result["raw_lines"]
        lines.append(f"against every line of replies, on either side: loses {lost:,} of {all_lines:,}")
    if result["definition"] is not None:
        verdict, risk = result["definition"], result["gap"]
        evidence = verdict.get("evidence", {})  # results of earlier versions have none
        failed = {name: evidence.get(name, "") for name, holds in verdict["clauses"].items() if not holds}
        open_ = all("undecided" in told for told in failed.values())
        told = ", ".join(name.replace("_", " ") for name in failed)
        holds = "yes" if result["internalized"] else f"{'undecided' if open_ else 'no'}: {told}"
        epsilon = verdict["epsilon"]
        lines.append(f"distributionally internalized (ε = {epsilon:g}): {holds}; gap of the risks {risk:+.4f}")
    return lines


@dataclass(frozen=True)
class SelfPlayDrawArguments:
    """Draw the gap between raw and searched play over the rounds, from finished runs of any games and seeds."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """The runs: folders, unique parts of their names, beginnings of their hashes, patterns such as 'tic*', or
    latest. Runs of one game are drawn together."""
    out: Path = Path("drawings")
    """Folder for gap.png, gap.svg, rounds.csv and selfplay.json: settings, results and where they are from."""
    quiet: bool = False
    """Do not say what was written."""


def selfplay_draw_command(arguments: SelfPlayDrawArguments) -> None:
    require(len(arguments.runs) >= 1, "runs", "must name at least one run folder")
    runs = [Run.at(path, "runs") for path in find_folders(arguments.runs, "runs")]
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
        measured = summary["chance_rate"] is not None
        require(
            measured, "runs", f"no moves were measured in {run.path}: {game} has no positions to measure on"
        )
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
        "provenance": for_others(run.provenance()),
    }
