"""SIGKILL right before any change to a file, in every command that writes: afterwards the same bytes, or none.

The moments are counted among all that a command is about to change: opening to write, renaming, removing,
making folders. Whatever it wrote before is on the disk, as it would be after a kill by hand.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.children import Children
from tests.hostile.laboratory import GOOD, good_words

LINES = {
    "hints": GOOD["hints"],
    "parity": "--d 4 --k 2 --no-contrast --no-watch",
    "selfplay": GOOD["selfplay"],
    "text": GOOD["text"],
    "sweep": "sweep.json --no-estimate --out others --workers 1",
    "figure": "construction-size --no-train --tier smoke",
    "report": GOOD["report"],
    "runs export": "--csv table.csv",
    "runs page": GOOD["runs page"],
    "runs prune": "--status done --yes",
    "collect": "sweep.json --csv table.csv",
    "matrix": GOOD["matrix"],
    "data make": GOOD["data make"],
}
QUICK = ["hints", "text", "report", "runs export", "runs prune", "collect"]
NOT_RESULTS = re.compile(
    r"timing\.jsonl|provenance\.json|manifest\.json|status\.json|\.lock|\.owner|\.index|count$"
)
"""Files that hold times or belong to a moment; the manifest has the digests of these. Results are compared."""
LEFT_BEHIND = re.compile(r"\.[^/]*\.tmp$|\.deleting-")


def results(lab: Path) -> dict[str, bytes]:
    """Every file of results, by its place; leftovers of the killed, which nobody reads, are no results."""
    files = (path for path in sorted(lab.rglob("*")) if path.is_file())
    named = {str(path.relative_to(lab)): path for path in files}
    return {
        name: _timeless(path.read_bytes())
        for name, path in named.items()
        if not NOT_RESULTS.search(name) and not LEFT_BEHIND.search(name)
    }


def _timeless(content: bytes) -> bytes:
    """Without the seconds that a run took, and the minute in which a page was made."""
    text = re.sub(rb'("seconds": |"at": )[\d.]+', rb"\1", content)
    return re.sub(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", b"", text)


def check(command: str, kills: int, fresh: Callable[[], Path], children: Children) -> None:
    lab = fresh()
    words = [*good_words(command, lab)[: len(command.split())], *LINES[command].split()]
    words = [str(next(lab.glob(word)).relative_to(lab)) if "*" in word else word for word in words]
    count = lab.parent / "count"
    done = children.run(words, lab, patience=120, count=str(count))
    assert done.code == 0, done.err
    calm, changes = results(lab), int(count.read_text())
    assert changes > 0
    chance = random.Random(f"kills/{command}")
    moments = sorted(chance.sample(range(1, changes + 1), min(kills, changes)))
    for moment in moments:
        lab = fresh()
        killed = children.run(words, lab, patience=120, die=moment)
        assert killed.code == -9, killed.err
        for name, content in results(lab).items():  # what is there already is whole: old, or new
            if name.endswith((".csv", ".html", ".png", ".svg")):
                assert content == calm.get(name, content), (
                    f"{name} is half-written at change {moment} of {changes}"
                )
        again = children.run(words, lab, patience=120)
        assert again.code == 0, again.err
        assert results(lab) == calm, f"at change {moment} of {changes}"


@pytest.mark.parametrize("command", QUICK)
def test_a_kill_changes_no_result(command: str, fresh: Callable[[], Path], children: Children) -> None:
    check(command, 2, fresh, children)


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_many_kills_change_no_result(command: str, fresh: Callable[[], Path], children: Children) -> None:
    check(command, 12, fresh, children)
