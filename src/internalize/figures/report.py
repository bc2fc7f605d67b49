"""One page with all figures that there are: self-contained, for people and printers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from internalize.display import page
from internalize.display.plots import saved_svg_inline
from internalize.display.terminal import duration
from internalize.errors import require
from internalize.figures.catalogue import NAMES
from internalize.figures.grids import TIERS
from internalize.figures.making import VERDICT
from internalize.figures.verdicts import told_p
from internalize.runs.atomic import read_json

Record = dict[str, Any]
PARTS = ("figure", "paper", "tier", "caption", "notes", "differences", "claims", "plan", "runs", "provenance")
"""What a record must have to be shown."""
MOODS: dict[str, Literal["good", "bad", ""]] = {"confirmed": "good", "contradicted": "bad"}


def find_records(results: Path) -> list[tuple[Record, Path]]:
    """What `internalize figure` left in the folder, in the order of the paper: record and folder."""
    found = []
    for path in sorted(results.glob(f"*/{VERDICT}")):
        try:
            record = read_json(path)
        except ValueError:
            record = None
        whole = isinstance(record, dict) and set(PARTS) <= set(record) and record["tier"] in TIERS
        require(whole, "results", f"{path} is no whole verdict; make the figure again: {path.parent.name}")
        found.append((record, path.parent))
    order, tiers = list(NAMES), ("paper", "laptop", "toy", "smoke")
    order += [record["figure"] for record, _ in found]  # one's own come last
    return sorted(found, key=lambda entry: (order.index(entry[0]["figure"]), tiers.index(entry[0]["tier"])))


def report_page(records: Sequence[tuple[Record, Path]]) -> str:
    sections = [
        page.contents({folder.name: _title(record) for record, folder in records}),
        page.heading("All claims"),
        page.table(["claim", "verdict"], _claim_rows(records)),
        page.paragraph(
            "A verdict is the two-sided test at 5 %, by Holm's correction over all claims of a figure: "
            "confirmed; contradicted, if the contrary is significant (p is then the contrary's); underpowered, "
            "if it could not have been significant even with every claim of the figure at its clearest; else "
            "not confirmed. Verdicts are about the sizes that were run, often far smaller than the paper's."
        ),
        *(section for record, folder in records for section in _figure_sections(record, folder)),
    ]
    return page.page("Learning through internalization", _summary(records), sections, _footer(records))


def _summary(records: Sequence[tuple[Record, Path]]) -> str:
    """How many claims got which verdict, those of the paper's figures and those of one's own apart."""
    told = []
    for whose, ours in (("Claims of the paper", True), ("Claims of other figures", False)):
        claims = [
            claim for record, _ in records if (record["figure"] in NAMES) == ours for claim in record["claims"]
        ]
        words = Counter(claim["verdict"] for claim in claims)
        if claims:
            told.append(f"{whose}: {', '.join(f'{count} {word}' for word, count in words.most_common())}.")
    return " ".join(told) or "No claim is judged."


def _title(record: Record) -> str:
    tier = "" if record["tier"] == "laptop" else f" ({record['tier']} tier)"
    return f"{record['figure']}{tier}"


def _claim_rows(records: Sequence[tuple[Record, Path]]) -> list[list[str]]:
    return [
        [f"{_title(record)}: {claim['sentence']}", claim["verdict"]]
        for record, _ in records
        for claim in record["claims"]
    ]


def _figure_sections(record: Record, folder: Path) -> list[str]:
    caption = " ".join([f"{record['paper']}. {record['caption']}", *record["notes"]])
    sections = [page.heading(f"{_title(record)}: {record['shows']}", folder.name)]
    picture = folder / f"{record['figure']}.svg"
    if picture.is_file():
        svg = saved_svg_inline(picture.read_text(encoding="utf-8"), record["shows"])
        sections.append(page.figure(svg, caption))
    else:
        sections.append(page.paragraph(caption))
    if record["differences"]:
        sections.append(page.paragraph(f"Differs from the paper: {'; '.join(record['differences'])}."))
    sections.append(page.paragraph(_runs_told(record)))
    detects = {entry["claim"]: entry["detects"] for entry in record["plan"]}
    for claim in record["claims"]:
        fine = [
            claim["numbers"],
            f"{claim['method']}; p = {told_p(claim)} after Holm's correction. "
            f"The least the plan can see: {detects.get(claim['claim'], '')}.",
        ]
        sections.append(
            page.statement(claim["verdict"], claim["sentence"], fine, MOODS.get(claim["verdict"], ""))
        )
    sections.append(page.details("config, versions and machine", _small_print(record)))
    return sections


def _runs_told(record: Record) -> str:
    runs = record["runs"]
    if not runs["planned"]:
        return "No runs are needed."
    told = f"{runs['done']} of {runs['planned']} runs, {duration(runs['seconds'])} of one core in all."
    if not record["judged"]:
        told += " No claim is judged at the smoke tier."
    return told + (f" Missing: {'; '.join(runs['missing'][:5])}." if runs["missing"] else "")


def _small_print(record: Record) -> str:
    parts = [
        page.preformatted(json.dumps(part, indent=1, ensure_ascii=False))
        for part in (record["config"], record["provenance"])
    ]
    return "".join(parts)


def _footer(records: Sequence[tuple[Record, Path]]) -> str:
    """Versions of all figures; where and when each was drawn is in its own small print."""
    made = [record["provenance"] for record, _ in records]
    versions = sorted({f"{one['internalize']} ({one['revision'] or 'installed'})" for one in made})
    torches = sorted({str(one["torch"]) for one in made})
    processors = {
        str(name) for one in made for name in one.get("runs", {}).get("processor", [one["processor"]])
    }
    machines = ", ".join(sorted(processors))
    return f"internalize {', '.join(versions)}; torch {', '.join(torches)}; runs on {machines}"
