"""The claims of finished figures as Markdown: the README's table of headlines, and docs/claims.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from internalize.display.terminal import duration
from internalize.figures.claims import WORDS, told_p
from internalize.figures.paper import NAMES
from internalize.figures.rows import TOY_SCALE

Record = dict[str, Any]
"""What `internalize figure` writes as verdict.json."""


def headline_table(records: Sequence[tuple[Record, Path]]) -> str:
    """The headline claims, each at the largest scale at which there is a verdict; toys support none."""
    lines = ["| | claim | scale | numbers | verdict |", "|---|---|---|---|---|"]
    for name in _names(records):
        of_figure = [record for record, _ in records if record["figure"] == name]
        for claim in _best_claims([record for record in of_figure if record["tier"] in ("laptop", "paper")]):
            if claim["headline"]:
                lines.append(_line([str(len(lines) - 1), claim["sentence"], *_scale_numbers_verdict(claim)]))
    return "\n".join(lines)


def claims_document(records: Sequence[tuple[Record, Path]], studies: Sequence[tuple[Record, Path]] = ()) -> str:
    """Every claim of every figure: what must hold, the test, what was found; studies and toys apart, at the
    end."""
    parts = [CLAIMS_HEAD.format(counts=_counts(records), origins=_origins(records))]
    for title, early in (("Claims", False), ("Toys", True)):
        if early and studies:
            parts.append(f"## Studies\n{STUDIES_HEAD.format(counts=_counts(studies))}")
            parts += [_claims_of_figure(record, record["shows"]) for record, _ in studies]
        parts.append(f"## {title}\n" + (TOYS_HEAD if early else ""))
        for record, _ in records:
            if record["tier"] != "smoke" and (record["tier"] == "toy") == early and record["claims"]:
                parts.append(_claims_of_figure(record, record["paper"], brief=early))
    return "\n".join(parts) + "\n"


def _origins(records: Sequence[tuple[Record, Path]]) -> str:
    """Of the confirmed claims, how many are the paper's sentences, and how many were not fixed before."""
    confirmed = [
        claim
        for record, _ in records
        if not is_toy_tier(record)
        for claim in record["claims"]
        if claim["verdict"] == "confirmed" and claim["scale"] != TOY_SCALE
    ]
    ours = sum(bool(claim.get("ours")) for claim in confirmed)
    late = sum(bool(claim.get("seen")) for claim in confirmed)
    return (
        f"{len(confirmed) - ours} of the {len(confirmed)} confirmed are sentences of the paper, and {ours} say "
        f"what it does not; {late} of them were added or changed when runs of theirs had been seen, and say so"
    )


def _counts(records: Sequence[tuple[Record, Path]]) -> str:
    """`3 confirmed, 1 planned`: toys apart."""
    judged = [claim for record, _ in records if not is_toy_tier(record) for claim in record["claims"]]
    words = Counter(claim["verdict"] for claim in judged if claim["scale"] != TOY_SCALE)
    toys = sum(claim["scale"] == TOY_SCALE for claim in judged)
    counts = [f"{words[word]} {word}" for word in WORDS if words[word]]
    return ", ".join([*counts, *([f"{toys} more on toys, which support nothing"] if toys else [])])


CLAIMS_HEAD = """# The paper's claims, one by one

`internalize report --claims > docs/claims.md` writes this page from the verdicts in `results/`: {counts}.
{origins}.
How a claim is judged: [figures.md](figures.md). *p* is twice the one-sided value in the direction of the claim
(of a contradicted one, in the other direction), after Holm's correction over the claims of a figure that have
data. Intervals are at 95 %.
"""
WAITING = "Runs that are planned and not done, with the most that they take of one core"
STUDIES_HEAD = """
Claims of the figures asked again in another way, each a figure of its own in `studies/`: {counts}. They are not
counted above. What came out in words: [readings.md](readings.md), [results.md](results.md).
"""
TOYS_HEAD = """
The first runs, at sizes where nearly every input was seen in training, often many times, and judged by the
tests of that time. They support no claim; they stand here as a record.
"""


def _claims_of_figure(record: Record, about: str, brief: bool = False) -> str:
    columns = ["claim", "scale", "numbers", "p", "verdict"]
    lines = [f"### `{title_of(record)}`: {with_indices(about)}\n"]
    lines += [_line(columns), "|" + "---|" * len(columns)]
    for claim in record["claims"]:
        scale, numbers, verdict = _scale_numbers_verdict(claim)
        sentence = claim["sentence"]
        if not brief:
            only_if = "; ".join(dict.fromkeys(claim.get("controls", [])))
            sentence += f" <br> *{claim['method']}" + (f"; only if: {only_if}*" if only_if else "*")
        lines.append(_line([sentence, scale, numbers, told_p(claim), verdict]))
    waiting = record["runs"].get("waiting")
    if waiting and not brief:
        told = (f"{one['of']} ({one['runs']}, {duration(one['seconds'])})" for one in waiting)
        lines += ["", f"{WAITING}: {with_indices('; '.join(told))}."]
    return "\n".join(lines) + "\n"


def _names(records: Sequence[tuple[Record, Path]]) -> list[str]:
    return list(dict.fromkeys([*NAMES, *(record["figure"] for record, _ in records)]))


def _best_claims(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Of the records of one figure, each claim once: with a verdict rather than planned, at the larger scale
    first."""
    best: dict[str, dict[str, Any]] = {}
    for record in records:  # the paper's tier comes first
        for found in record["claims"]:
            toy = {"verdict": "planned", "numbers": "so far a toy only", "scale": None}
            claim = {**found, **toy} if found["scale"] == TOY_SCALE else found
            known = best.get(claim["claim"])
            if known is None or (known["verdict"] == "planned" and claim["verdict"] != "planned"):
                best[claim["claim"]] = claim
    return list(best.values())


def _scale_numbers_verdict(claim: dict[str, Any]) -> list[str]:
    return [claim["scale"] or "–", claim["numbers"], f"**{claim['verdict']}**"]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(with_indices(cell).replace("|", "\\|") for cell in cells) + " |"


def with_indices(text: str) -> str:
    """`C₁₁` for C_11, and `S₃` for S3: as the paper writes the names of tasks."""

    def lower(match: re.Match[str]) -> str:
        return match[1] + match[2].translate(SUBSCRIPTS)

    return re.sub(r"\b([CS])_?(\d+)\b", lower, text)


SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def is_toy_tier(record: Record) -> bool:
    return record["tier"] in ("toy", "smoke")


def title_of(record: Record) -> str:
    tier = "" if record["tier"] == "laptop" else f" ({record['tier']} tier)"
    return f"{record['figure']}{tier}"
