"""The map of the house: every file of the package in one phrase, the first of its docstring.

python -m tests.house_map > docs/map.md
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import internalize

PACKAGE = Path(internalize.__file__).parent
HEAD = """# The map: every file in one phrase

Rooms from the ground up: a file imports only from its own room and from rooms above it. This page is made by
`python -m tests.house_map > docs/map.md` from the first sentence of every file, and a test keeps it true.
"""


def house_map(rooms: list[str]) -> str:
    """The page; rooms: their names, from the ground up."""
    parts = [HEAD]
    for room in rooms:
        single, folder = PACKAGE / f"{room}.py", PACKAGE / room
        files = [single] if single.is_file() else sorted(folder.rglob("*.py"))
        lines = [f"| `{path.relative_to(PACKAGE).as_posix()}` | {phrase(path)} |" for path in files]
        parts.append("\n".join([f"## {room}\n", "| file | what it is for |", "|---|---|", *lines]) + "\n")
    return "\n".join(parts)


def phrase(path: Path) -> str:
    """The first sentence of the file's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", first)[0].replace("|", "\\|")


if __name__ == "__main__":
    from tests.test_architecture import ROOMS

    print(house_map(ROOMS), end="")
