"""Rows of question, steps and answer, from files in several people's formats. A bad row is refused by its line.

| format          | a row                                                                                  |
|-----------------|----------------------------------------------------------------------------------------|
| steps           | `{"question": …, "steps": [...], "answer": …}` (coconut's, as JSONL or one JSON list)  |
| cot             | `{"question": …, "cot": "all steps in one text", "answer": …}`, cut by the splitter    |
| internalize-cot | `question||chain #### answer`, one on each line (Internalize_CoT_Step_by_Step's)      |
| completion      | `{"prompt": …, "completion": "chain #### answer"}` (TRL's)                             |
| messages        | `{"messages": [{"role": "user", …}, {"role": "assistant", "reasoning": …, …}]}`        |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from internalize.configs.codec import typed
from internalize.configs.files import make_folder, require_whole_letters, write_output
from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.errors import BadInput, require

Format = Literal["auto", "steps", "cot", "internalize-cot", "completion", "messages"]
LINE_SEPARATOR = "||"


@dataclass(frozen=True)
class TextRow:
    """One example, and where it stands."""

    question: str
    steps: tuple[str, ...]
    answer: str
    line: int
    """In its file, from 1."""


@dataclass(frozen=True)
@typed("rows")
class RowsConfig:
    """How rows are read: the format and the names of columns."""

    format: Format = "auto"
    """steps, cot, internalize-cot, completion or messages; auto looks at the file's name and at
    the columns of each row."""
    question: str = "question"
    """Column of the question."""
    steps: str = "steps"
    """Column of the list of steps."""
    cot: str = "cot"
    """Column of a chain that is one text."""
    answer: str = "answer"
    """Column of the answer."""
    prompt: str = "prompt"
    """Column of the prompt, format completion."""
    completion: str = "completion"
    """Column of the completion, format completion."""
    messages: str = "messages"
    """Column of the list of messages, format messages."""
    reasoning: str = "reasoning"
    """Field of the last message that holds its chain, format messages."""
    splitter: str = "\n"
    """Where a chain that is one text is cut into steps."""
    marker: str = "####"
    """What stands between chain and answer where both are one text."""
    joiner: str = "\n"
    """What is put after every step but the last when steps become tokens."""

    def __post_init__(self) -> None:
        require(self.splitter != "", "rows.splitter", "must not be empty")
        require(self.marker.strip() != "", "rows.marker", "must not be empty")


DEFAULT_COLUMNS = RowsConfig()


class BadRow(Exception):
    """What is wrong with one row."""


def read_rows(name: str, config: RowsConfig, field: str, copies: Copies) -> tuple[list[TextRow], Source]:
    """All rows that a name stands for, and the file or folder behind it.

    name: a .jsonl, .json or .txt file, a folder of `datasets.save_to_disk`, or `file.py:ROWS` (a list).
    """
    if is_object_name(name) and not Path(name).exists():
        listed, source = load_object(name, field, copies)
        good = isinstance(listed, Sequence) and not isinstance(listed, str)
        require(good, field, f"{name} must be a list of rows, got a {type(listed).__name__}")
        return _parse(enumerate(listed, 1), config, f"{field} ({name})", "row"), source
    path = Path(name)
    require(path.exists(), field, f"there is no file {name}")
    if path.is_dir():
        return _parse(_saved_rows(path, field), config, f"{field} ({name})", "row"), ContentSource(name, path)
    # a FIFO would be waited for, a device read without end
    require(path.is_file(), field, f"{name} must be a plain file of rows, or a folder")
    lines, unit = _lines_of(path, config, field)
    return _parse(lines, config, f"{field} ({path.name})", unit), ContentSource(name, path)


def _lines_of(path: Path, config: RowsConfig, field: str) -> tuple[Iterable[tuple[int, Any]], str]:
    """Line by line: text of `internalize-cot`, parsed JSON otherwise; or the entries of one JSON list."""
    where = f"{field} ({path.name})"
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark of its encoding
    except UnicodeDecodeError:
        raise BadInput(where, "the file is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(field, f"cannot read {path}: {error.strerror}") from None
    require(text.strip() != "", where, "the file is empty")
    lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if config.format == "internalize-cot" or (config.format == "auto" and path.suffix == ".txt"):
        return lines, "line"
    if path.suffix == ".json":
        listed = _json(text, where)
        require(isinstance(listed, list), where, "must be a JSON list of rows; one row for each line is .jsonl")
        return enumerate(listed, 1), "row"
    return ((i, _json(line, f"{where}, line {i}")) for i, line in lines), "line"


def _json(text: str, where: str) -> Any:
    try:
        value = json.loads(text)
        require_whole_letters(text, value, where)
        return value
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"is not JSON: {error}") from None


def _saved_rows(folder: Path, field: str) -> Iterator[tuple[int, Any]]:
    """Rows of a folder that the library datasets wrote; it must be installed."""
    try:
        from datasets import load_from_disk  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        needed = "reading it needs the library datasets: pip install 'internalize[datasets]'"
        raise BadInput(field, f"{folder} is a folder: {needed}") from None
    try:
        found = load_from_disk(str(folder))
    except Exception as error:  # whatever is wrong with it, the library says it in many ways
        raise BadInput(field, f"{folder} is no folder of datasets.save_to_disk: {error}") from None
    splits = getattr(found, "keys", None)
    if splits is not None:
        names = ", ".join(splits())
        raise BadInput(field, f"{folder} holds several splits ({names}): name one of them, {folder}/NAME")
    yield from enumerate(found, 1)


def _parse(rows: Iterable[tuple[int, Any]], config: RowsConfig, where: str, unit: str) -> list[TextRow]:
    """Every row, or one refusal that names the first bad row and says how many more there are."""
    found: list[TextRow] = []
    problems: list[str] = []
    for line, row in rows:
        try:
            found.append(row_of(row, config, line))
        except BadRow as problem:
            problems.append(f"{unit} {line}: {problem}")
    more = f" (and {len(problems) - 1} more bad rows)" if len(problems) > 1 else ""
    require(not problems, where, f"{problems[0] if problems else ''}{more}")
    require(bool(found), where, "has no rows")
    return found


def row_of(row: Any, config: RowsConfig, line: int) -> TextRow:
    """One row, in whichever of the formats it is."""
    chosen = format_of(row, config) if config.format == "auto" else config.format
    question, chain, answer = READERS[chosen](row, config)
    steps = _cut(chain, config.splitter) if isinstance(chain, str) else chain
    for name, text in (("question", question), ("answer", answer)):
        if not isinstance(text, str):
            raise BadRow(f"the {name} must be text, got {_short(text)}")
        if not text.strip():
            raise BadRow(f"the {name} is empty")
    if not isinstance(steps, list | tuple):
        raise BadRow(f"the steps must be a list of texts, got {_short(steps)}")
    for i, step in enumerate(steps):
        if not isinstance(step, str) or not step.strip():
            raise BadRow(f"steps[{i}] must be text that is not empty, got {_short(step)}")
    return TextRow(question, tuple(steps), answer, line)


COLUMNS: dict[Format, tuple[str, ...]] = {
    "steps": ("question", "steps", "answer"),
    "cot": ("question", "cot", "answer"),
    "completion": ("prompt", "completion"),
    "messages": ("messages",),
}
"""Format → the fields of `RowsConfig` that name its columns. A row that fits several is read as the first."""
TELLING: dict[Format, tuple[str, ...]] = {
    "messages": ("reasoning", "messages"),
    "completion": ("completion", "prompt"),
    "cot": ("cot",),
    "steps": ("steps",),
}
"""Format → those that no other format has: who names one of them means this format, and so does most likely a
row with the last of them."""


def format_of(row: Any, config: RowsConfig) -> Format:
    """By the columns that a row has under the config's names, or text as it is.

    A format for which the user named a column comes first. Where no format has all its columns, the one that
    fits best is tried, so that the refusal names the column that is missing.
    """
    if isinstance(row, str):
        return "internalize-cot"
    keys = set(row) if isinstance(row, Mapping) else set()
    named = [form for form in COLUMNS if any(_is_named(config, column) for column in TELLING[form])]
    for form in (*named, *COLUMNS):
        if all(getattr(config, column) in keys for column in COLUMNS[form]):
            return form
    near = [form for form in TELLING if getattr(config, TELLING[form][-1]) in keys]
    return next(iter((*named, *near)), "steps")


def _is_named(config: RowsConfig, column: str) -> bool:
    return bool(getattr(config, column) != getattr(DEFAULT_COLUMNS, column))


def _cut(chain: str, splitter: str) -> list[str]:
    return [part.strip() for part in chain.split(splitter) if part.strip()]


def _column(row: Any, name: str) -> Any:
    if not isinstance(row, Mapping):
        raise BadRow(f"must be an object with columns, got {_short(row)}")
    if name not in row:
        raise BadRow(f"has no column {name!r}, only {', '.join(map(repr, row))} (name columns by --rows.…)")
    return row[name]


def _read_steps(row: Any, config: RowsConfig) -> tuple[Any, Any, Any]:
    return _column(row, config.question), _column(row, config.steps), _column(row, config.answer)


def _read_cot(row: Any, config: RowsConfig) -> tuple[Any, Any, Any]:
    return _column(row, config.question), _column(row, config.cot), _column(row, config.answer)


def _read_line(row: Any, config: RowsConfig) -> tuple[Any, Any, Any]:
    if not isinstance(row, str):
        raise BadRow(f"must be a line of text, got {_short(row)}")
    parts = row.split(LINE_SEPARATOR)
    if len(parts) != 2:
        raise BadRow(f"must have {LINE_SEPARATOR!r} once, between question and chain, got {_short(row)}")
    return (parts[0].strip(), *_at_marker(parts[1], config))


def _read_completion(row: Any, config: RowsConfig) -> tuple[Any, Any, Any]:
    prompt, completion = (_spoken(_column(row, name)) for name in (config.prompt, config.completion))
    if not isinstance(completion, str):
        raise BadRow(f"the completion must be text, got {_short(completion)}")
    return (prompt, *_at_marker(completion, config))


def _at_marker(text: str, config: RowsConfig) -> tuple[str, str]:
    """Chain and answer of one text."""
    chain, marker, answer = text.partition(config.marker)
    if not marker:
        raise BadRow(f"has no {config.marker!r} between chain and answer (another marker: --rows.marker)")
    if config.marker in answer:
        raise BadRow(f"has {config.marker!r} more than once")
    return chain.strip(), answer.strip()


def _spoken(value: Any) -> Any:
    """Text as it is, and the contents of a list of messages as one text."""
    if not isinstance(value, list | tuple):
        return value
    contents: list[Any] = [part.get("content") if isinstance(part, Mapping) else None for part in value]
    if not contents or not all(isinstance(content, str) for content in contents):
        raise BadRow(f"messages must have a content of text each, got {_short(value)}")
    return "\n".join(contents)


def _read_messages(row: Any, config: RowsConfig) -> tuple[Any, Any, Any]:
    messages = _column(row, config.messages)
    if not isinstance(messages, list | tuple) or len(messages) < 2:
        raise BadRow(f"needs at least two messages, got {_short(messages)}")
    last = messages[-1]
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        raise BadRow("the last message must be the assistant's")
    if config.reasoning not in last:
        raise BadRow(f"the last message has no field {config.reasoning!r} (its name: --rows.reasoning)")
    return _spoken(messages[:-1]), last[config.reasoning], last.get("content")


READERS = {
    "steps": _read_steps,
    "cot": _read_cot,
    "internalize-cot": _read_line,
    "completion": _read_completion,
    "messages": _read_messages,
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def write_rows(rows: Iterable[Any], path: Path | str, config: RowsConfig | None = None) -> str:
    """Rows of a Python list as a file that `TextConfig(data=…)` takes; returns its path.

    rows: mappings in any of the formats, or objects with question, steps and answer; the config says how they
    are read, as that of a file does. All are checked before anything is written.
    path: a file; or a folder (one that is there, or a name with a slash at its end), in which the content
    decides the name. There the same rows are the same file and thus the same run, and other rows never change
    the file of an earlier run. Written in the form of Internalize_CoT where the name ends in .txt, as JSONL
    with the columns question, steps and answer otherwise.
    """
    config, given = config or RowsConfig(), str(path)
    path, is_folder = Path(path), given.endswith("/") or Path(path).is_dir()
    plain = (_plain(row) if hasattr(row, "question") else row for row in rows)
    parsed = _parse(enumerate(plain, 1), config, "rows", "row")
    form = _as_line if path.suffix == ".txt" and not is_folder else _as_json
    for number, row in enumerate(parsed if form is _as_line else (), 1):
        _require_line(row, config, number)
    content = "".join(f"{form(row, config)}\n" for row in parsed).encode()
    if is_folder:
        make_folder(path, "path")
        path /= f"rows-{hashlib.sha256(content).hexdigest()[:12]}.jsonl"
        if path.is_file() and path.read_bytes() == content:
            return str(path)
    write_output(path, content)
    return str(path)


def _plain(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("question", "steps", "answer") if hasattr(row, name)}


def _as_json(row: TextRow, config: RowsConfig) -> str:
    content = {"question": row.question, "steps": list(row.steps), "answer": row.answer}
    return json.dumps(content, ensure_ascii=False)


def _as_line(row: TextRow, config: RowsConfig) -> str:
    return f"{row.question}{LINE_SEPARATOR}{' '.join(row.steps)} {config.marker} {row.answer}"


def _require_line(row: TextRow, config: RowsConfig, number: int) -> None:
    """Refuse a row that would not come back from a line as it was, apart from where its steps end."""
    line = _as_line(row, config)
    good = "\n" not in line
    require(good, "rows", f"row {number}: a row of a .txt is one line, and this has a line break; use .jsonl")
    try:
        question, chain, answer = _read_line(line, config)
    except BadRow as error:
        raise BadInput("rows", f"row {number}: as a line of a .txt it {error}; use .jsonl") from None
    given = (row.question, " ".join(row.steps), row.answer)
    same = (question, chain, answer) == tuple(map(str.strip, given))
    require(same, "rows", f"row {number}: a .txt would not give it back as it is; use .jsonl")


READ_AT_ONCE = 2**20


@dataclass(frozen=True)
class ContentSource(Source):
    """A file or a folder that stays where it is."""

    kept: bool = False

    def digest(self) -> str:
        """Of a folder: of the names and contents of all its files but hidden ones."""
        if self.path.is_file():
            return _digest_of_file(self.path)
        whole = hashlib.sha256()
        for path in files_of(self.path):
            whole.update(f"{path.relative_to(self.path).as_posix()} {_digest_of_file(path)}\n".encode())
        return whole.hexdigest()


def files_of(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _digest_of_file(path: Path) -> str:
    state = path.stat()
    return _digest_once(path, state.st_ino, state.st_size, state.st_mtime_ns)


@cache  # a command prepares a config more than once, and a model has gigabytes
def _digest_once(path: Path, inode: int, size: int, changed: int) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            found.update(block)
    return found.hexdigest()
