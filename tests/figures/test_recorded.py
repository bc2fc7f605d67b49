"""A run that has a row in a finished figure's table is not trained again, and its row is the same as before."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from internalize import Execution, train
from internalize.cli import main
from internalize.errors import BadInput
from internalize.figures.cases import SMOKE, Grid, in_progress
from internalize.figures.paper import find_figure
from internalize.figures.recorded import recorded_runs
from internalize.figures.results import read, write
from internalize.sweeps.recorded import recorded_in

HEADS = ["figure", "heads", "--tier", "smoke", "--workers", "1", "--quiet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished figure of two runs: `runs` and `results`."""
    folder = tmp_path_factory.mktemp("made")
    assert main([*HEADS, "--out", str(folder / "runs"), "--results", str(folder / "results")]) == 0
    return folder


def table_of(results: Path) -> list[dict[str, str]]:
    rows = csv.DictReader((results / "heads-smoke" / "heads.csv").read_text(encoding="utf-8").splitlines())
    return sorted(rows, key=lambda row: row["run"])


def verdict_of(results: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads((results / "heads-smoke" / "verdict.json").read_text())
    return record


def copy_of(made: Path, to: Path, rows: int | None = None) -> Path:
    """The finished figure's table (its first rows) and verdict in a folder of results of its own."""
    folder = to / "recorded" / "heads-smoke"
    folder.mkdir(parents=True)
    for name in ("heads.csv", "verdict.json"):
        text = (made / "results" / "heads-smoke" / name).read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        keep = lines if rows is None or name != "heads.csv" else lines[: rows + 1]
        (folder / name).write_text("".join(keep), encoding="utf-8")
    return folder.parent


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_only_runs_without_a_row_are_trained(made: Path, tmp_path: Path, rows: int) -> None:
    where = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main([*HEADS, *where, "--recorded", str(copy_of(made, tmp_path, rows))]) == 0
    trained = sorted(path.name for path in (tmp_path / "runs").glob("C2-*"))
    assert len(trained) == 2 - rows
    before, after = table_of(made / "results"), table_of(tmp_path / "results")
    timed = ("seconds", "processor_seconds")
    assert [{k: v for k, v in row.items() if k not in timed} for row in after] == [
        {k: v for k, v in row.items() if k not in timed} for row in before
    ]
    record, known = verdict_of(tmp_path / "results"), verdict_of(made / "results")
    assert record["runs"]["missing"] == []  # type: ignore[index]
    assert record["provenance"]["runs"] == known["provenance"]["runs"]  # type: ignore[index]
    told = {"heads-smoke/heads.csv": rows} if rows else None
    assert record["provenance"].get("rows_of_tables") == told  # type: ignore[attr-defined]


def test_a_table_that_is_cut_is_refused(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = copy_of(made, tmp_path)
    table = recorded / "heads-smoke" / "heads.csv"
    table.write_text(table.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    where = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main([*HEADS, *where, "--recorded", str(recorded)]) == 2
    assert "is not a table of runs" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main([*HEADS, *where, "--recorded", str(tmp_path / "nowhere")]) == 2
    assert "recorded: no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("ood_accuracy", None, "ood_accuracy must be there, there is no such column"),
        ("succeeded", None, "succeeded must be there, there is no such column"),
        ("id_accuracy", "1.7", "id_accuracy must be a share from 0 to 1, got 1.7"),
        ("id_accuracy", "abc", "id_accuracy must be a share from 0 to 1, got 'abc'"),
        ("succeeded", "maybe", "succeeded must be True or False, got 'maybe'"),
        ("iterations_until", "-5", "iterations_until must be a number above 0, got -5"),
        ("possible_inputs", "0", "possible_inputs must be a number above 0, got 0"),
        ("stages_passed", "abc", "stages_passed must be a number, got 'abc'"),
        ("seconds", "abc", "seconds must be a number, got 'abc'"),
        ("samples", "abc", "samples must be a number, got 'abc'"),
        ("happened", None, "happened must be True or False, there is no such column"),
    ],
)
def test_a_table_that_cannot_be_is_refused(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, cell: str | None, said: str
) -> None:
    """In one line that names the column: a wrong verdict, or none, would be worse."""
    recorded = copy_of(made, tmp_path)
    table = recorded / "heads-smoke" / "heads.csv"
    with table.open(encoding="utf-8", newline="") as file:
        rows = [{**row, **({} if cell is None else {column: cell})} for row in csv.DictReader(file)]
    names = [name for name in rows[0] if cell is not None or name != column]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    where = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main([*HEADS, *where, "--recorded", str(recorded)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"internalize: recorded: {table}, run ")
    assert error.strip().endswith(said)
    assert error.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_the_folder_of_one_figure_is_not_that_of_all(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HEADS, "--no-train", "--recorded", str(made / "results" / "heads-smoke")]) == 2
    assert "holds one figure: name the folder of all" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ood-degradation", "mlp-hints"])
def test_a_figure_of_curves_is_drawn_again_from_its_tables(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its runs, the same picture; without its table of curves, nothing is written."""
    figure = ["figure", name, "--tier", "smoke", "--workers", "1", "--quiet"]
    first = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main([*figure, *first]) == 0
    again = ["--out", str(tmp_path / "empty"), "--results", str(tmp_path / "again")]
    assert main([*figure, *again, "--recorded", str(tmp_path / "results")]) == 0
    made, redrawn = (tmp_path / results / f"{name}-smoke" for results in ("results", "again"))
    for file in (f"{name}.png", f"{name}-curves.csv"):
        assert (redrawn / file).read_bytes() == (made / file).read_bytes()
    (made / f"{name}-curves.csv").unlink()
    elsewhere = ["--out", str(tmp_path / "empty"), "--results", str(tmp_path / "third")]
    assert main([*figure, *elsewhere, "--recorded", str(tmp_path / "results")]) == 2
    assert "recorded: this figure draws curves, and no table has that of " in capsys.readouterr().err
    assert not list((tmp_path / "third").rglob("*.*"))


def test_curves_are_those_of_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unfinished folder of the same name is not drawn in the place of a recorded run, and a damaged point is
    refused before anything is written."""
    figure = ["figure", "mlp-hints", "--tier", "smoke", "--workers", "1", "--quiet"]
    runs, made = tmp_path / "runs", tmp_path / "results" / "mlp-hints-smoke"
    where = ["--out", str(runs), "--results", str(tmp_path / "results")]
    assert main([*figure, *where]) == 0
    drawn = {path.name: path.read_bytes() for path in made.iterdir() if path.suffix in (".png", ".csv")}
    for folder in runs.glob("hints-*"):
        (folder / "status.json").unlink()
        (folder / "metrics.jsonl").write_text("")
    assert main([*figure, *where, "--no-train", "--recorded", str(tmp_path / "results")]) == 0
    assert {name: (made / name).read_bytes() for name in drawn} == drawn
    curves = made / "mlp-hints-curves.csv"
    curves.write_text(curves.read_text().replace("0.", "x.", 1))
    assert main([*figure, *where, "--no-train", "--recorded", str(tmp_path / "results")]) == 2
    assert f"{curves} is damaged" in capsys.readouterr().err
    assert main([*figure, *where, "--no-train", "--no-draw", "--recorded", str(tmp_path / "results")]) == 0


def test_runs_for_later_are_not_looked_at_before_all_of_them_are_there() -> None:
    now = Grid(SMOKE, seeds=(0, 1))
    later = Grid(SMOKE, {"horizon": [3, 4]}, seeds=(0, 1), later=True)
    cases = {(case.config.horizon, case.config.seed): case.prepared for case in later.cases("")}
    assert in_progress([now, later], set()) == set()
    assert in_progress([now, later], {cases[4, 1]}) == {cases[4, 0], cases[4, 1]}  # the others are for now too


def test_runs_for_later_that_came_first_are_kept_in_the_table(tmp_path: Path) -> None:
    """One of two is there: a row that is not looked at. With the other one, from the table, both are."""
    grids = [Grid(SMOKE, seeds=(0,)), Grid(SMOKE, {"horizon": [4]}, seeds=(0, 1), later=True)]
    figure = replace(find_figure("heads"), tiers={"smoke": grids})
    first, second = tmp_path / "first", tmp_path / "second"
    now, early, late = (case.config for case in figure.sweep("smoke", later=True).cases)
    for config, out in ((now, first), (early, first), (late, second)):
        train(config, Execution(out=out, quiet=True))
    made = read(figure, "smoke", first)
    assert [row["horizon"] for row in made.material.rows] == [3]
    write(made, tmp_path / "results" / "heads-smoke")
    told = [(row["horizon"], row["not_judged_yet"]) for row in table_of(tmp_path / "results")]
    assert sorted(told) == [("3", ""), ("4", "True")]
    train(now, Execution(out=tmp_path / "third", quiet=True))
    with pytest.raises(BadInput, match=r"results: .* was made of 2 runs, of which 1 are found now"):
        write(read(figure, "smoke", tmp_path / "third"), tmp_path / "results" / "heads-smoke")
    joined = read(figure, "smoke", second, recorded_runs(tmp_path / "results", figure))
    assert sorted((row["horizon"], row["seed"]) for row in joined.material.rows) == [(3, 0), (4, 0), (4, 1)]
    assert joined.early == []
    assert not any("not_judged_yet" in row for row in joined.material.rows)


def test_tables_that_were_computed_hold_no_runs() -> None:
    """That of construction-size has orders in its rows; the figure of hints derives its columns as it does."""
    results = Path(__file__).resolve().parents[2] / "results"
    assert len(recorded_runs(results, find_figure("mlp-hints"))) >= 36


def test_a_long_table_is_read(tmp_path: Path) -> None:
    """A thousand runs of a figure are more than a sweep file may have."""
    rows = [f"run-{i},{'x' * 500}" for i in range(1_000)]
    (tmp_path / "long.csv").write_text("\n".join(["run,notes", *rows]), encoding="utf-8")
    assert len(recorded_in(tmp_path / "long.csv")) == 1_000
