"""The claims of all figures there are as one Markdown table: what the README shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from internalize.figures.verdicts import told_p

HEADING = "| figure | claim | here | p | verdict |\n|---|---|---|---|---|"


def claims_table(records: Sequence[tuple[dict[str, Any], Path]]) -> str:
    """A line a claim, in the order of the records: (verdict as JSON, its folder)."""
    lines = [HEADING]
    for record, _ in records:
        name = f"`{record['figure']}` ({record['paper']})"
        for claim in record["claims"]:
            cells = [name, claim["sentence"], claim["numbers"], told_p(claim), f"**{claim['verdict']}**"]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
            name = ""
    return "\n".join(lines)
