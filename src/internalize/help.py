"""What `internalize --help` prints: all commands, in groups."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "tasks", "examples"),
    "Train": (
        "train",
        "resume",
        "text",
        "data check",
        "data make",
        "hints",
        "parity",
        "selfplay",
        "experiment",
    ),
    "Look inside a run": (
        "ask",
        "show",
        "evaluate",
        "diagnose",
        "check",
        "matrix",
        "probe",
        "patch",
        "profile",
        "audit",
        "explore",
    ),
    "Many runs": (
        "runs",
        "runs show",
        "runs compare",
        "runs export",
        "runs page",
        "sweep",
        "collect",
        "plan",
        "race",
        "frontier",
        "atlas",
    ),
    "The paper and its theory": (
        "figures",
        "figure",
        "report",
        "construct",
        "parity diagram",
        "hints draw",
        "selfplay draw",
        "pds",
    ),
    "Housekeeping": (
        "doctor",
        "runs verify",
        "runs prune",
        "runs trust",
        "bench",
        "text bench",
        "selfplay bench",
        "completion",
    ),
}
"""Heading → the commands below it; a command that is in no group is listed last."""
RUN_WORDS = (
    "RUN in the help of a command is a run's folder, a unique part of its name, the beginning of its hash, or "
    "`latest`. RUN@3 is the run at the end of stage 3."
)


def overview(purposes: Mapping[str, str]) -> str:
    """What `internalize --help` prints. purposes: command → what it is for."""
    width = max(map(len, purposes))
    lines = []
    for heading, names in grouped(list(purposes)).items():
        lines += ["", f"{heading}:", *(f"  {name:<{width}}  {purposes[name]}" for name in names)]
    return "\n".join(
        [
            "usage: internalize COMMAND [OPTIONS]",
            "",
            "Learning through internalization: teach a network to reason out loud, take the words away, and",
            "measure what is left.",
            *lines,
            "",
            "internalize COMMAND --help, or internalize help COMMAND, lists the options of a command.",
            *textwrap.wrap(RUN_WORDS, 96),
        ]
    )


def grouped(commands: list[str]) -> dict[str, list[str]]:
    """The commands below their headings; those that no group names come last."""
    found = {heading: [name for name in names if name in commands] for heading, names in GROUPS.items()}
    others = [name for name in commands if not any(name in names for names in GROUPS.values())]
    return {**found, **({"Others": others} if others else {})}
