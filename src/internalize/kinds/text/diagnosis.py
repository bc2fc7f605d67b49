"""`internalize diagnose` on runs of text: what was learned, what broke, and what to try."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape

from internalize.display.terminal import percent, results_table
from internalize.kinds.text.open_text import OpenText, open_text, refuse_drawing
from internalize.kinds.text.rendering import TextCurriculum
from internalize.statistics import SUCCESS

HEADLINES = {
    "internalized": "It internalized: the answer is right, with no word before it.",
    "succeeded": "It succeeded, with words or pauses before its answers.",
    "chain not learned": "The chain itself was never learned: answers after the whole chain are wrong.",
    "answers not learned": "The answers were not learned; no chain was shown before them at any time.",
    "direct answers not learned": "The chain was learned, but not the answer without it.",
    "broke": "The chain was learned, but taking words away broke it.",
    "unfinished": "The run is not finished.",
    "failed": "The run failed.",
}
NOT_LEARNED = ("chain not learned", "answers not learned", "direct answers not learned", "broke")
UNFINISHED = "internalize resume RUN"
LEARNED = 0.99
"""Share of right tokens in training from which on the training rows count as learned."""


def diagnose(arguments: Any) -> None:
    """Stage by stage: iterations, the worst loss, the accuracy at its end; and what to try."""
    refuse_drawing(arguments)
    opened = open_text(arguments.run, arguments.device)
    found = diagnosis(opened)
    out = arguments.folder(opened.path)
    out.json("diagnosis", found)
    arguments.present(found, out, lambda console: _print_diagnosis(console, opened, found))


def _print_diagnosis(console: Console, opened: OpenText, found: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(str(found['headline']))}[/bold]")
    rows = [
        [str(s["stage"]), s["label"], f"{s['iterations']:,}", f"{s['worst_loss']:.4f}",
         percent(s["token_accuracy"]), percent(s["accuracy"])]
        for s in found["stages"]
    ]  # fmt: skip
    heads = ["stage", "shown", "iterations", "worst loss", "in training", "ID"]
    console.print(results_table(opened.title, heads, rows))
    for line in found["suggestions"]:
        console.print(f"try: {escape(line)}", soft_wrap=True)


def diagnosis(opened: OpenText) -> dict[str, Any]:
    run, curriculum = opened.run, opened.experiment.curriculum
    status = run.status()
    trained, measured = run.metrics("train").rows, run.metrics("evaluation").rows
    stages, begun = [], 0
    for stage in sorted({row["stage"] for row in trained}):
        last = [row for row in trained if row["stage"] == stage][-1]
        seen = [row for row in measured if row["stage"] == stage]
        stages.append(
            {
                "stage": stage,
                "label": curriculum.label(stage),
                "iterations": last["iteration"] - begun,
                "worst_loss": last["worst_loss"],
                "token_accuracy": last["token_accuracy"],
                "accuracy": seen[-1]["id_accuracy"] if seen else None,
            }
        )
        begun = last["iteration"]
    verdict, broke = _verdict(status, stages, curriculum)
    at = f" It broke at stage {broke} of {curriculum.stages}." if verdict == "broke" else ""
    return {
        "run": opened.title,
        "verdict": verdict,
        "headline": HEADLINES[verdict] + at,
        "broke_at": broke,
        "stages": stages,
        "suggestions": list(_suggestions(opened, verdict, stages)),
    }


def _suggestions(opened: OpenText, verdict: str, stages: list[dict[str, Any]]) -> Iterator[str]:
    """What was not tried yet in this run."""
    config, material = opened.config, opened.experiment.material
    if verdict == "unfinished":
        yield UNFINISHED
    if verdict not in NOT_LEARNED:
        return
    seen = stages[-1]["iterations"] and stages[-1]["token_accuracy"] >= LEARNED
    if seen:
        yield (
            f"more training rows: its {len(material.train):,} rows are learned, new ones are not, which is "
            "learning by heart (also --dropout 0.1, --optimizer.weight-decay 0.1)"
        )
    if verdict in ("answers not learned", "direct answers not learned"):
        yield "teach the chain first and take it away by stages: --method left"
    if verdict != "broke":
        yield "train longer, with a larger --optimizer.lr or --init-std; see data check's warnings"
        return
    if opened.experiment.curriculum.pace > 1:
        yield f"take fewer units away at a stage: --removal.per-stage {opened.experiment.curriculum.pace // 2}"
    if config.schedule.kind != "adaptive":
        yield "let stages last until they are learned: --schedule.kind adaptive"
    elif not seen:
        yield f"more --iterations or a longer --schedule.cap: stage {stages[-1]['stage']} was not learned"
    if config.removal.smoothing is None:
        yield "smooth the removal: --removal.smoothing 4"


def _verdict(
    status: dict[str, Any], stages: list[dict[str, Any]], curriculum: TextCurriculum
) -> tuple[str, int | None]:
    """The stage from which on none passed the bar, where the last did not."""
    if status["state"] == "failed":
        return "failed", None
    if status["state"] != "done":
        return "unfinished", None
    summary = status["summary"]
    if summary["succeeded"]:
        return ("internalized" if summary["internalized"] else "succeeded"), None
    if curriculum.is_mixture:  # all budgets are trained at once: there is no stage that could break
        spoken = summary["chain_id_accuracy"] > SUCCESS
        return ("direct answers not learned" if spoken else "chain not learned"), None
    if not curriculum.kept(curriculum.longest, 1):
        return "answers not learned", None
    broke = None
    for found in reversed(stages):
        if (found["accuracy"] or 0.0) > SUCCESS:
            break
        broke = int(found["stage"])
    return ("chain not learned" if broke == 1 else "broke"), broke
