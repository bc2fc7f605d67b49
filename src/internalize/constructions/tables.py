"""Certificates and margins as tables for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from internalize.constructions.against import Comparison
from internalize.constructions.certificate import Certificate
from internalize.constructions.counter import CounterConstruction
from internalize.constructions.margins import DRAWS, PRECISIONS, Margins


def print_certificate(certificate: Certificate, console: Console) -> None:
    """Sizes, exactness, and the inequalities with their slack."""
    built, result = certificate.construction, certificate.check
    kind = "theorem 3" if isinstance(built, CounterConstruction) else "general construction"
    where = f"{built.name}, T = {built.horizon}, q_0 = {built.initial_state}"
    sizes = Table(title=f"{where}: {kind}, {built.precision}")
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
    table = Table(title=title)
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
    table = Table(title=f"margins, exact on {margins.inputs} inputs (noise: {DRAWS} draws)")
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


def print_comparison(comparison: Comparison, console: Console) -> None:
    """How often the final state can be read at the last position, layer by layer."""
    table = Table(title=f"final state read at the last position, {comparison.inputs} inputs")
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
