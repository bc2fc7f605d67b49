"""What to try next: rules, each of which fires on a measurement and says which one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from internalize.analysis.evidence import Evidence, StageEvidence
from internalize.analysis.trend import Trend
from internalize.constructions.general import kind_of_order
from internalize.statistics import SUCCESS

NEAR_CHANCE = 0.7
"""A position whose loss is above this share of ln |Q| has learned next to nothing."""


@dataclass(frozen=True)
class Suggestion:
    action: str
    because: str
    """The measurement that it rests on."""


@dataclass(frozen=True)
class Symptoms:
    """What the diagnosis found."""

    verdict: str
    broken: StageEvidence | None
    curve: Trend | None
    """The loss of the broken stage."""
    before: StageEvidence | None
    """The stage before the broken one."""


def suggest(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    """All that apply, the surest first."""
    if symptoms.verdict == "failed":
        if "not finite" in (evidence.message or ""):
            yield Suggestion(f"a smaller --optimizer.lr than {evidence.lr:g}", f"{evidence.message}")
        return
    if symptoms.verdict in ("internalized", "succeeded"):
        yield from _after_success(evidence, symptoms)
        return
    if symptoms.broken is None:
        return
    yield from _show_the_chain(evidence, symptoms)
    yield from _more_time(evidence, symptoms)
    yield from _moved_on_too_soon(evidence, symptoms)
    yield from _another_curriculum(evidence, symptoms)
    yield from _more_model(evidence, symptoms)


def _after_success(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    ood_lost = evidence.ood is not None and evidence.ood.value <= SUCCESS
    if ood_lost and not evidence.mixture:
        yield Suggestion(
            "--method mixture: one model that keeps the full chain, which usually holds OOD",
            f"accuracy is {evidence.final} ID but {evidence.ood} OOD",
        )
    reached = evidence.stages[-1] if evidence.stages else None
    if symptoms.verdict == "succeeded" and reached is not None and reached.stage < evidence.total_stages:
        yield Suggestion(
            f"more training: --iterations {2 * evidence.iterations}",
            f"the iterations ran out in stage {reached.stage} of {evidence.total_stages}, all passed so far",
        )
    if symptoms.verdict == "succeeded" and evidence.total_stages == 1:
        yield Suggestion(
            "--method left, to take the words away",
            f"an answer still takes {evidence.response_length:.1f} tokens",
        )


def _show_the_chain(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    broken = symptoms.broken
    if broken is not None and symptoms.verdict == "direct answer not learned" and not evidence.mixture:
        yield Suggestion(
            "--method left: learn the chain first, then take it away",
            f"{evidence.method} shows q{evidence.horizon} alone from the start and reached {broken.target}",
        )


def _another_curriculum(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    broken = symptoms.broken
    if broken is None or symptoms.verdict != "broke":
        return
    if evidence.method == "right":
        yield Suggestion(
            "--method left",
            f"right broke at stage {broken.stage}: there the last state has to be said one place earlier than "
            "before, while left leaves the hard step in one place",
        )
    elif evidence.method == "left" and evidence.model.depth == 1 and evidence.model.network is None:
        yield Suggestion(
            "--method inductive",
            f"left broke at stage {broken.stage} of {evidence.total_stages} with one layer, where the paper "
            "finds inductive better",
        )


def _more_time(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    broken, curve = symptoms.broken, symptoms.curve
    if broken is None or curve is None or curve.kind == "stalled":
        return
    because = f"in stage {broken.stage}, of {broken.iterations:,} iterations, {curve.said()}"
    if evidence.schedule.kind == "fixed" and evidence.total_stages > 1:
        yield Suggestion("--schedule.kind adaptive: a stage ends only when its loss is small", because)
        yield Suggestion(f"longer stages: --iterations {3 * evidence.iterations}", because)
    elif evidence.schedule.cap is not None and broken.iterations >= evidence.schedule.cap:
        cap = 3 * evidence.schedule.cap
        because = f"the stage was ended by its cap of {evidence.schedule.cap} iterations; {because}"
        yield Suggestion(f"--schedule.cap {cap}, and --iterations to match", because)
    else:
        yield Suggestion(f"more training: --iterations {3 * evidence.iterations}", because)


def _moved_on_too_soon(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    """The stage before passed the bar on paper, but its newest state was not learned."""
    before = symptoms.before
    if before is None or not before.losses or evidence.schedule.kind != "adaptive":
        return
    bar = evidence.schedule.bar if evidence.schedule.signal == "loss" else 0.05
    worst = before.losses[-1]
    if evidence.schedule.judge == "mean" and worst > 2 * bar:
        yield Suggestion(
            "--schedule.judge worst",
            f"stage {before.stage} ended at a mean loss of {before.mean_loss or 0:.3f} while its worst "
            f"position was at {worst:.3f}",
        )


def _more_model(evidence: Evidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    """Only where more time alone does not promise to help."""
    broken, curve = symptoms.broken, symptoms.curve
    if broken is None or curve is None or curve.kind != "stalled":
        return
    level = curve.end / evidence.chance_loss
    share = f"{100 * level:.0f} % of the loss of chance"
    because = f"in stage {broken.stage} the worst position is stuck at {share}"
    if broken.stage == 1 and level > NEAR_CHANCE:
        other = "larger" if evidence.lr < 1e-3 else "smaller"
        yield Suggestion(f"a {other} --optimizer.lr than {evidence.lr:g}", because)
    model = evidence.model
    if model.network is not None:  # what its width and heads do is not known here
        return
    if model.heads < model.width // 2:
        yield Suggestion(
            f"more heads: --model.heads {model.width // 2} (now {model.heads}, of size {model.head_size})",
            because,
        )
    if evidence.states > 2 and kind_of_order(evidence.states) == "prime":
        because += f", and {evidence.states} states is a prime order, which needs the most width"
    yield Suggestion(f"more width: --model.width {2 * model.width} (now {model.width})", because)
