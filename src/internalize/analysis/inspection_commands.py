"""`internalize matrix`, `profile` and `audit`: what a run still answers, and when it no longer does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rich.console import Console

from internalize.analysis.audit import Finding, audit
from internalize.analysis.inspection import InspectionArguments
from internalize.analysis.matrix import Matrix, matrix
from internalize.analysis.opening import OpenChain, open_chain
from internalize.analysis.profile import Profile, profile
from internalize.display.terminal import errors_console, percent, results_table
from internalize.errors import require


@dataclass(frozen=True)
class MatrixArguments(InspectionArguments):
    """Accuracy of every saved stage at every answer budget, ID and OOD, free-running and teacher-forced."""

    samples: int = 250
    """Sequences of each distribution; all cells answer the same ones. The cost grows with T³ in all."""
    stages: tuple[int, ...] = ()
    """Only these stages; all that were kept if not given."""


def matrix_command(arguments: MatrixArguments) -> None:
    from internalize.analysis.drawing import draw_matrix

    chain = open_chain(arguments.run, arguments.device)
    unknown = sorted(set(arguments.stages) - set(chain.stages()))
    require(not unknown, "stages", f"kept are the stages {chain.stages()}, not {unknown}")
    with errors_console().status("matrix") as status:
        found = matrix(chain, arguments.samples, arguments.seed, arguments.stages, status.update)
    out = arguments.folder(chain.run.path)
    out.csv("matrix", [cell.row() for cell in found.cells])
    out.json("matrix", found.to_json())
    out.figure("matrix", draw_matrix(found))
    arguments.present(found.to_json(), out, partial(_print_matrix, chain, found))


def _print_matrix(chain: OpenChain, found: Matrix, console: Console) -> None:
    console.print(_matrix_table(chain, found))
    for name in found.inputs:
        lost = found.chain_forgotten(name)
        if lost is not None:
            console.print(f"{name.upper()}: the full chain, once served, is lost from stage {lost} on")


def _matrix_table(chain: OpenChain, found: Matrix) -> object:
    """The budgets that matter most: one state, what the stage trained, and the full chain."""
    T, rows = found.horizon, []
    for stage in found.stages:
        own = min(len(chain.own_shown(stage)), T)
        cells = [found.cell(stage, k, "id", "forced") for k in (1, own, T)]
        cells += [found.cell(stage, own, "ood", "forced"), found.cell(stage, T, "id", "teacher")]
        served = found.served(stage)
        budgets = _ranges(served) if served else "none"
        rows.append([str(stage), str(own), *(percent(cell.right.value) for cell in cells), budgets])
    columns = ["stage", "own K", "K=1", "at own K", f"K={T}", "own K, OOD", f"K={T}, given", "serves K"]
    n = found.cells[0].right.trials
    title = f"{found.title}: final state right, {n:,} inputs a cell (intervals in matrix.csv)"
    return results_table(title, columns, rows)


def _ranges(numbers: list[int]) -> str:
    """[1, 2, 3, 7] as `1–3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts)


@dataclass(frozen=True)
class ProfileArguments(InspectionArguments):
    """Accuracy as the inputs leave the training distribution, and on rare final states."""

    stage: int | None = None
    """The weights at the end of this stage; the final ones if not given."""
    samples: int = 1_000
    """Sequences of each distribution."""
    points: int = 11
    """Values of p, and of a symbol's probability, from 0 to 1."""


def profile_command(arguments: ProfileArguments) -> None:
    from internalize.analysis.drawing import draw_profile

    chain = open_chain(arguments.run, arguments.device)
    with errors_console().status("profile"):
        found = profile(chain, arguments.stage, arguments.samples, arguments.points, arguments.seed)
    out = arguments.folder(chain.run.path)
    out.csv("profile", found.rows())
    out.json("profile", found.to_json())
    out.figure("profile", draw_profile(found))
    arguments.present(found.to_json(), out, partial(_print_profile, found))


def _print_profile(found: Profile, console: Console) -> None:
    rows = [[f"{p.x:.2f}", p.mode, str(p.right), f"{100 * p.chance:.1f} %"] for p in found.binomial]
    console.print(results_table(f"{found.title}: binomial inputs", ["p", "asked", "accuracy", "chance"], rows))
    rows = [
        [f"{symbol}", p.mode, f"{p.x:.2f}", str(p.right)]
        for symbol, points in found.bias.items()
        for p in sorted(points, key=lambda p: p.right.value)[:1]
    ]
    columns = ["symbol", "asked", "its probability", "accuracy"]
    console.print(results_table("where each symbol's share hurts most", columns, rows))
    rows = [
        [
            s.state,
            s.inputs.upper(),
            s.mode,
            f"{100 * s.frequency:.2f} %",
            str(s.right) if s.right else "never seen",
        ]
        for s in found.states
    ]
    columns = ["final state", "inputs", "asked", "how often", "accuracy"]
    console.print(results_table("final states, rarest first", columns, rows))


@dataclass(frozen=True)
class AuditArguments(InspectionArguments):
    """What a mixture model does with right, wrong, absent and contradictory length tokens."""

    samples: int = 1_000
    """Sequences of each distribution; every hint is tried on the same ones."""


def audit_command(arguments: AuditArguments) -> None:
    chain = open_chain(arguments.run, arguments.device)
    with errors_console().status("audit"):
        found = audit(chain, arguments.samples, arguments.seed)
    rows = [finding.row() for finding in found]
    report = {"run": chain.title, "findings": rows}
    out = arguments.folder(chain.run.path)
    out.csv("audit", rows)
    out.json("audit", report)
    arguments.present(report, out, partial(_print_audit, chain.title, found))


def _print_audit(title: str, found: list[Finding], console: Console) -> None:
    for name in ("id", "ood"):
        console.print(_audit_table(f"{title}, {name.upper()}", [f for f in found if f.inputs == name]))


def _audit_table(title: str, found: list[Finding]) -> object:
    columns = ["hint", "after q_0", "right", "as long as asked", "exact chain", "tokens"]
    rows = []
    for f in found:
        rates = [percent(rate.value) for rate in (f.right, f.obeyed, f.exact)]
        rows.append([f.kind, f.hint, *rates, f"{f.length:.2f}"])
    n = found[0].right.trials
    table = results_table(f"{title}: {n:,} inputs a hint (intervals in audit.csv)", columns, rows)
    table.columns[1].justify = "left"
    for column in table.columns[:2]:
        column.no_wrap = True
    return table
