"""Rows in every format, against rows worked out by hand; and every bad row refused by its line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from internalize.errors import BadInput
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.rows import RowsConfig, read_rows, write_rows

QUESTION, STEPS, ANSWER = "2 * 3 + 4", ("2 * 3 = 6", "6 + 4 = 10"), "10"
COT = "\n".join(STEPS)


class Own(NamedTuple):
    """A user's own row."""

    question: str
    steps: tuple[str, ...]
    answer: str


def as_lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return str(path)


CASES: dict[str, tuple[str, Any, RowsConfig]] = {
    "steps": ("a.jsonl", {"question": QUESTION, "steps": list(STEPS), "answer": ANSWER}, RowsConfig()),
    "other names": (
        "a.jsonl",
        {"q": QUESTION, "s": list(STEPS), "a": ANSWER},
        RowsConfig(question="q", steps="s", answer="a"),
    ),
    "cot": ("a.jsonl", {"question": QUESTION, "cot": COT, "answer": ANSWER}, RowsConfig()),
    "cot, another splitter": (
        "a.jsonl",
        {"question": QUESTION, "cot": " ; ".join(STEPS), "answer": ANSWER},
        RowsConfig(splitter=";"),
    ),
    "internalize-cot": (
        "a.txt",
        f"{QUESTION}||<<2 * 3 = 6>> <<6 + 4 = 10>> #### {ANSWER}".replace("<<", "").replace(">>", " ;"),
        RowsConfig(splitter=";"),
    ),
    "completion": (
        "a.jsonl",
        {"prompt": QUESTION, "completion": f"{COT}\nAnswer: {ANSWER}"},
        RowsConfig(marker="Answer:"),
    ),
    "completion as messages": (
        "a.jsonl",
        {
            "prompt": [{"role": "user", "content": QUESTION}],
            "completion": [{"role": "assistant", "content": f"{COT}\n#### {ANSWER}"}],
        },
        RowsConfig(),
    ),
    "messages": (
        "a.jsonl",
        {
            "messages": [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "reasoning": COT, "content": ANSWER},
            ]
        },
        RowsConfig(),
    ),
    "cot, another name": (
        "a.jsonl",
        {"question": QUESTION, "chain": COT, "answer": ANSWER},
        RowsConfig(cot="chain"),
    ),
    "completion, other names": (
        "a.jsonl",
        {"input": QUESTION, "output": f"{COT} #### {ANSWER}"},
        RowsConfig(prompt="input", completion="output"),
    ),
    "messages, another name": (
        "a.jsonl",
        {"talk": [{"role": "user", "content": QUESTION}, {"role": "assistant", "why": COT, "content": ANSWER}]},
        RowsConfig(messages="talk", reasoning="why"),
    ),
    "steps beside other columns": (
        "a.jsonl",
        {"question": QUESTION, "steps": list(STEPS), "answer": ANSWER, "completion": "x", "messages": [1]},
        RowsConfig(),
    ),
    "a named column beside complete steps": (
        "a.jsonl",
        {"question": QUESTION, "steps": ["other"], "answer": ANSWER, "chain": COT},
        RowsConfig(cot="chain"),
    ),
    "a JSON list (coconut)": ("a.json", [{"question": QUESTION, "steps": list(STEPS), "answer": ANSWER}] * 2,
                              RowsConfig()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_format_gives_the_same_row(name: str, tmp_path: Path) -> None:
    file, row, config = CASES[name]
    path = tmp_path / file
    if file.endswith(".json"):
        path.write_text(json.dumps(row))
    else:
        as_lines(path, row, "", row)  # an empty line is no row
    rows, source = read_rows(str(path), config, "data", {})
    assert [(r.question, r.steps, r.answer) for r in rows] == [(QUESTION, STEPS, ANSWER)] * 2
    assert [r.line for r in rows] == ([1, 2] if file.endswith(".json") else [1, 3])
    assert not source.kept


@pytest.mark.usefixtures("named_by_the_user")
def test_lists_in_python_and_files_written_here_are_read_back(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "steps": list(STEPS), "answer": ANSWER}, CASES["messages"][1]]
    for name in ("rows.jsonl", "rows.txt"):
        found, _ = read_rows(write_rows(rows, tmp_path / name), RowsConfig(), "data", {})
        assert [(r.question, r.answer) for r in found] == [(QUESTION, ANSWER)] * 2
    module = tmp_path / "mine.py"
    module.write_text(f"ROWS = {rows!r}\n")
    found, source = read_rows(f"{module}:ROWS", RowsConfig(), "data", {})
    assert [r.steps for r in found] == [STEPS] * 2
    assert source.kept  # a small file of the user's own, copied like any other
    with pytest.raises(BadInput, match="rows: row 2: the answer is empty"):
        write_rows([rows[0], {"question": "1", "steps": [], "answer": " "}], tmp_path / "bad.jsonl")
    assert not (tmp_path / "bad.jsonl").exists()
    with pytest.raises(BadInput, match=r"rows: row 2: a row of a \.txt is one line"):
        write_rows([rows[0], {"question": "1\n2", "steps": ["3"], "answer": "3"}], tmp_path / "bad.txt")
    for row in ({"question": "1||2", "steps": ["3"], "answer": "3"}, {**rows[0], "steps": ["3 #### 4"]}):
        with pytest.raises(BadInput, match=r"rows: row 1: as a line of a \.txt it .* once.*; use \.jsonl"):
            write_rows([row], tmp_path / "bad.txt")
    own = Own(QUESTION, STEPS, ANSWER)
    (found_again,), _ = read_rows(write_rows([own], tmp_path / "own.jsonl"), RowsConfig(), "data", {})
    assert (found_again.question, found_again.steps, found_again.answer) == (QUESTION, STEPS, ANSWER)


def test_rows_in_a_folder_are_named_by_their_content(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "steps": list(STEPS), "answer": ANSWER}]
    folder = f"{tmp_path}/data/"
    first = Path(write_rows(rows, folder))
    assert first.parent == tmp_path / "data"
    assert re.fullmatch(r"rows-[0-9a-f]{12}\.jsonl", first.name)
    written = first.stat().st_mtime_ns, first.stat().st_ino
    assert write_rows(iter([CASES["messages"][1]]), tmp_path / "data") == str(first)  # the same, said otherwise
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == written
    assert write_rows(rows * 2, folder) != str(first)
    whole = first.read_bytes()
    first.write_text("something else")
    assert write_rows(rows, folder) == str(first)
    assert first.read_bytes() == whole
    with pytest.raises(BadInput, match="rows: has no rows"):
        write_rows([], f"{tmp_path}/none/")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("rows", [[{"question": QUESTION, "steps": [], "answer": ANSWER}] * 999, (), {"a": 1}])
def test_a_list_in_place_of_a_file_is_told_what_writes_one(rows: Any) -> None:
    with pytest.raises(BadInput) as refused:
        TextConfig(data=rows, model="gpt2.json")
    assert str(refused.value) == (
        f"data: must be text, got a {type(rows).__name__}: name a file of rows; "
        "data=internalize.write_rows(rows, 'data/') writes one of a list"
    )


def test_a_folder_of_datasets_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets: pip install '.[datasets]'")
    row = {"question": QUESTION, "steps": list(STEPS), "answer": ANSWER}
    datasets.Dataset.from_list([row, row]).save_to_disk(str(tmp_path / "saved"))
    rows, _ = read_rows(str(tmp_path / "saved"), RowsConfig(), "data", {})
    assert [(r.question, r.steps, r.answer) for r in rows] == [(QUESTION, STEPS, ANSWER)] * 2
    datasets.DatasetDict({"train": datasets.Dataset.from_list([row])}).save_to_disk(str(tmp_path / "splits"))
    with pytest.raises(BadInput, match=r"several splits \(train\)"):
        read_rows(str(tmp_path / "splits"), RowsConfig(), "data", {})
    found, _ = read_rows(str(tmp_path / "splits" / "train"), RowsConfig(), "data", {})
    assert [r.answer for r in found] == [ANSWER]
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"data: .*empty is no folder of datasets.save_to_disk"):
        read_rows(str(tmp_path / "empty"), RowsConfig(), "data", {})


def test_a_folder_without_the_library_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match=r"needs the library datasets: pip install 'internalize\[datasets\]'"):
        read_rows(str(tmp_path), RowsConfig(), "data", {})


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.txt"])
def test_a_mark_of_the_encoding_is_no_part_of_the_rows(name: str, tmp_path: Path) -> None:
    row = {"question": QUESTION, "steps": list(STEPS), "answer": ANSWER}
    line = f"{QUESTION}||{COT} #### {ANSWER}".replace("\n", " ; ")
    text = {"a.jsonl": json.dumps(row), "a.json": json.dumps([row]), "a.txt": line}[name]
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    rows, _ = read_rows(str(tmp_path / name), RowsConfig(splitter=";" if name == "a.txt" else "\n"), "data", {})
    assert [(r.question, r.steps, r.answer) for r in rows] == [(QUESTION, STEPS, ANSWER)]


GOOD = CASES["steps"][1]
BAD: dict[str, tuple[list[Any], str]] = {
    "no JSON": ([GOOD, "{question"], r"data \(a.jsonl\), line 2: is not JSON"),
    "no object": ([GOOD, "7"], "line 2: must be an object with columns, got 7"),
    "a column missing": ([{"question": "1", "answer": "2"}], "line 1: has no column 'steps', only 'question'"),
    "text for steps": ([{**GOOD, "steps": 3}], "line 1: the steps must be a list of texts, got 3"),
    "a number as a step": ([{**GOOD, "steps": ["a", 3]}], r"line 1: steps\[1\] must be text that is not empty"),
    "a number as the answer": ([{**GOOD, "answer": 10}], "line 1: the answer must be text, got 10"),
    "empty question": ([GOOD, {**GOOD, "question": " "}, {**GOOD, "question": ""}],
                       r"line 2: the question is empty \(and 1 more bad rows\)"),
    "a named column missing": ([{"prompt": "1"}], "line 1: has no column 'completion', only 'prompt'"),
    "no marker": ([{"prompt": "1", "completion": "2"}], "line 1: has no '####' between chain and answer"),
    "no reasoning": ([{"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]}],
                     "line 1: the last message has no field 'reasoning'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_refused_with_file_line_and_reason(name: str, tmp_path: Path) -> None:
    rows, message = BAD[name]
    with pytest.raises(BadInput, match=message):
        read_rows(as_lines(tmp_path / "a.jsonl", *rows), RowsConfig(), "data", {})


def test_bad_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n \n")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "line.txt").write_text("1 + 1 #### 2\n")
    (tmp_path / "folder").mkdir()
    for name, message in {
        "empty.jsonl": "the file is empty",
        "bytes.jsonl": "not UTF-8",
        "object.json": "must be a JSON list of rows",
        "line.txt": r"line 1: must have '\|\|' once",
        "none.jsonl": "there is no file",
        "folder": "folder",
    }.items():
        with pytest.raises(BadInput, match=message):
            read_rows(str(tmp_path / name), RowsConfig(), "data", {})
