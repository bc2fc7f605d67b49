"""All results that there are as one self-contained page, and how their records are found and read."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from internalize.display import page
from internalize.display.terminal import duration
from internalize.errors import RunWarning, require
from internalize.figures.cases import TIERS
from internalize.figures.claim_tables import (
    Record,
    claims_document,
    headline_table,
    is_toy_tier,
    title_of,
    with_indices,
)
from internalize.figures.claims import told_p
from internalize.figures.paper import NAMES, VERDICT
from internalize.figures.rows import TOY_SCALE
from internalize.runs.location import may_look_into
from internalize.runs.storage import NUMBER, Shape, Unreadable, read_json, require_shape

NOTHING = type(None)
PARTS: Shape = {
    **dict.fromkeys(("figure", "paper", "tier", "caption", "shows"), (str,)),
    **dict.fromkeys(("notes", "differences", "claims", "plan"), (list,)),
    **dict.fromkeys(("runs", "config", "provenance"), (dict,)),
    "judged": (bool,),
}
CLAIM: Shape = {
    **dict.fromkeys(("claim", "sentence", "method", "verdict", "numbers"), (str,)),
    **dict.fromkeys(("p", "p_opposite"), (*NUMBER, NOTHING)),
    "headline": (bool,),
    "scale": (str, NOTHING),
}
PLANNED: Shape = {"claim": (str,), "detects": (str,)}
RUNS: Shape = {**dict.fromkeys(("planned", "done"), (int,)), "seconds": NUMBER, "missing": (list,)}
WAITING_RUNS: Shape = {"of": (str,), "runs": (int,), "seconds": NUMBER}
MADE_BY: Shape = {"internalize": (str,), "torch": (str,), "processor": (str,), "revision": (str, NOTHING)}
"""What a record, and what is in it, must have to be shown: each with the types that it may have."""
MOODS: dict[str, Literal["good", "bad", ""]] = {"confirmed": "good", "contradicted": "bad"}
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST_PICTURE = 20 * 2**20
"""Bytes. Our own have some tens of thousands."""


def find_records(results: Path) -> list[tuple[Record, Path]]:
    """What `internalize figure` left in the folder, in the order of the paper: record and folder.

    A damaged one is named and left out; only where no other is left, nothing can be told.
    """
    allowed = not results.is_dir() or may_look_into(results)
    require(allowed, "results", f"no permission to read {results}")
    found, damaged = _records_of(sorted(results.glob(f"*/{VERDICT}")))
    require(bool(found) or not damaged, "results", damaged[0] if damaged else "")
    return _told_and_kept(found, damaged)


def find_studies(results: Path) -> list[tuple[Record, Path]]:
    """What stands one folder deeper, such as results/readings/headlines: claims asked again in other ways."""
    return _told_and_kept(*_records_of(sorted(results.glob(f"*/*/{VERDICT}"))))


def _records_of(paths: Sequence[Path]) -> tuple[list[tuple[Record, Path]], list[str]]:
    """Records that can be told, and a line on each that cannot."""
    found, damaged = [], []
    for path in paths:
        try:
            record = read_record(path)
            if not _can_be_told(record, path.parent):
                raise Unreadable("has a value that cannot be told")
            found.append((record, path.parent))
        except (Unreadable, OSError) as error:
            why = error if isinstance(error, Unreadable) else error.strerror
            damaged.append(f"{path} {why}: it is no whole verdict; make the figure again: {path.parent.name}")
    return found, damaged


def _told_and_kept(found: list[tuple[Record, Path]], damaged: Sequence[str]) -> list[tuple[Record, Path]]:
    """In the order of the paper, after a warning of each that is left out."""
    for line in damaged:
        warnings.warn(f"damaged: {line}", RunWarning, stacklevel=2)
    order, tiers = list(NAMES), ("paper", "laptop", "toy", "smoke")
    order += [record["figure"] for record, _ in found]  # one's own come last
    return sorted(found, key=lambda entry: (order.index(entry[0]["figure"]), tiers.index(entry[0]["tier"])))


def read_record(path: Path) -> Record:
    """The record, if everything in it that is shown has the right type; `Unreadable` names what has not."""
    record = require_shape(read_json(path), PARTS, needed=list(PARTS))
    if record["tier"] not in TIERS:
        raise Unreadable(f"has tier = {record['tier'][:60]!r}")
    texts = {"notes": record["notes"], "differences": record["differences"]}
    runs = require_shape(record["runs"], {**RUNS, "waiting": (list,)}, needed=list(RUNS))
    for entry in runs.get("waiting", []):
        require_shape(entry, WAITING_RUNS, needed=list(WAITING_RUNS))
    require_shape(record["provenance"], MADE_BY, needed=list(MADE_BY))
    for claim in record["claims"]:
        require_shape(claim, CLAIM, needed=list(CLAIM))
        texts[f"controls of {claim['claim'][:60]}"] = claim.get("controls", [])
    for entry in record["plan"]:
        require_shape(entry, PLANNED, needed=list(PLANNED))
    for name, entries in {**texts, "missing": record["runs"]["missing"]}.items():
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise Unreadable(f"has {name} that are no list of texts")
    return record


def _can_be_told(record: Record, folder: Path) -> bool:
    """Whether all that is told of a record can be told: right types may still have wrong values."""
    try:
        for tell in (report_page, headline_table, claims_document):
            tell([(record, folder)])
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        return False
    return True


def report_page(records: Sequence[tuple[Record, Path]], studies: Sequence[tuple[Record, Path]] = ()) -> str:
    """One page of all figures, and after them of the studies, which ask their claims again."""
    toys = [(record, folder) for record, folder in records if is_toy_tier(record)]
    places = {folder.name: record for record, folder in records}
    places |= {f"{folder.parent.name}/{folder.name}": record for record, folder in studies}
    sections = [
        page.contents({place: title_of(record) for place, record in places.items()}),
        page.heading("All claims"),
        _claims_table([pair for pair in records if pair not in toys]),
        page.paragraph(
            "A verdict is the two-sided test at 5 %, by Holm's correction over the claims of a figure "
            "that have "
            "data: confirmed; contradicted, if the contrary is significant (p is then the contrary's); "
            "inconclusive, if neither is. Not testable here: something that must hold first does not, or so "
            "few runs could not show it. Planned: not all of its runs are there yet. The scale says how far "
            "the runs are from the paper's own; a toy supports no claim, and its verdicts are outlined, not "
            "filled."
        ),
        *([page.heading("Asked again in other ways"), _claims_table(studies)] if studies else []),
        *([page.heading("At toy sizes, which support no claim"), _claims_table(toys)] if toys else []),
        *(
            section
            for place, (record, folder) in zip(places, [*records, *studies], strict=True)
            for section in _figure_sections(record, folder, place)
        ),
    ]
    return page.page("What the paper claims, and what came out", _summary(records), sections, _footer(records))


def _summary(records: Sequence[tuple[Record, Path]]) -> str:
    """How many claims got which verdict, those of the paper's figures and those of one's own apart.

    Toys support no claim, so their verdicts are not among these; only their number is told.
    """
    told = []
    for whose, ours in (("Claims of the paper", True), ("Claims of other figures", False)):
        claims = [
            (claim, is_toy_tier(record) or claim["scale"] == TOY_SCALE)
            for record, _ in records
            if (record["figure"] in NAMES) == ours
            for claim in record["claims"]
        ]
        words = Counter(claim["verdict"] for claim, toy in claims if not toy)
        counts = [f"{count} {word}" for word, count in words.most_common()]
        counts += [f"{toys} at toy sizes"] if (toys := sum(toy for _, toy in claims)) else []
        if counts:
            told.append(f"{whose}: {', '.join(counts)}.")
    return " ".join(told) or "No claim is judged."


def _claims_table(records: Sequence[tuple[Record, Path]]) -> str:
    return page.table(["claim", "scale", "p", "verdict"], _claim_rows(records), _claim_moods(records))


def _claim_rows(records: Sequence[tuple[Record, Path]]) -> list[list[str]]:
    return [
        [
            f"{title_of(record)}: {with_indices(claim['sentence'])}",
            claim["scale"] or "–",
            told_p(claim),
            claim["verdict"],
        ]
        for record, _ in records
        for claim in record["claims"]
    ]


def _claim_moods(records: Sequence[tuple[Record, Path]]) -> list[str]:
    """How each verdict looks: filled, outlined where the runs are a toy, dashed where it is open."""
    claims = [claim for record, _ in records for claim in record["claims"]]
    faint = [" faint" if claim["scale"] == TOY_SCALE else "" for claim in claims]
    plain = {"inconclusive": "open"} | MOODS
    return [f"{plain.get(claim['verdict'], '')}{how}" for claim, how in zip(claims, faint, strict=True)]


def _figure_sections(record: Record, folder: Path, place: str) -> list[str]:
    """place: by what the contents find it."""
    caption = with_indices(" ".join([f"{record['paper']}. {record['caption']}", *record["notes"]]))
    sections = [page.heading(f"{title_of(record)}: {record['shows']}", place)]
    picture = _picture(folder, str(record["figure"]), str(record["shows"]))
    sections.append(page.paragraph(caption) if picture is None else page.figure(picture, caption))
    if record["differences"]:
        sections.append(page.paragraph(f"Differs from the paper: {'; '.join(record['differences'])}."))
    sections.append(page.paragraph(_runs_told(record)))
    detects = {entry["claim"]: entry["detects"] for entry in record["plan"]}
    for claim in record["claims"]:
        fine = [
            claim["numbers"],
            f"{claim['method']}; p = {told_p(claim)} after Holm's correction. "
            f"The least the plan can see: {detects.get(claim['claim'], '')}.",
            f"Scale: {claim['scale'] or 'none yet'}.",
        ]
        sentence, mood = with_indices(claim["sentence"]), MOODS.get(claim["verdict"], "")
        sections.append(page.statement(claim["verdict"], sentence, [with_indices(line) for line in fine], mood))
    sections.append(page.details("config, versions and machine", _small_print(record)))
    return sections


def _picture(folder: Path, name: str, shows: str) -> str | None:
    """The figure's drawing as an image; None where there is none, or something else in its place.

    The folder may have come from somebody else: its SVG is not copied into the page, where its scripts would
    run. A name that leads out of the folder names no drawing.
    """
    path = folder / f"{name}.png"
    if path.name != f"{name}.png" or path.is_symlink() or not path.is_file():
        return None
    if path.stat().st_size > LARGEST_PICTURE:
        return None
    content = path.read_bytes()
    return page.png_image(content, shows) if content.startswith(PNG) else None


def _runs_told(record: Record) -> str:
    runs = record["runs"]
    if not runs["planned"] and not runs.get("later"):
        return "No runs are needed."
    later = max(0, runs["planned"] + runs.get("later", 0) - runs["done"] - len(runs["missing"]))
    told = f"{runs['done']} runs, {duration(runs['seconds'])} in all."
    if runs["missing"]:
        told += f" {len(runs['missing'])} more are to come."
    if later:
        told += f" {later} more are planned for later."
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
    processors = {str(name) for one in made for name in _of_runs(one)}
    machines = ", ".join(sorted(processors))
    return f"internalize {', '.join(versions)}; torch {', '.join(torches)}; runs on {machines}"


def _of_runs(made: Record) -> list[Any]:
    """The processors on which the runs were made, or where there were none that of the drawing."""
    runs = made.get("runs")
    names = runs.get("processor") if isinstance(runs, dict) else None
    return names if isinstance(names, list) else [made["processor"]]
