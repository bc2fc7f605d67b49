"""`internalize demo`: the paper's main effect in minutes, on a task small enough for a laptop."""

from __future__ import annotations

import json
import statistics as python_statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from internalize.configs.files import require_writable, write_output
from internalize.display import page
from internalize.display.charts import accuracy_over_training
from internalize.display.plots import inline_svg, new_figure
from internalize.display.terminal import (
    PlainConsole,
    duration,
    errors_console,
    fleet_view,
    percent,
    results_table,
)
from internalize.explorer.page import write_explorer
from internalize.kinds import prepare
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.kind import KIND
from internalize.kinds.chain.presets import LAPTOP, without_stages
from internalize.runs.folder import Run
from internalize.runs.provenance import usable_cores
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.pool import execute_many
from internalize.runtime.fleet.seeds import require_finished
from internalize.runtime.kind import Streams
from internalize.sweeps.plan import expected_seconds

METHODS = {"cot": "out loud (CoT)", "e2e": "answer only, never a chain (E2E)", "left": "internalized (left)"}
TIMED_ANSWERS = 1_000

SETTING = replace(LAPTOP, task="C3", horizon=16, iterations=20_000, rehearsal=0.5)
"""The recipe as it was when ten seeds of the demo were measured: it still rehearsed. Each way may take so many
iterations, and stops when it has learned its task; more than 43 million inputs are possible, of
which a run sees six in a hundred at most. The README says what came out over ten seeds."""


@dataclass(frozen=True)
class DemoArguments:
    """Train one small model three ways, each for as long as it needs up to a limit, and see what each way costs
    and keeps."""

    out: Path = Path("demo")
    """Folder for the runs and the page."""
    seed: int = 0
    """Everything random is a function of this number."""
    iterations: int = SETTING.iterations
    """Training steps that each way may take; it stops when it has learned its task."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    json: bool = False
    """Print one JSON object with the results, last."""


@dataclass(frozen=True)
class Way:
    """One way of training, with its results."""

    name: str
    run: Run
    seconds_per_answer: float


def demo_command(arguments: DemoArguments) -> None:
    require_writable(arguments.out)
    base = replace(SETTING, seed=arguments.seed, iterations=arguments.iterations)
    configs = [base if method == base.method else without_stages(base, method) for method in METHODS]
    execution = Execution(out=arguments.out / "runs", device=arguments.device)
    started = time.perf_counter()
    runs_to_do = [prepare(config) for config in configs]
    seconds = expected_seconds(runs_to_do, execution)
    about = max(sum(seconds) / usable_cores(), *seconds)
    errors_console().print(f"three trainings, about {duration(about)}")
    view = fleet_view("internalize demo", KIND.results.headline, seconds, KIND.results.unit)
    outcomes = execute_many(runs_to_do, execution, observer=view)
    runs = require_finished(outcomes)
    ways = measure_ways(runs, arguments.device)
    path, explorer = arguments.out / "index.html", arguments.out / "explorer.html"
    write_output(path, demo_page(ways, base, explorer.name))
    with errors_console().status("a page in which the three models answer"):
        out_loud, answer_only, internalized = (run.path for run in runs)
        write_explorer([internalized, out_loud, answer_only], explorer)
    if arguments.json:
        results = {m: {"run": str(w.run.path), **w.run.summary()} for m, w in zip(METHODS, ways, strict=True)}
        print(
            json.dumps(
                {
                    **results,
                    "page": str(path),
                    "explorer": str(explorer),
                    "seconds": time.perf_counter() - started,
                }
            )
        )
        return
    console = PlainConsole()
    title = f"{base.task}, {base.horizon} symbols, {base.iterations:,} iterations at most"
    console.print(results_table(title, COLUMNS, [result_cells(way) for way in ways]))
    console.print(f"{duration(time.perf_counter() - started)} in all; the same as a page:")
    print(path.resolve())
    console.print("and a page in which these three models answer you; open it in a browser:")
    print(explorer.resolve())


COLUMNS = ["trained", "iterations", "ID", "OOD", "tokens", "time per answer"]


def result_cells(way: Way) -> list[str]:
    summary = way.run.summary()
    return [
        way.name,
        f"{summary['iterations']:,}",
        percent(summary["id_accuracy"]),
        percent(summary["ood_accuracy"]),
        f"{summary['response_length']:.1f}",
        f"{1e6 * way.seconds_per_answer:,.0f} µs",
    ]


def measure_ways(runs: list[Run], device: str) -> list[Way]:
    """Open the runs and time their answers, in turns, so that all meet the same noise of the machine."""
    from internalize.analysis.open_run import open_chain

    chains = [open_chain(run.path, device) for run in runs]
    predictors = [chain.predictor() for chain in chains]
    experiment = chains[0].experiment
    shape = (TIMED_ANSWERS, experiment.config.horizon)
    symbols = experiment.inputs.sample(shape, Streams(0, experiment.device)("demo/timing"))
    times: list[list[float]] = [[] for _ in runs]
    for repeat in range(4):
        for i, predictor in enumerate(predictors):
            start = time.perf_counter()
            predictor.generate(symbols)
            if repeat > 0:  # the first one warms up
                times[i].append(time.perf_counter() - start)
    medians = [python_statistics.median(t) / TIMED_ANSWERS for t in times]
    return [Way(*way) for way in zip(METHODS.values(), runs, medians, strict=True)]


def demo_page(ways: list[Way], config: ChainConfig, explorer: str) -> str:
    """explorer: the address of the page in which the models answer, seen from this one."""
    internalized = ways[-1]
    provenance = internalized.run.provenance()
    return page.page(
        headline(internalized.run),
        f"A transformer of depth {config.model.depth} and width {config.model.width} reads "
        f"{config.horizon} digits, each 0, 1 or 2, and says what is left when their sum is divided by 3. "
        f"The same network was trained in three ways, each until it had learned its task or for "
        f"{config.iterations:,} iterations (seed {config.seed}).",
        [
            *(page.told(*paragraph) for paragraph in story(ways)),
            page.link(explorer, "Ask these three networks yourself"),
            page.heading("In numbers"),
            page.table(COLUMNS, [result_cells(way) for way in ways]),
            page.paragraph(
                "ID: accuracy on inputs drawn as in training, of which hardly any was ever seen there. "
                "OOD: on inputs in which large digits are more frequent. "
                "An answer's tokens include the end token; each costs one forward pass. Time: answers made "
                "a thousand at once."
            ),
            page.heading("The words are taken away"),
            page.figure(
                inline_svg(
                    accuracy_curve(internalized.run), "Accuracy of the internalized model over training"
                ),
                "Final-state accuracy over training. At each dotted line one more state of the chain is no "
                "longer shown, and accuracy may fall until the model can do without it; after the last one "
                "the model answers with the final state alone. The line across is chance.",
            ),
            page.heading("Go on"),
            page.preformatted(
                f"internalize show {internalized.run.path} --examples 10\n"
                f"internalize evaluate {internalized.run.path} --inputs binomial:0.6\n"
                "internalize train --preset laptop --task C5 --horizon 12"
            ),
        ],
        f"internalize {provenance['internalize']}, torch {provenance['torch']}, {provenance['processor']}, "
        f"{provenance['threads']} thread for each run, {provenance['created']}",
    )


def headline(run: Run) -> str:
    summary = run.summary()
    if summary["internalized"]:
        return "The words go, the answer stays"
    unfinished = summary["stage"] < summary["stages"]
    return "The words did not all go" if unfinished else "The words go, and some answers with them"


GUESSING = 0.05
"""An accuracy is called guessing where it is no more than so much above chance."""


def story(ways: list[Way]) -> list[tuple[str, str]]:
    """What happened, in three short paragraphs, with the numbers of these runs."""
    summaries = [way.run.summary() for way in ways]
    out_loud, answer_only, internalized = summaries
    right = [percent(summary["id_accuracy"]) for summary in summaries]
    took = [f"{summary['iterations']:,} iterations" for summary in summaries]
    tokens = [f"{summary['response_length']:.0f} tokens" for summary in summaries]
    guesses = answer_only["id_accuracy"] < 1 / 3 + GUESSING
    faster = ways[0].seconds_per_answer / ways[2].seconds_per_answer
    if internalized["internalized"]:
        end = (
            f"After {took[2]} it says the answer at once: {tokens[2]} instead of {tokens[0]}, "
            f"{faster:.1f} times as fast, and right on {right[2]} of new inputs."
        )
    else:
        reached = f"stage {internalized['stage']} of {internalized['stages']}"
        end = (
            f"It did not go through: after {took[2]} it is at {reached}, writes {tokens[2]}, "
            f"and is right on {right[2]} of new inputs."
        )
    return [
        (
            "Out loud.",
            f"It writes down every sum on the way; an answer has {tokens[0]}, with its end. "
            + (f"So it learned the task in {took[0]}, and" if out_loud["succeeded"] else f"After {took[0]} it")
            + f" is right on {right[0]} of new inputs.",
        ),
        (
            "Answer only, never a chain.",
            f"It should say the answer alone, from the beginning. After {took[1]} it is right on {right[1]}"
            + ("; guessing would give 33.3 %." if guesses else " of new inputs."),
        ),
        (
            "Internalized.",
            "First it learned out loud. Then the sums were taken away, from the first one on, one at each "
            f"stage. {end}",
        ),
    ]


def accuracy_curve(run: Run) -> Any:
    """ID and OOD accuracy over iterations, stage ends marked."""
    figure, axes = new_figure(width=8.0, height=3.8)
    accuracy_over_training(axes, list(run.metrics("evaluation")), chance=1 / 3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure
