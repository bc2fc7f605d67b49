"""Planted runs, each with one thing wrong, and what is said of them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, ScheduleConfig, train
from internalize.analysis.diagnosis import diagnose
from internalize.analysis.evidence import (
    RunEvidence,
    StageEvidence,
    gather,
    iterations_in,
    last_attempt,
    position_losses,
    trend,
)
from internalize.analysis.open_run import OpenChain
from internalize.cli import main
from internalize.curricula import METHODS
from internalize.statistics import Rate

T, CHANCE = 8, 1.0986


def curve(start: float, end: float, rows: int = 40, noise: float = 0.01) -> tuple[float, ...]:
    """A straight loss curve with noise."""
    generator = random.Random(5)
    steps = (start + (end - start) * i / (rows - 1) for i in range(rows))
    return tuple(max(0.0, x + generator.gauss(0, noise)) for x in steps)


def planted(
    accuracies: list[float], losses: list[tuple[float, ...]], method: str = "left", **more: object
) -> RunEvidence:
    """C_3, T = 8: one entry a stage that was trained."""
    curriculum = METHODS[method](T)
    stages = tuple(
        StageEvidence(
            stage=s,
            shown=curriculum.shown(s),
            label=curriculum.label(s),
            iterations=2_000,
            ended=s < len(accuracies),
            target=Rate(round(1_000 * accuracy), 1_000),
            losses=loss,
        )
        for s, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True), start=1)
    )
    length = len(curriculum.shown(len(accuracies))) + 1.0
    evidence = RunEvidence(
        title="planted", state="done", method=method, mixture=False, horizon=T, states=3, iterations=16_000,
        done=16_000, schedule=ScheduleConfig(), model=ModelConfig(depth=2, width=64, heads=8), lr=3e-4,
        log_every=50, total_stages=curriculum.stages, stages=stages, chance=1 / 3, chance_loss=log(3),
        is_counter=True,
        final=Rate(round(accuracies[-1] * 10_000), 10_000), ood=Rate(9_900, 10_000), response_length=length,
        internalized=length < 2.05 and accuracies[-1] > 0.95,
    )  # fmt: skip
    return replace(evidence, **more)  # type: ignore[arg-type]


LEARNED, LOST = curve(0.5, 0.01), curve(1.11, 1.10)


def actions(evidence: RunEvidence) -> str:
    return " | ".join(suggestion.action for suggestion in diagnose(evidence).suggestions)


def test_the_last_and_largest_measurement_decides() -> None:
    """The last stage fell short by a hair among 1,000 inputs, and the final 10,000 say that it internalized."""
    found = diagnose(planted([1.0] * 7 + [0.949], [LEARNED] * 8, final=Rate(9_520, 10_000), internalized=True))
    assert found.verdict == "internalized"


def test_iterations_of_a_stage_that_was_undone_and_tried_again() -> None:
    """Stage 2 is lost at 4,000, stage 1 is trained again to 4,250, and stage 2 learned by 5,000."""
    rows = [
        {"stage": stage, "iteration": iteration, "lost": iteration == 4_000}
        for stage, iteration in [
            (1, 500),
            (1, 1_000),
            (2, 2_500),
            (2, 4_000),
            (1, 4_250),
            (2, 4_600),
            (2, 5_000),
        ]
    ]
    assert [iterations_in(rows, stage) for stage in (1, 2, 3)] == [1_250, 3_750, 0]
    of_stage_2 = [row for row in rows if row["stage"] == 2]
    assert [row["iteration"] for row in last_attempt(of_stage_2)] == [4_600, 5_000]
    assert [row["iteration"] for row in last_attempt(of_stage_2[:2])] == [2_500, 4_000]  # there is no other


def test_success() -> None:
    found = diagnose(planted([1.0] * 8, [LEARNED] * 8))
    assert (found.verdict, found.broke_at, found.suggestions) == ("internalized", None, ())
    fragile = planted([1.0] * 8, [LEARNED] * 8, ood=Rate(6_000, 10_000))
    assert "mixture" in actions(fragile)
    assert "60.0 %" in diagnose(fragile).suggestions[0].because


def test_never_learned_the_chain() -> None:
    found = diagnose(planted([0.34] * 8, [LOST] * 8))
    assert (found.verdict, found.broke_at, found.trend) == ("chain not learned", 1, "stalled")
    assert any("Stage 1" in text and "did not converge" in text for text in found.findings)
    said = " | ".join(s.action for s in found.suggestions)
    assert "lr" in said
    assert "--model.heads 32" in said
    assert "iterations" not in said  # more of what does not move would not help
    assert all("100 %" in s.because for s in found.suggestions)


def test_broke_at_stage_6() -> None:
    losses = (1.05, 0.01, 0.02, 0.0)
    evidence = planted([1.0] * 5 + [0.4, 0.35, 0.34], [LEARNED] * 5 + [LOST] * 3, position_losses={6: losses})
    found = diagnose(evidence)
    assert (found.verdict, found.broke_at, found.trend) == ("broke", 6, "stalled")
    assert "stage 6" in found.headline
    text = " ".join(found.findings)
    assert "q6 1.050, q7 0.010, q8 0.020, EOS 0.000" in text
    assert "The worst is q6, at 96 %" in text
    assert "prime" in found.suggestions[-1].because
    assert "--model.width 128" in found.suggestions[-1].action
    full = replace(evidence, model=ModelConfig(depth=2, width=64, heads=32), states=4)
    assert "heads" not in actions(full)  # as many as can be
    assert "prime" not in diagnose(full).suggestions[-1].because


def test_a_dip_that_recovers_is_not_where_it_broke() -> None:
    found = diagnose(planted([1.0, 0.8, 1.0, 0.9, 0.5], [LEARNED] * 3 + [LOST] * 2))
    assert found.broke_at == 4
    assert any("Stage 2 ended at 80.0 %" in text for text in found.findings)
    assert any("never left this stage" in text for text in found.findings) is False


def test_still_improving() -> None:
    falling = curve(1.0, 0.3)
    fixed = planted([1.0, 1.0, 0.7] + [0.35] * 5, [LEARNED] * 2 + [falling] + [LOST] * 5)
    found = diagnose(fixed)
    assert (found.verdict, found.broke_at, found.trend) == ("broke", 3, "improving")
    assert found.suggestions[0].action.startswith("--schedule.kind adaptive")
    assert "still falling" in found.suggestions[0].because
    assert "width" not in actions(fixed)
    stuck = planted([1.0, 1.0, 0.7], [LEARNED, LEARNED, falling], schedule=ScheduleConfig("adaptive"))
    assert "--iterations 48000" in actions(stuck)
    assert any("never left this stage: 5 were to come" in text for text in diagnose(stuck).findings)
    capped = planted([1.0, 1.0, 0.7, 0.3], [LEARNED, LEARNED, falling, LOST],
                     schedule=ScheduleConfig("adaptive", cap=2_000))  # fmt: skip
    assert "--schedule.cap 6000" in actions(capped)


def test_the_method_itself() -> None:
    assert "--method left" in actions(planted([0.34], [LOST], method="e2e"))
    assert diagnose(planted([0.34], [LOST], method="e2e")).verdict == "direct answer not learned"
    assert "--method left" in actions(planted([1.0, 0.5], [LEARNED, LOST], method="right"))
    shallow = planted([1.0, 0.5], [LEARNED, LOST], model=ModelConfig(depth=1, width=64, heads=32))
    assert "--method inductive" in actions(shallow)
    assert diagnose(planted([1.0], [LEARNED], method="cot")).verdict == "succeeded"
    hurried = planted([1.0, 0.5], [(*LEARNED, 0.4), LOST], schedule=ScheduleConfig("adaptive", judge="mean"))
    assert "--schedule.judge worst" in actions(hurried)


def test_mixtures_unfinished_and_failed_runs() -> None:
    mixed: dict[str, Any] = {"mixture": True, "total_stages": 1, "method": "mixture"}
    good, bad = Rate(9_900, 10_000), Rate(5_000, 10_000)
    assert diagnose(planted([1.0], [LEARNED], final=good, chain=good, **mixed)).verdict == "internalized"
    assert (
        diagnose(planted([0.5], [LOST], final=bad, chain=good, **mixed)).verdict == "direct answer not learned"
    )
    assert diagnose(planted([0.5], [LOST], final=bad, chain=bad, **mixed)).verdict == "chain not learned"
    longer = planted([1.0], [LEARNED], final=good, chain=good, internalized=False, **mixed)
    assert diagnose(longer).verdict == "succeeded"  # right, but not at once: an own mixture of longer answers
    assert diagnose(replace(longer, chain=None)).verdict == "succeeded"
    half_way = planted([1.0, 1.0, 0.5], [LEARNED, LEARNED, LOST], state="interrupted", final=None)
    assert diagnose(half_way).verdict == "unfinished"
    assert any(
        "Stage 3 of 8 (q3 … q8) is being trained: 50.0 %" in text for text in diagnose(half_way).findings
    )
    broken = diagnose(
        planted([1.0], [LEARNED], state="failed", final=None, message="loss is not finite at step 7")
    )
    assert broken.verdict == "failed"
    assert "loss is not finite at step 7" in broken.findings[0]
    assert "lr" in broken.suggestions[0].action


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        (curve(1.0, 0.2), "improving"),
        (curve(1.1, 1.1), "stalled"),
        (curve(1.0, 0.99, noise=0.001), "stalled"),  # beyond the noise, but nothing
        (curve(0.8, 1.0), "stalled"),
        (curve(1.0, 0.8, noise=0.5), "stalled"),  # not beyond the noise
        (curve(1.0, 0.2, rows=8), "unclear"),
        ((), "unclear"),
    ],
)
def test_trend(losses: tuple[float, ...], kind: str) -> None:
    assert trend(losses).kind == kind


def test_a_real_success_is_read_from_its_run(chain: OpenChain) -> None:
    evidence = gather(chain, samples=200)
    assert diagnose(evidence).verdict == "internalized"
    assert [stage.stage for stage in evidence.stages] == [1, 2, 3, 4]
    assert (
        sum(stage.iterations for stage in evidence.stages) == evidence.done == chain.run.summary()["iterations"]
    )
    assert evidence.stages[1].shown == (2, 3, 4)
    assert max(position_losses(chain, 2, 200, 0)) < 0.2
    assert len(position_losses(chain, 2, 200, 0)) == 4


def test_a_real_run_that_was_too_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stage 1 of ten iterations learns nothing; the command says so and what to do about it."""
    config = ChainConfig(
        task="C3", horizon=4, iterations=400, batch=16, log_every=5, model=ModelConfig(1, 16, 2),
        evaluation=EvaluationConfig(every=10_000, samples=200, final_samples=200),
    )  # fmt: skip
    run = train(config, Execution(out=tmp_path, quiet=True))
    assert main(["diagnose", str(run.path), "--json", "--out", str(tmp_path / "seen"), "--samples", "100"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["broke_at"]) == ("chain not learned", 1)
    assert any("Loss by position there: q1" in text for text in found["findings"])
    assert found["suggestions"]
    assert {path.name for path in (tmp_path / "seen").iterdir()} == {
        "diagnosis.json", "diagnosis.png", "diagnosis.svg"
    }  # fmt: skip
