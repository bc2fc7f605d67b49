"""The reference of the Python interface: all that is public, in the words of its own docstrings.

python -m tests.api_reference > docs/api.md
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

HEAD = """# The Python interface

What `import internalize` offers, and what figures, sweeps and opened runs offer besides. The fields of a config
are the options of its command too: `ScheduleConfig.stop_early` is `--schedule.stop-early`. This page is made by
`python -m tests.api_reference > docs/api.md` from the docstrings, and a test keeps it true.
"""
PLACES = {
    "internalize": (),
    "internalize.analysis.open_run": ("OpenRun", "OpenChain", "Answered", "Moment"),
    "internalize.sweeps": (),
    "internalize.figures": (),
}
"""Module → the names in it; all that it names as public if none are given."""


def api_reference() -> str:
    parts = [HEAD]
    for place, chosen in PLACES.items():
        module = import_module(place)
        names = chosen or [name for name in module.__all__ if not name.startswith("_")]
        parts.append(f"## {place}\n")
        for name in names:
            found = getattr(module, name)
            node = definition(found.__module__, found.__name__)
            inherited = [row for base in bases_of(found) for row in fields(base)]
            parts.append("\n".join([f"### {name}\n", *described(node, inherited)]) + "\n")
    return "\n".join(parts)


@cache
def tree_of(module: str) -> ast.Module:
    file = inspect.getsourcefile(import_module(module))
    assert file is not None
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    (node,) = (
        node
        for node in tree_of(module).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
    )
    return node


def bases_of(found: object) -> list[ast.ClassDef]:
    """The dataclasses of this package from which a class has its first fields."""
    ancestors = found.__mro__[:0:-1] if isinstance(found, type) else ()
    ours = [base for base in ancestors if is_dataclass(base) and base.__module__.startswith("internalize")]
    nodes = [definition(base.__module__, base.__name__) for base in ours]
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def described(node: ast.ClassDef | ast.FunctionDef, inherited: Sequence[str] = ()) -> Iterator[str]:
    """inherited: rows of fields that come before its own."""
    if isinstance(node, ast.FunctionDef):
        yield f"```python\n{signature(node)}\n```\n"
        yield text_of(node)
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"*class {node.name}{f'({bases})' if bases else ''}*. {text_of(node)}"
    rows = [*inherited, *fields(node)]
    if rows:
        yield "\n| field | type | if not given | meaning |\n|---|---|---|---|"
        yield from rows
    methods = [
        part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")
    ]
    if methods:
        yield ""
    for method in methods:
        shown = signature(method, skip_self=True).removeprefix("def ")
        is_property = any(
            ast.unparse(mark) in ("property", "cached_property") for mark in method.decorator_list
        )
        shown = method.name if is_property else shown
        yield f"- `{shown}`{': ' if (told := text_of(method)) else ''}{told}"


def fields(node: ast.ClassDef) -> Iterator[str]:
    """One row for each annotated field of a dataclass, with the text that stands below it."""
    for part, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        kind, default = ast.unparse(part.annotation), "" if part.value is None else default_of(part.value)
        if part.target.id.startswith("_") or kind.startswith("ClassVar"):
            continue
        told = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            told = " ".join(str(after.value.value).split())
        otherwise = cell(default) if default else "required"
        yield f"| `{part.target.id}` | {cell(kind)} | {otherwise} | {escaped(told)} |"


def default_of(value: ast.expr) -> str:
    """What a field is if nobody says: the value, or for `field(…)` what makes it."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "field"):
        return ast.unparse(value)
    given = {word.arg: ast.unparse(word.value) for word in value.keywords}
    made = given.get("default_factory", "")
    return given.get("default") or (f"{made}()" if made and not made.startswith("lambda") else "…")


def signature(node: ast.FunctionDef, skip_self: bool = False) -> str:
    text = f"def {node.name}({ast.unparse(node.args)})"
    if skip_self:
        text = text.replace("(self, ", "(").replace("(self)", "()").replace("(cls, ", "(")
    return text + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def text_of(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The docstring, each paragraph on one line; indented text and lists keep their lines."""
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    return "\n\n".join(part if "\n " in part else " ".join(part.split()) for part in paragraphs)


def cell(text: str) -> str:
    return f"`{escaped(text)}`"


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(api_reference(), end="")
