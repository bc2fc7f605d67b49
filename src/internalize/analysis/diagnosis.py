"""`internalize diagnose`: what went right or wrong in a run, in plain words, and what to try?

RunEvidence in, diagnosis out: `evidence.py` gathers what is known and says what to try next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape

from internalize.analysis.arguments import DiagnoseArguments
from internalize.analysis.evidence import (
    RunEvidence,
    StageEvidence,
    Suggestion,
    Symptoms,
    gather,
    suggest,
    trend,
)
from internalize.analysis.open_run import open_chain
from internalize.display.plots import INK, PALETTE, accuracy_axis, new_figure, rate_line, ticks
from internalize.display.terminal import bulleted, percent
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Condition = Literal[
    "internalized",
    "succeeded",
    "chain not learned",
    "broke",
    "direct answer not learned",
    "unfinished",
    "failed",
]
HEADLINES: dict[Condition, str] = {
    "internalized": "It internalized: the final state is right and no other state is spoken.",
    "succeeded": "It succeeded, with states still spoken.",
    "chain not learned": "The chain itself was never learned: stage 1 ended below the bar.",
    "broke": "The chain was learned, but taking words away broke it.",
    "direct answer not learned": "The direct answer was not learned.",
    "unfinished": "The run is not finished.",
    "failed": "The run failed.",
}


@dataclass(frozen=True)
class Diagnosis:
    title: str
    place: str
    """Where the run is, as a command takes it."""
    status: str
    """Of the run: done, interrupted, running or failed."""
    stage: int | None
    """The last stage that it reached."""
    verdict: Condition
    broke_at: int | None
    """The stage from which on no stage passed the bar; 1 if the chain itself was not learned."""
    trend: str | None
    """improving, stalled or unclear: the loss at the end of the stage that broke."""
    findings: tuple[str, ...]
    suggestions: tuple[Suggestion, ...]

    @property
    def headline(self) -> str:
        where = f" It broke at stage {self.broke_at}." if self.verdict == "broke" else ""
        found = HEADLINES[self.verdict] + where
        if self.status != "interrupted":
            return found
        resume = "The run was interrupted and can be resumed."
        return resume if self.verdict == "unfinished" else f"{resume} So far: {found}"

    @property
    def strict(self) -> str | None:
        """Where to ask for more than the word *internalized* says here."""
        asked = f"internalize check {self.place} --against {self.place}@1"
        return asked if self.verdict == "internalized" else None

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.title,
            "status": self.status,
            "stage": self.stage,
            "strict_definition": self.strict,
            "verdict": self.verdict,
            "headline": self.headline,
            "broke_at": self.broke_at,
            "trend": self.trend,
            "findings": list(self.findings),
            "suggestions": [{"try": s.action, "because": s.because} for s in self.suggestions],
        }


def diagnose(evidence: RunEvidence) -> Diagnosis:
    broken = broken_stage(evidence)
    verdict = _verdict(evidence, broken)
    curve = trend(broken.losses) if broken else None
    findings = list(_findings(evidence, verdict, broken))
    symptoms = Symptoms(verdict, broken, curve, _before(evidence, broken))
    return Diagnosis(
        title=evidence.title,
        place=evidence.place,
        status=evidence.state,
        stage=evidence.stages[-1].stage if evidence.stages else None,
        verdict=verdict,
        broke_at=broken.stage if broken and verdict in ("broke", "chain not learned") else None,
        trend=curve.kind if curve else None,
        findings=tuple(findings),
        suggestions=tuple(suggest(evidence, symptoms)),
    )


def broken_stage(evidence: RunEvidence) -> StageEvidence | None:
    """The first of the last stages that are all below the bar; None if the last measured stage passed it."""
    broken = None
    if evidence.internalized and evidence.state == "done":  # says the last measurement, which is the largest
        return None
    for stage in reversed([s for s in evidence.stages if s.target is not None]):
        if _passes(stage.target):
            return broken
        broken = stage
    return broken


def _passes(rate: Rate | None) -> bool:
    return rate is not None and rate.value > SUCCESS


def _before(evidence: RunEvidence, broken: StageEvidence | None) -> StageEvidence | None:
    earlier = [s for s in evidence.stages if broken and s.stage < broken.stage]
    return earlier[-1] if earlier else None


def _verdict(evidence: RunEvidence, broken: StageEvidence | None) -> Condition:
    if evidence.state == "failed":
        return "failed"
    done: Condition = "internalized" if evidence.internalized else "succeeded"
    if evidence.mixture and evidence.final is not None and evidence.chain is not None:
        direct = done if _passes(evidence.final) else "direct answer not learned"
        return direct if _passes(evidence.chain) else "chain not learned"
    if broken is None:
        return "unfinished" if evidence.final is None else done
    if evidence.total_stages == 1 and broken.shown == (evidence.horizon,):
        return "direct answer not learned"
    if evidence.state != "done" and not broken.ended:
        return "unfinished"  # the stage is still being trained
    return "chain not learned" if broken.stage == 1 else "broke"


def _findings(evidence: RunEvidence, verdict: Condition, broken: StageEvidence | None) -> list[str]:
    found = []
    if evidence.message:
        found.append(f"It stopped with: {evidence.message}")
    if evidence.gave_up:
        found.append(f"The controller gave up: {evidence.gave_up}.")
    found += [
        f"Stage {stage.stage} was lost, undone and tried again; attempts undone: {stage.undone}."
        for stage in evidence.stages
        if stage.undone
    ]
    found += _results(evidence)
    first = evidence.stages[0] if evidence.stages else None
    if first is not None and first.target is not None and not evidence.mixture:
        failed = "did not converge" if first.ended or evidence.state == "done" else "has not converged"
        word = "converged" if _passes(first.target) else failed
        later = " A later stage made up for it." if _dipped(first, broken) else ""
        found.append(
            f"Stage 1 ({first.label}) {word}: its last state is right for {first.target}, "
            f"after {first.iterations:,} iterations.{later}"
        )
    found += [_dip(stage) for stage in evidence.stages[1:] if _dipped(stage, broken)]
    if broken is not None and not evidence.mixture:
        found += _about_broken(evidence, broken)
    even = math.isclose(evidence.chance_loss, math.log(evidence.states), rel_tol=1e-6)
    what = f"= ln {evidence.states}" if even else "(the entropy of the answer)"
    found.append(
        f"Chance is {percent(evidence.chance)} (always the commonest answer), a loss of "
        f"{evidence.chance_loss:.3f} {what}."
    )
    return found


def _results(evidence: RunEvidence) -> list[str]:
    """What the finished run reaches."""
    if evidence.final is None:
        so_far = [f"The run is {evidence.state} after {evidence.done:,} of {evidence.iterations:,} iterations."]
        now = evidence.stages[-1] if evidence.stages else None
        if now is not None and now.stage > 1 and not now.ended:
            right = f"; its last state is right for {now.target} so far" if now.target else ""
            so_far.append(
                f"It is in stage {now.stage} ({now.label}), for {now.iterations:,} iterations{right}."
            )
        return so_far
    asked = "asked for the direct answer " if evidence.mixture else ""
    length = f", with {evidence.response_length:.2f} tokens in an answer" if evidence.response_length else ""
    found = [f"In the end, {asked}{evidence.final} of final states are right ID, {evidence.ood} OOD{length}."]
    if evidence.chain is not None:
        found.append(f"Asked for the full chain: {evidence.chain} ID, {evidence.chain_ood} OOD.")
    return found


def _dipped(stage: StageEvidence, broken: StageEvidence | None) -> bool:
    inside = broken is None or stage.stage < broken.stage
    return inside and stage.target is not None and not _passes(stage.target)


def _dip(stage: StageEvidence) -> str:
    return f"Stage {stage.stage} ended at {stage.target}, below the bar, but later stages recovered."


def _about_broken(evidence: RunEvidence, broken: StageEvidence) -> list[str]:
    """The stage that broke: how far below, where in the answer, and which way it was going."""
    reached = f"{broken.stage} of {evidence.total_stages}"
    still = evidence.state != "done" and not broken.ended
    how = "is being trained" if still else "is the first that does not recover"
    found = [
        f"Stage {reached} ({broken.label}) {how}: {broken.target} on its own last state after "
        f"{broken.iterations:,} iterations. In it, {trend(broken.losses).said()}."
    ]
    if not still and broken.stage == evidence.stages[-1].stage and broken.stage < evidence.total_stages:
        found.append(
            f"The training never left this stage: {evidence.total_stages - broken.stage} were to come."
        )
    losses = (evidence.position_losses or {}).get(broken.stage)
    if losses is None:
        found.append(f"The weights of stage {broken.stage} were not kept: its loss by position is unknown.")
        return found
    names = [*(f"q{t}" for t in broken.shown), "EOS"][: len(losses)]
    shown = ", ".join(f"{name} {loss:.3f}" for name, loss in zip(names, losses, strict=True))
    worst = max(range(len(losses)), key=losses.__getitem__)
    found.append(
        f"Loss by position there: {shown}. The worst is {names[worst]}, at "
        f"{100 * losses[worst] / evidence.chance_loss:.0f} % of the loss of chance."
    )
    return found


# The picture ---------------------------------------------------------------------------------------------


def draw_diagnosis(evidence: RunEvidence, diagnosis: Diagnosis) -> Figure:
    """The loss at the worst position through the stages, and accuracy at every stage's end."""
    figure, (left, right) = new_figure(1, 2, width=10.5, height=3.9)
    broken = broken_stage(evidence)
    at = 0
    for stage in evidence.stages:
        x = [at + (i + 1) * stage.iterations / max(1, len(stage.losses)) for i in range(len(stage.losses))]
        colour = PALETTE[1] if broken and stage.stage >= broken.stage else PALETTE[0]
        left.plot(x, stage.losses, color=colour, linewidth=1.3)
        at += stage.iterations
        left.axvline(at, color=INK, linewidth=0.5, alpha=0.25)
    left.axhline(evidence.chance_loss, color=INK, linestyle=":", linewidth=1.0)
    where = {"textcoords": "offset points", "xytext": (-3, 3), "ha": "right"}
    left.annotate("chance", (1, evidence.chance_loss), xycoords=("axes fraction", "data"), fontsize=8, **where)
    left.grid(False, axis="x")
    left.set(xlabel="iteration (thin lines: stage ends)", ylabel="training loss, worst answer position")
    left.set_ylim(0, 3 * evidence.chance_loss)  # a new stage often begins far above
    left.set_title("loss", fontsize=10)
    _stage_ends(right, evidence)
    figure.suptitle(f"{diagnosis.title}: {diagnosis.headline}", fontsize=10)
    return figure


def _stage_ends(axes: Any, evidence: RunEvidence) -> None:
    known = [(stage.stage, stage.target) for stage in evidence.stages if stage.target is not None]
    rate_line(axes, [s for s, _ in known], [rate for _, rate in known], "on the stage's own last state", 0)
    accuracy_axis(axes, evidence.chance)
    places = ticks(evidence.total_stages)
    axes.set_xticks([k + 1 for k in places])
    axes.set_xlim(0.5, evidence.total_stages + 0.5)
    axes.set(xlabel="stage", ylabel="last shown state right, ID")
    axes.set_title("accuracy at the end of each stage (dotted: chance)", fontsize=10)


# The command ---------------------------------------------------------------------------------------------


def diagnose_command(arguments: DiagnoseArguments) -> None:
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
    console.print(bulleted([escape(text) for text in found.findings]))
    if found.suggestions:
        console.print("[bold]To try[/bold]")
        tried = [f"{escape(s.action)}, because {escape(s.because)}." for s in found.suggestions]
        console.print(bulleted(tried))
    if found.strict:
        console.print(
            "Internalized means here: the right state and EOS at once for more than 95 % of inputs. The strict "
            f"definition asks for more: [bold]{escape(found.strict)}[/bold]"
        )
