"""What a run's own rows and weights say about how its training went, gathered for a diagnosis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from internalize.analysis.open_run import OpenChain
from internalize.constructions.general import kind_of_order
from internalize.curricula import ScheduleConfig, Shown
from internalize.models.config import ModelConfig
from internalize.statistics import SUCCESS, Rate

FEWEST = 6
"""Rows in the last half of a stage below which nothing is said."""
SMALLEST_DROP = 0.05
"""A loss that falls by less than this share over the last half of a stage is called stalled."""


@dataclass(frozen=True)
class StageEvidence:
    """One stage, as far as it was trained."""

    stage: int
    shown: Shown
    label: str
    iterations: int
    ended: bool
    """Whether the schedule ended it, as opposed to the iterations running out or the run being stopped."""
    target: Rate | None
    """The last state that the format shows is right, ID, at the last measurement of the stage."""
    losses: tuple[float, ...]
    """Training loss at the worst answer position, row by row."""
    undone: int = 0
    """Attempts at it that the controller took back."""
    mean_loss: float | None = None
    """Training loss over all answer positions, last row."""


@dataclass(frozen=True)
class RunEvidence:
    """A run, as a diagnosis sees it."""

    title: str
    state: str
    """done, interrupted, running or failed."""
    method: str
    mixture: bool
    horizon: int
    states: int
    """|Q|."""
    iterations: int
    """Planned in all."""
    done: int
    """Iterations trained."""
    schedule: ScheduleConfig
    model: ModelConfig
    lr: float
    log_every: int
    total_stages: int
    stages: tuple[StageEvidence, ...]
    chance: float
    """What always saying the commonest answer would reach."""
    chance_loss: float
    """The loss of whoever knows how common each answer is, and nothing else."""
    is_counter: bool = False
    """Whether the task is some C_n: primes are said to be hard of these."""
    final: Rate | None = None
    """Final-state accuracy, ID; for mixtures of the direct answer."""
    ood: Rate | None = None
    response_length: float | None = None
    internalized: bool = False
    """Whether the run's own results say so."""
    chain: Rate | None = None
    """For mixtures: final-state accuracy of the full chain."""
    chain_ood: Rate | None = None
    position_losses: dict[int, tuple[float, ...]] | None = None
    """Stage → loss of every answer token, the true ones before it given, from the stage's weights."""
    place: str = "RUN"
    """Where the run is, as a command takes it."""
    message: str | None = None
    """Why the run failed."""
    gave_up: str | None = None
    """Why the controller gave up."""


def _entropy(shares: Tensor) -> float:
    """In nats; never 0, since losses are divided by it."""
    return max(float(torch.special.entr(shares).sum()), 1e-6)


def gather(chain: OpenChain, samples: int = 1_000, seed: int = 0) -> RunEvidence:
    """Rows of the run and, where weights were kept, losses measured on fresh inputs."""
    run, config, experiment = chain.run, chain.experiment.config, chain.experiment
    status = run.status()
    trained, measured = run.metrics("train"), run.metrics("evaluation")
    reached = sorted({row["stage"] for row in [*trained.rows, *measured.rows]})
    finished = status["state"] == "done"
    last = reached[-1] if reached else 1
    stages = tuple(
        _stage(chain, stage, trained.rows, measured.where(stage=stage).rows, stage < last) for stage in reached
    )
    summary = dict(status["summary"]) if finished else {}
    examples = chain.draw(experiment.inputs, samples, seed, "diagnose")
    final_samples = config.evaluation.final_samples
    return RunEvidence(
        title=chain.title,
        state=chain.status,
        method=config.method,
        mixture=experiment.curriculum.stages == 1 and len(experiment.curriculum.formats(1)) > 1,
        horizon=config.horizon,
        states=experiment.task.inner_states,
        chance_loss=_entropy(chain.final_shares(experiment.inputs)),
        is_counter=re.fullmatch(r"C_?\d+", config.task) is not None,
        iterations=config.iterations,
        done=max((row["iteration"] for row in [*trained.rows, *measured.rows]), default=0),
        schedule=config.schedule,
        model=config.model,
        lr=config.optimizer.lr,
        log_every=config.log_every,
        total_stages=experiment.curriculum.stages,
        stages=stages,
        chance=examples.chance,
        final=_rate(summary.get("id_accuracy"), final_samples),
        ood=_rate(summary.get("ood_accuracy"), final_samples),
        response_length=summary.get("response_length"),
        internalized=bool(summary.get("internalized")),
        chain=_rate(summary.get("chain_id_accuracy"), final_samples),
        chain_ood=_rate(summary.get("chain_ood_accuracy"), final_samples),
        position_losses=_position_losses(chain, samples, seed),
        place=str(run.path),
        message=status.get("message"),
        gave_up=summary.get("gave_up"),
    )


def _stage(
    chain: OpenChain, stage: int, trained: list[dict[str, Any]], measured: list[dict[str, Any]], ended: bool
) -> StageEvidence:
    """trained: the rows of all stages; measured: those of this one."""
    curriculum, samples = chain.experiment.curriculum, chain.experiment.config.evaluation.samples
    spent = iterations_in(trained, stage)
    trained = [row for row in trained if row["stage"] == stage]
    return StageEvidence(
        stage=stage,
        shown=chain.own_shown(stage),
        label=curriculum.label(stage),
        iterations=spent,
        ended=ended,
        target=_rate(measured[-1].get("id_target_accuracy"), samples) if measured else None,
        losses=tuple(row["worst_loss"] for row in last_attempt(trained) if "worst_loss" in row),
        undone=sum(bool(row.get("lost")) for row in trained),
        mean_loss=trained[-1].get("loss") if trained else None,
    )


def iterations_in(trained: Sequence[Mapping[str, Any]], stage: int) -> int:
    """Iterations that were spent in the stage, all attempts together; trained: the rows of all stages."""
    return sum(
        row["iteration"] - before
        for before, row in zip([0, *(row["iteration"] for row in trained)], trained, strict=False)
        if row["stage"] == stage
    )


def last_attempt(trained: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Of the rows of one stage those after the last attempt but one, if it was undone."""
    undone = [place for place, row in enumerate(trained[:-1]) if row.get("lost")]
    return trained[undone[-1] + 1 :] if undone else trained


def _position_losses(chain: OpenChain, samples: int, seed: int) -> dict[int, tuple[float, ...]] | None:
    has_model = (chain.run.path / "model" / "model.safetensors").is_file()
    if not chain.run.stages() and not has_model:
        return None
    return {stage: position_losses(chain, stage, samples, seed) for stage in chain.stages}


@torch.no_grad()
def position_losses(chain: OpenChain, stage: int, samples: int, seed: int) -> tuple[float, ...]:
    """Loss of every token of the stage's own answer, with the true tokens before it given; EOS last, where it
    was trained."""
    renderer, shown = chain.experiment.renderer, chain.own_shown(stage)
    examples = chain.draw(chain.experiment.inputs, samples, seed, "diagnose")
    model, total = chain.predictor(stage=stage).model, torch.zeros(len(shown) + 1)
    for symbols, states in zip(examples.symbols.split(500), examples.states.split(500), strict=True):
        tokens = renderer.sequence(symbols, states, shown)
        prompt = tokens.shape[1] - len(shown) - 1
        logits, _ = model(tokens[:, :-1], first=prompt - 1)
        answer = tokens[:, prompt:]
        losses = F.cross_entropy(logits.transpose(1, 2), answer, reduction="none")
        total += losses.sum(dim=0).cpu()
    scored = len(shown) if chain.experiment.config.scored == "states" else len(total)
    return tuple((total / samples)[:scored].tolist())


def _rate(value: float | None, samples: int) -> Rate | None:
    return None if value is None else Rate(round(value * samples), samples)


# Did a loss curve stall, or was it still falling when it ended? ------------------------------------------


@dataclass(frozen=True)
class LossTrend:
    """The last half of a stage."""

    kind: Literal["improving", "stalled", "unclear"]
    start: float
    """The fitted line at the beginning of the last half, and at its end."""
    end: float
    rows: int

    @property
    def drop(self) -> float:
        """The share of the loss that went, by the fitted line; negative if it rose."""
        return 0.0 if self.start <= 0 else 1 - self.end / self.start

    def said(self) -> str:
        if self.kind == "unclear":
            return f"too few rows are recorded to tell stalled from improving ({self.rows} in its last half)"
        words = "was still falling" if self.kind == "improving" else "had stalled"
        return f"the loss {words}: {self.start:.3f} to {self.end:.3f} over the last half of the stage"


def trend(losses: tuple[float, ...]) -> LossTrend:
    """A straight line through the last half; improving if it falls, beyond its own noise, by 5 % or more.

    The noise is the slope's standard error; three of them, since neighbouring rows are not independent.
    """
    half = np.asarray(losses[len(losses) // 2 :], dtype=np.float64)
    if len(half) < FEWEST:
        value = float(half[-1]) if len(half) else float("nan")
        return LossTrend("unclear", value, value, len(half))
    x = np.arange(len(half)) - (len(half) - 1) / 2
    slope = float(x @ half / (x @ x))
    rest = half - half.mean() - slope * x
    error = float(np.sqrt(rest @ rest / (len(half) - 2) / (x @ x)))
    start, end = (float(half.mean() + slope * x[i]) for i in (0, -1))
    falls = slope < -3 * error and start - end >= SMALLEST_DROP * start
    return LossTrend("improving" if falls else "stalled", start, end, len(half))


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
    curve: LossTrend | None
    """The loss of the broken stage."""
    before: StageEvidence | None
    """The stage before the broken one."""


def suggest(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    """All that apply, the surest first."""
    if evidence.state in ("interrupted", "new"):
        yield Suggestion(
            f"internalize resume {evidence.place}",
            f"the run was interrupted after {evidence.done:,} of {evidence.iterations:,} iterations; what is "
            "said here is about these",
        )
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


def _after_success(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
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


def _show_the_chain(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
    broken = symptoms.broken
    if broken is not None and symptoms.verdict == "direct answer not learned" and not evidence.mixture:
        yield Suggestion(
            "--method left: learn the chain first, then take it away",
            f"{evidence.method} shows q{evidence.horizon} alone from the start and reached {broken.target}",
        )


def _another_curriculum(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
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


def _more_time(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
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


def _moved_on_too_soon(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
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


def _more_model(evidence: RunEvidence, symptoms: Symptoms) -> Iterator[Suggestion]:
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
    most = max(heads for heads in range(1, max(1, model.width // 2) + 1) if model.width % heads == 0)
    if model.heads < most:
        yield Suggestion(
            f"more heads: --model.heads {most} (now {model.heads}, of size {model.head_size})", because
        )
    if evidence.is_counter and evidence.states > 2 and kind_of_order(evidence.states) == "prime":
        because += f", and {evidence.states} states is a prime order, which needs the most width"
    yield Suggestion(f"more width: --model.width {2 * model.width} (now {model.width})", because)
