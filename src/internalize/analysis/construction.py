"""`internalize construct`: a transformer written by hand. Is it exact, with what margins, and how does one that
was trained look beside it?
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress as ProgressBar

from internalize.analysis.arguments import ConstructArguments
from internalize.analysis.open_run import open_chain
from internalize.analysis.output import OutputFolder
from internalize.configs.files import require_writable
from internalize.constructions.certificate import Certificate, certify
from internalize.constructions.comparison import TrainedComparison, TrainedModel, compare
from internalize.constructions.construction import Construction
from internalize.constructions.counter import CounterConstruction, build_counter
from internalize.constructions.exactness import (
    DRAWS,
    PRECISIONS,
    Build,
    Margins,
    Progress,
    find_margins,
    random_inputs,
)
from internalize.constructions.general import build_general, compare_sizes
from internalize.display.terminal import PlainConsole, TitledTable
from internalize.errors import BadInput, require
from internalize.tasks.groups import counter
from internalize.tasks.names import parse_task
from internalize.tasks.semiautomaton import Semiautomaton

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED_INPUTS = 2_000
"""Inputs on which a trained model is compared, half of them to fit the readers."""


def construct_command(arguments: ConstructArguments) -> None:
    """Build a transformer by hand, certify that it is exact, find its margins, draw it."""
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    if arguments.out is not None:
        require_writable(arguments.out)
    # asked for first, so that a wrong name costs no time
    trained = None if arguments.against is None else load_trained(arguments.against)
    build = _builder(arguments) if trained is None else _builder_like(arguments, trained)
    construction = build(arguments.precision, None)
    console = PlainConsole(file=sys.stderr if arguments.json else sys.stdout)
    with _progress(not arguments.json) as progress:
        certificate = certify(construction, arguments.check, arguments.samples, arguments.seed, progress)
    report: dict[str, Any] = certificate.to_json()
    figures: dict[str, Figure] = {}
    if not arguments.json:
        print_certificate(certificate, console)
    if arguments.draw:
        figures |= _draw(construction, arguments)
    if arguments.margins:
        from internalize.constructions.comparison import draw_margins

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


def _builder(arguments: ConstructArguments, task: Semiautomaton | None = None) -> Build:
    """Which construction is meant: a counter by its order or name, or any task with --general.

    task: of a run, whatever its name, if the user named none.
    """
    order, start = arguments.order, arguments.initial_state
    T = 25 if arguments.horizon is None else arguments.horizon
    require(order is None or arguments.task is None, "task", "give either an order or a task, not both")
    if order is None and arguments.task is None and task is None:
        order = 12
    if arguments.general:
        general = task or parse_task(arguments.task or f"C{order}")
        return lambda precision, beta: build_general(general, T, start, precision, beta)
    n = _order_of(arguments.task or "", task) if order is None else order
    return lambda precision, beta: build_counter(n, T, start or 0, precision, beta)


def _order_of(name: str, task: Semiautomaton | None) -> int:
    """n of a counter C_n; what a run's task is called says nothing, its table does."""
    if task is not None:
        name = task.name
        if np.array_equal(task.transitions, counter(task.states).transitions):
            return task.states
    elif (number := name.removeprefix("C").removeprefix("_")).isdecimal():
        return int(number)
    raise BadInput("task", f"theorem 3 is about counters C_n; use --general for {name!r}")


def _builder_like(arguments: ConstructArguments, trained: TrainedModel) -> Build:
    """What was not said is taken from the run."""
    silent = arguments.order is None and arguments.task is None
    horizon, start, renderer = arguments.horizon, arguments.initial_state, trained.renderer
    completed = replace(
        arguments,
        horizon=renderer.horizon if horizon is None else horizon,
        initial_state=renderer.initial_state if start is None else start,
    )
    return _builder(completed, trained.task if silent else None)


def load_trained(path: str) -> TrainedModel:
    """The final model of a chain run."""
    chain = open_chain(path, device="cpu", field="against")
    moment, experiment = chain.moment(), chain.experiment
    name = chain.title if moment.status == "done" else f"{chain.title} ({moment})"
    return TrainedModel(name, experiment.task, chain.transformer(), experiment.renderer)


def _draw(construction: Construction, arguments: ConstructArguments) -> dict[str, Figure]:
    from internalize.constructions.comparison import draw_attention, draw_registers, draw_sizes

    symbols = random_inputs(construction.symbols, construction.horizon, 1, arguments.seed)[0]
    return {
        "attention": draw_attention(construction, symbols),
        "registers": draw_registers(construction, symbols),
        "sizes": draw_sizes(compare_sizes(range(2, 65), construction.horizon), construction.horizon),
    }


def _compare(
    construction: Construction, trained: TrainedModel, arguments: ConstructArguments, console: Console
) -> tuple[dict[str, Any], dict[str, Figure]]:
    from internalize.constructions.comparison import draw_attention_comparison, draw_readable_comparison

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
    name = construction.name.replace("/", "-")
    folder = OutputFolder(arguments.out or Path(f"construct-{name}-T{construction.horizon}"))
    folder.json("certificate", report, indent=2)
    folder.tensors("weights", construction.network.state_dict())
    for stem, figure in figures.items():
        folder.figure(stem, figure)
    console.print(folder.note())


@contextmanager
def _progress(visible: bool) -> Iterator[Progress | None]:
    """A bar on the terminal while inputs are checked."""
    if not (visible and sys.stderr.isatty()):
        yield None
        return
    with ProgressBar(console=PlainConsole(stderr=True), transient=True) as bar:
        job = bar.add_task("checking inputs", total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total)


# Tables for the terminal ---------------------------------------------------------------------------------


def print_certificate(certificate: Certificate, console: Console) -> None:
    """Sizes, exactness, and the inequalities with their slack."""
    built, result = certificate.construction, certificate.check
    kind = "theorem 3" if isinstance(built, CounterConstruction) else "general construction"
    where = f"{built.name}, T = {built.horizon}, q_0 = {built.initial_state}"
    sizes = TitledTable(f"{where}: {kind}, {built.precision}")
    for column in ("quantity", "built", "theorem", "formula"):
        sizes.add_column(column, justify="right" if column in ("built", "theorem") else "left")
    for quantity in certificate.quantities:
        formula = quantity.formula
        if quantity.key == "largest_weight":
            formula += f"; ratio C = {certificate.weight_ratio:.3f}"
        sizes.add_row(quantity.name, _number(quantity.value), _number(quantity.theorem), formula)
    console.print(sizes)
    _print_inequalities(certificate, console)
    if result.exact:
        console.print(f"[bold green]exact[/] on {result.description}")
    else:
        share = result.wrong / result.inputs_checked
        console.print(f"[bold red]not exact[/]: {result.wrong:,} wrong ({share:.2%}) of {result.description}")
        console.print(f"  first wrong input: {' '.join(map(str, result.first_wrong or ()))}")
    if not certificate.proof_holds:
        failed = sum(not inequality.holds for inequality in certificate.inequalities)
        line = f"{failed} inequalities of the proof fail here: nothing is promised beyond the inputs checked"
        console.print(f"[yellow]{line}[/]")


def _print_inequalities(certificate: Certificate, console: Console) -> None:
    plan = certificate.construction.plan
    title = (
        f"the proof's inequalities, worst of {certificate.inputs_measured} inputs "
        f"(β = {plan.beta:.4g}, Δ = {plan.gap:.3g}, η = {plan.eta:.3g})"
    )
    table = TitledTable(title)
    for column in ("layer", "quantity", "measured", "must be", "slack", ""):
        table.add_column(column, justify="left" if column in ("quantity", "") else "right")
    for inequality in certificate.inequalities:
        sign = "≥" if inequality.sense == "at least" else "≤"
        mark = "[green]holds[/]" if inequality.holds else "[red]fails[/]"
        table.add_row(
            str(inequality.layer),
            inequality.name,
            f"{inequality.measured:.3g}",
            f"{sign} {inequality.bound:.3g}",
            f"{inequality.slack:.3g}",
            mark,
            end_section=inequality.name == "position error",
        )
    console.print(table)


def print_margins(margins: Margins, console: Console) -> None:
    table = TitledTable(f"margins, exact on {margins.inputs} inputs (noise: {DRAWS} draws)")
    table.add_column("margin")
    table.add_column("found", justify="right")
    table.add_column("beside")
    beta, theorem = margins.smallest_beta, margins.theorem_beta
    share = "" if beta is None else f", {theorem / beta:.1f} times as much"
    table.add_row("smallest β", "none" if beta is None else f"{beta:.4g}", f"theorem {theorem:.4g}{share}")
    shares = ", ".join(f"{name} {_share(margins.precisions[name])}" for name in PRECISIONS)
    table.add_row("lowest precision", margins.lowest_precision or "none", shares)
    for kind, level in margins.largest_noise.items():
        what = "each weight times 1 + εξ" if kind == "relative" else "each weight plus εξ"
        table.add_row(f"largest {kind} noise ε", "none" if level is None else f"{level:.3g}", what)
    console.print(table)


def print_comparison(comparison: TrainedComparison, console: Console) -> None:
    """How often the final state can be read at the last position, layer by layer."""
    table = TitledTable(f"final state read at the last position, {comparison.inputs} inputs")
    table.add_column("model")
    table.add_column("modulus", justify="right")
    table.add_column("input, layer 1, 2, …")
    for side in (comparison.construction, comparison.trained):
        for modulus, share in side.readable.items():
            table.add_row(side.name, str(modulus), " ".join(f"{value:.0%}" for value in share[:, -1].tolist()))
    console.print(table)
    for side in (comparison.construction, comparison.trained):
        console.print(f"{side.name}: the first word is the final state on {side.accuracy:.1%} of the inputs")


def _share(value: float) -> str:
    return "exact" if value == 1.0 else f"{value:.1%} right"


def _number(value: float) -> str:
    return f"{value:,}" if float(value).is_integer() else f"{value:,.2f}"
