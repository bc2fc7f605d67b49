"""`internalize construct`: build a transformer by hand, certify it, find its margins, draw it, compare it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress as ProgressBar

from internalize.configs.folders import make_folder, require_writable
from internalize.configs.outputs import write_output
from internalize.configs.trust import TrustOption
from internalize.constructions.against import LoadRun, TrainedModel, compare
from internalize.constructions.certificate import certify
from internalize.constructions.construction import Construction, Precision
from internalize.constructions.counter import build_counter
from internalize.constructions.exactness import CheckKind, Progress, random_inputs
from internalize.constructions.general import build_general, compare_sizes
from internalize.constructions.margins import Build, find_margins
from internalize.constructions.tables import print_certificate, print_comparison, print_margins
from internalize.errors import BadInput, require
from internalize.tasks.names import parse_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED_INPUTS = 2_000
"""Inputs on which a trained model is compared, half of them to fit the readers."""


@dataclass(frozen=True)
class ConstructArguments(TrustOption):
    """A transformer written by hand: the log-depth counter of theorem 3, or the general construction."""

    order: int | None = None
    """n: the counter C_n is built; 12 if neither an order nor a task is given."""
    horizon: int | None = None
    """T, the number of input symbols; 25 if not given."""
    initial_state: int | None = None
    """q_0; the task's own if not given (0 for counters)."""
    general: bool = False
    """Build the general construction: transition maps, composed by an MLP of width O(|Q|²)."""
    task: str | None = None
    """A semiautomaton such as C7, S3 or a file, for --general; counters may be named so without it."""
    precision: Precision = "float64"
    """Number format of weights and activations."""
    check: CheckKind = "auto"
    """exhaustive: all inputs up to ten million, else random and adversarial ones; auto: up to 100 thousand."""
    samples: int = 10_000
    """Random inputs, where not all are checked."""
    seed: int = 0
    """Seed of the random inputs and of the weight noise."""
    margins: bool = False
    """Search the smallest β, the lowest precision and the largest weight noise that stay exact."""
    draw: bool = False
    """Draw attention, what each position holds, and the sizes of both constructions against n."""
    against: str | None = None
    """A run: put its attention and readable residues beside the construction's. Task, horizon and q_0 are
    the run's if not given."""
    out: Path | None = None
    """Folder for certificate, weights and pictures; pictures go to `construct-<task>-T<T>` if not given."""
    json: bool = False
    """Print the certificate as JSON instead of tables."""


def construct_command(arguments: ConstructArguments, load_run: LoadRun | None = None) -> None:
    """Build a transformer by hand, certify that it is exact, find its margins, draw it."""
    # `load_run` turns the text of --against into a trained model; the command line gives it, see `LoadRun`.
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    if arguments.out is not None:
        require_writable(arguments.out)
    trained = _load(arguments, load_run)
    build = _builder(
        arguments if trained is None else _like_the_run(arguments, trained), own=arguments.task is not None
    )
    construction = build(arguments.precision, None)
    console = Console(file=sys.stderr if arguments.json else sys.stdout)
    with _progress(not arguments.json) as progress:
        certificate = certify(construction, arguments.check, arguments.samples, arguments.seed, progress)
    report: dict[str, Any] = certificate.to_json()
    figures: dict[str, Figure] = {}
    if not arguments.json:
        print_certificate(certificate, console)
    if arguments.draw:
        figures |= _draw(construction, arguments)
    if arguments.margins:
        from internalize.constructions.drawing import draw_margins

        margins = find_margins(build, arguments.precision, arguments.seed)
        report["margins"] = margins.to_json()
        figures["margins"] = draw_margins(margins, f"{construction.name}, T = {construction.horizon}: margins")
        if not arguments.json:
            print_margins(margins, console)
    if trained is not None:
        report["comparison"], drawn = _compare(construction, trained, arguments, console)
        figures |= drawn
    if arguments.json:
        print(json.dumps(report, indent=2))
    _write(construction, arguments, report, figures, console)


def _builder(arguments: ConstructArguments, own: bool) -> Build:
    """Which construction is meant: a counter by its order or name, or any task with --general.

    own: whether the user named the task. A run may call its task by any name, also by that of a file.
    """
    order, start = arguments.order, arguments.initial_state
    T = 25 if arguments.horizon is None else arguments.horizon
    require(order is None or arguments.task is None, "task", "give either an order or a task, not both")
    if order is None and arguments.task is None:
        order = 12
    if order is None and not arguments.general:
        name = (arguments.task or "").removeprefix("C").removeprefix("_")
        if not name.isdecimal():
            message = f"theorem 3 is about counters C_n; use --general for {arguments.task!r}"
            raise BadInput("task", message)
        order = int(name)
    if arguments.general:
        task = parse_task(arguments.task or f"C{order}", copies=None if own else {})
        return lambda precision, beta: build_general(task, T, start, precision, beta)
    n = order or 0
    return lambda precision, beta: build_counter(n, T, start or 0, precision, beta)


def _like_the_run(arguments: ConstructArguments, trained: TrainedModel) -> ConstructArguments:
    """What was not said is taken from the run."""
    silent = arguments.order is None and arguments.task is None
    horizon, start, renderer = arguments.horizon, arguments.initial_state, trained.renderer
    return replace(
        arguments,
        task=trained.task if silent else arguments.task,
        horizon=renderer.horizon if horizon is None else horizon,
        initial_state=renderer.initial_state if start is None else start,
    )


def _load(arguments: ConstructArguments, load_run: LoadRun | None) -> TrainedModel | None:
    """The run to compare with: asked for first, so that a wrong name costs no time."""
    if arguments.against is None:
        return None
    if load_run is None:
        raise BadInput("against", "runs cannot be read here; use the command line `internalize construct`")
    return load_run(arguments.against)


def _draw(construction: Construction, arguments: ConstructArguments) -> dict[str, Figure]:
    from internalize.constructions.drawing import draw_attention, draw_registers, draw_sizes

    symbols = random_inputs(construction.symbols, construction.horizon, 1, arguments.seed)[0]
    return {
        "attention": draw_attention(construction, symbols),
        "registers": draw_registers(construction, symbols),
        "sizes": draw_sizes(compare_sizes(range(2, 65), construction.horizon), construction.horizon),
    }


def _compare(
    construction: Construction, trained: TrainedModel, arguments: ConstructArguments, console: Console
) -> tuple[dict[str, Any], dict[str, Figure]]:
    from internalize.constructions.comparison_drawing import draw_attention_comparison, draw_readable_comparison

    symbols = random_inputs(construction.symbols, construction.horizon, COMPARED_INPUTS, arguments.seed)
    comparison = compare(construction, trained, symbols)
    if not arguments.json:
        print_comparison(comparison, console)
    figures = {
        "against-attention": draw_attention_comparison(comparison),
        "against-readable": draw_readable_comparison(comparison),
    }
    return comparison.to_json(), figures


def _write(
    construction: Construction,
    arguments: ConstructArguments,
    report: dict[str, Any],
    figures: dict[str, Figure],
    console: Console,
) -> None:
    """Certificate, weights and pictures, if there is a folder or something to put into one."""
    if arguments.out is None and not figures:
        return
    from safetensors.torch import save as as_safetensors

    from internalize.display.plots import save

    name = construction.name.replace("/", "-")
    folder = arguments.out or Path(f"construct-{name}-T{construction.horizon}")
    make_folder(folder)
    write_output(folder / "certificate.json", json.dumps(report, indent=2) + "\n")
    write_output(folder / "weights.safetensors", as_safetensors(construction.network.state_dict()))
    written = [path for stem, figure in figures.items() for path in save(figure, folder / stem)]
    names = ", ".join(["certificate.json", "weights.safetensors", *(path.name for path in written)])
    console.print(f"written to {folder}: {names}")


@contextmanager
def _progress(visible: bool) -> Iterator[Progress | None]:
    """A bar on the terminal while inputs are checked."""
    if not (visible and sys.stderr.isatty()):
        yield None
        return
    with ProgressBar(console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task("checking inputs", total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total)
