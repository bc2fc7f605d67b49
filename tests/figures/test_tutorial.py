"""The tutorial as a notebook, run from the first cell to the last in an empty folder; and its file's code."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from internalize import parse_task

DOCS = Path(__file__).resolve().parents[2] / "docs"


def run_notebook(folder: Path, small: bool) -> Any:
    """The executed notebook; small: with so little training that nothing is learned."""
    nbformat = pytest.importorskip("nbformat", reason="notebooks are not installed: internalize[notebook]")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are not installed: internalize[notebook]")
    pytest.importorskip("ipykernel", reason="notebooks are not installed: internalize[notebook]")
    notebook = nbformat.read(DOCS / "tutorial.ipynb", as_version=4)
    if small:
        sizes = notebook.cells[1]
        sizes.source = re.sub(r"3_000", "24", sizes.source).replace("range(5)", "range(1)")
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zmq, asyncio and jupyter_client, about each other
        client.execute()
        asyncio.set_event_loop(None)
    return notebook


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = run_notebook(tmp_path, small=True)
    pictures = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert any("image/svg+xml" in output["data"] for output in pictures)
    assert "not testable here" in pictures[-1]["data"]["text/html"]
    record = json.loads((tmp_path / "results" / "lamp" / "verdict.json").read_text())
    assert record["runs"]["done"] == 2


@pytest.mark.slow
def test_the_notebook_shows_what_it_says(tmp_path: Path) -> None:
    run_notebook(tmp_path, small=False)
    record = json.loads((tmp_path / "results" / "lamp" / "verdict.json").read_text())
    assert [claim["verdict"] for claim in record["claims"]] == ["confirmed"]


@pytest.mark.usefixtures("named_by_the_user")
def test_the_code_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files, written as it says: the task parses, the curriculum is one, the figure has its plan."""
    from internalize.curricula import find_curriculum
    from internalize.figures.paper import find_figure
    from internalize.figures.results import plan

    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", text, flags=re.MULTILINE)
    files = {
        "lamp.json": '{"name"',
        "lamp.py": "import semiautomaton",
        "halves.py": "import Curriculum",
        "lamp_figure.py": "FIGURE = Figure(",
    }
    for name, mark in files.items():
        (block,) = [block for block in blocks if mark in block]
        code = textwrap.dedent(block).strip()
        (tmp_path / name).write_text(re.split(r"^internalize ", code, flags=re.MULTILINE)[0])
    monkeypatch.chdir(tmp_path)
    written, made = parse_task("lamp.json"), parse_task("lamp.py:lamp")
    assert (made.name, made.state_names, made.symbol_names) == (
        "lamp",
        written.state_names,
        written.symbol_names,
    )
    assert made.table.tolist() == written.table.tolist()
    curriculum, _ = find_curriculum("halves.py:Halves", 8, {})
    assert [curriculum.shown(stage) for stage in range(1, 5)] == [
        (1, 2, 3, 4, 5, 6, 7, 8), (4, 5, 6, 7, 8), (6, 7, 8), (8,),
    ]  # fmt: skip
    figure = find_figure("lamp_figure.py:FIGURE")
    (entry,) = plan(figure, figure.planned(figure.sweep("laptop")))
    assert entry["detects"] in text.replace("\n", " ")
