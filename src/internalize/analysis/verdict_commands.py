"""`internalize check`, `probe` and `diagnose`: did it really internalize, what is inside, what went wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape

from internalize.analysis.checking import Named, check, choose_inputs, find_predictor
from internalize.analysis.commands import Device
from internalize.analysis.diagnosis import Diagnosis, diagnose
from internalize.analysis.evidence import gather
from internalize.analysis.hidden import Hidden, look_inside
from internalize.analysis.inspection import InspectionArguments
from internalize.analysis.opening import open_chain
from internalize.analysis.output import OutputFolder
from internalize.configs.trust import TrustOption
from internalize.display.terminal import errors_console, results_table

CLAUSES = {
    "same_class": "same class of models",
    "different_weights": "different weights",
    "agreement": "same answer on every input",
    "risk": "risks within ε",
    "faster": "less time on every input",
}

WARM_UP = 256
"""Inputs that each model answers before it is timed."""


@dataclass(frozen=True)
class CheckArguments(TrustOption):
    """Does FAST internalize SLOW, by the paper's definition? Models are named RUN[@STAGE][:BUDGET].

    The budget counts the answer's tokens with EOS. RUN --against RUN@1 asks whether the final model
    internalized the chain of its own stage 1; RUN:2 is asked for, or made to give, the direct answer. The exit
    code is 1 if a clause fails.
    """

    fast: Annotated[str, tyro.conf.Positional]
    """The model that should have internalized."""
    against: str
    """The slow one: a model that writes its chain."""
    epsilon: float | None = None
    """Check the distributional definition with this ε instead of the strict one."""
    inputs: str | None = None
    """all, uniform, binomial:p or weights:…; all where they are few, else the run's training inputs."""
    samples: int | None = None
    """Inputs to draw where not all are looked at: ten thousand if not given."""
    seed: int = 0
    """Which inputs are drawn."""
    out: Path | None = None
    """Folder for the verdict as JSON; none is written if not given."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""


def check_command(arguments: CheckArguments) -> int:
    fast = find_predictor(arguments.fast, arguments.device, "fast")
    slow = find_predictor(arguments.against, arguments.device, "against")
    weighted = arguments.epsilon is not None
    inputs = choose_inputs(fast.chain, arguments.inputs, arguments.samples, arguments.seed, weighted)
    with errors_console().status("comparing"):
        for named in (fast, slow):
            _warm_up(named)
        found = check(fast, slow, inputs, arguments.epsilon)
    if arguments.out is not None:
        OutputFolder(arguments.out).json("check", found)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _print_check(Console(highlight=False), found)
    return 0 if found["holds"] else 1


def _warm_up(named: Named) -> None:
    """Answer once before the clock runs: the first answer compiles what all others use."""
    own = named.chain.draw(named.chain.experiment.inputs, WARM_UP, 0, "check/warm up")
    named.predictor.answer(own.symbols)


def _print_check(console: Console, found: dict[str, Any]) -> None:
    rows = [
        [
            CLAUSES[c["name"]],
            "[green]holds[/green]" if c["holds"] else "[red]fails[/red]",
            escape(c["evidence"]),
        ]
        for c in found["clauses"]
    ]
    title = f"{found['fast']} against {found['slow']}, {found['definition']} definition"
    table = results_table(title, ["clause", "", "what was seen"], rows)
    table.columns[2].justify = "left"
    console.print(table)
    console.print(verdict_line(found))
    if found.get("counterexample"):
        console.print(f"They disagree, for example, on σ = {' '.join(map(str, found['counterexample']))}")
    console.print(f"Seconds for all answers: {found['fast_seconds']:.2f} and {found['slow_seconds']:.2f}.")


def verdict_line(found: dict[str, Any]) -> str:
    """One sentence: the verdict and how far it can be trusted."""
    if not found["holds"]:
        failed = ", ".join(CLAUSES[name] for name in found["failed"])
        return f"It does not internalize. Not met: {failed}."
    if found["definition"] == "distributional":
        return f"It internalizes up to ε = {found['epsilon']:g} on {found['distribution']}."
    if found["exhaustive"]:
        return f"It internalizes: shown on all {found['inputs']:,} inputs."
    return (
        f"No clause fails on {found['inputs']:,} inputs from {found['distribution']}: with 95 % confidence "
        f"they disagree on less than {found['disagreement_bound']:.3%} of them."
    )


@dataclass(frozen=True)
class ProbeArguments(InspectionArguments):
    """Where in the model can each state be read? Linear probes with controls, logit lens, attention."""

    stage: int | None = None
    """The weights at the end of this stage; the final ones if not given."""
    budget: int | None = None
    """Mixtures: tokens of the answer that is read, EOS included; the direct answer if not given."""
    samples: int = 3_000
    """Inputs, two thirds to fit the probes and the rest to test them."""


def probe_command(arguments: ProbeArguments) -> None:
    from internalize.analysis.hidden_drawing import draw_attention, draw_layer_maps, draw_lens, draw_probes

    chain = open_chain(arguments.run, arguments.device)
    with errors_console().status("probing"):
        found = look_inside(chain, arguments.stage, arguments.samples, arguments.seed, arguments.budget)
    out = arguments.folder(chain.run.path)
    out.csv("probe", found.rows())
    out.json("probe", found.to_json())
    out.figure("probe", draw_probes(found))
    out.figure("probe-layers", draw_layer_maps(found))
    out.figure("lens", draw_lens(found))
    out.figure("attention", draw_attention(found))
    arguments.present(found.to_json(), out, partial(_print_hidden, found))


def _print_hidden(found: Hidden, console: Console) -> None:
    rows = []
    for t in range(1, found.horizon + 1):
        best = found.best(t)
        where = f"{best.position}, {'input' if best.layer == 0 else f'layer {best.layer}'}"
        controls = [f"{100 * value:.1f} %" for value in (best.untrained, best.shuffled, best.chance)]
        rows.append([f"q{t}", "yes" if best.spoken else "no", where, str(best.right), *controls])
    title = f"{found.title}, stage {found.stage}: where each state can be read before it is spoken"
    columns = ["state", "spoken", "best place", "probe", "untrained", "shuffled", "chance"]
    console.print(results_table(title, columns, rows))
    rows = [
        [
            f"q{mass.said}",
            f"layer {mass.layer}",
            f"q{mass.after}, " + " … ".join(f"σ{t}" for t in sorted({mass.after + 1, mass.said})),
            f"{mass.needed:.2f}",
            f"{mass.needed_strongest:.2f}",
            f"{mass.needed_if_even:.2f}",
            f"{mass.previous:.2f}",
        ]
        for mass in found.mass
    ]
    columns = ["says", "layer", "needs", "on these σ", "strongest head", "if even", "on that state"]
    console.print(results_table("attention on what the next state needs", columns, rows))


@dataclass(frozen=True)
class DiagnoseArguments(InspectionArguments):
    """What went right or wrong in a run, in plain words and numbers, and what to try."""

    samples: int = 1_000
    """Fresh sequences for the losses by position."""


def diagnose_command(arguments: DiagnoseArguments) -> None:
    from internalize.analysis.drawing import draw_diagnosis

    chain = open_chain(arguments.run, arguments.device)
    evidence = gather(chain, arguments.samples, arguments.seed)
    found = diagnose(evidence)
    out = arguments.folder(chain.run.path)
    out.json("diagnosis", found.to_json())
    if evidence.stages:
        out.figure("diagnosis", draw_diagnosis(evidence, found))
    arguments.present(found.to_json(), out, partial(_print_diagnosis, found))


def _print_diagnosis(found: Diagnosis, console: Console) -> None:
    console.print(f"[bold]{escape(found.title)}[/bold]: {escape(found.headline)}")
    for text in found.findings:
        console.print(f"• {escape(text)}")
    if found.suggestions:
        console.print("[bold]To try[/bold]")
    for suggestion in found.suggestions:
        console.print(f"• {escape(suggestion.action)}, because {escape(suggestion.because)}.")
