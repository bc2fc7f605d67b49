"""`internalize runs …` as its users call it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from internalize import Run
from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.contract import shortcomings
from internalize.display.plots import text_plot
from internalize.errors import BadInput
from internalize.runs.folder import Identity
from internalize.runs.location import find_folder, find_folders, split_stage
from internalize.runs.storage import own, write_json

Output = pytest.CaptureFixture[str]


def done_run(out: Path, method: str, seed: int, accuracy: float, task: str = "C7", **results: Any) -> Path:
    identity = Identity("chain", {"task": task, "method": method, "seed": seed, "model": {"depth": 2}}, {})
    folder = out / identity.folder_name(f"C7-{method}-s{seed}")
    folder.mkdir(parents=True)
    write_json(folder / "provenance.json", {"identity": identity.to_json()})
    write_json(folder / "config.json", identity.to_json())
    summary = {
        "id_accuracy": accuracy,
        "id_interval": [accuracy - 0.01, accuracy + 0.01],
        "succeeded": accuracy > 0.95,
        **results,
    }
    write_json(folder / "status.json", {"state": "done", "summary": summary, "seconds": 3})
    return folder


def test_listing_filters_and_counts(tmp_path: Path, capsys: Output) -> None:
    make_runs(tmp_path, 50)
    assert main(["runs", "--out", str(tmp_path), "--task", "S3", "--status", "done"]) == 0
    heading, *lines, count = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["run", "task", "T"]
    assert all(" S3 " in line and " done " in line for line in lines)
    assert count == f"{len(lines)} runs in {tmp_path}"
    assert main(["runs", "--out", str(tmp_path), "--min-accuracy", "0.9", "--json", "--rebuild"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < len(found) < 10
    assert min(entry["summary"]["id_accuracy"] for entry in found) >= 0.9
    assert main(["runs", "--out", str(tmp_path), "--min-accuracy", "90"]) == 2
    assert main(["runs", "--out", str(tmp_path), "--status", "finished"]) == 2
    assert "--status" in capsys.readouterr().err


def test_a_narrow_terminal_shows_hashes_that_commands_take(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_runs(tmp_path, 20)
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    renamed = (tmp_path / min(folders)).rename(tmp_path / "best")
    folders = {*folders - {min(folders)}, renamed.name}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    def listed(columns: int) -> tuple[list[str], list[str]]:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["runs", "--out", str(tmp_path)]) == 0
        heading, *lines = capsys.readouterr().out.splitlines()
        return [heading, *lines[:20]], lines[20:]

    lines, (count,) = listed(120)
    assert {line.split()[0] for line in lines[1:]} == folders
    lines, (remark, count) = listed(80)
    assert max(map(len, lines)) <= 80
    assert count == f"20 runs in {tmp_path}"
    assert "--json" in remark
    found = {find_folder(line.split()[0], "run", tmp_path).name for line in lines[1:]}
    assert found == folders
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert {line.split()[0] for line in listed(80)[0][1:]} == folders, "a pipe gets whole names"


def test_the_environment_says_where_runs_are(tmp_path: Path) -> None:
    """For commands that read and for those that write, by name, by hash and without either."""
    make_runs(tmp_path / "kept", 1)
    (folder,) = (path for path in (tmp_path / "kept").iterdir() if path.is_dir())
    code = """
        import sys
        from internalize import Execution, Run
        from internalize.cli import main
        from internalize.figures.commands import FigureArguments
        from internalize.figures.paper import FiguresArguments
        from internalize.sweeps.commands import CollectArguments

        print(Execution().out, FigureArguments("heads").out, FiguresArguments().out, CollectArguments("x").out)
        print(Run.open(sys.argv[1]).path, Run.open(sys.argv[1][-12:-6]).path)
        main(["runs"])
    """
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), folder.name],
        env={**os.environ, "HOME": str(tmp_path), "INTERNALIZE_RUNS": "~/kept"},
        cwd=tmp_path / "empty",
        capture_output=True,
        text=True,
        check=True,
    )
    defaults, opened, _, row, count = done.stdout.splitlines()
    assert defaults.split() == [str(tmp_path / "kept")] * 4
    assert opened.split() == [str(folder)] * 2
    assert row.startswith(folder.name)
    assert count == f"1 run in {tmp_path / 'kept'}"


def test_runs_are_named_as_people_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [done_run(Path("runs"), method, seed, 0.9) for method in ("left", "right") for seed in (0, 1)]
    for age, folder in enumerate(reversed(folders)):
        os.utime(folder / "status.json", (1e9 - age, 1e9 - age))
    assert find_folder("latest", "run") == folders[-1]
    assert find_folder("right-s0", "run") == find_folder("C7-right-s0*", "run") == folders[2]
    assert find_folder("C7*left*s1", "run") == folders[1]
    with pytest.raises(BadInput, match=r"right-\* could be any of 2 runs: "):
        find_folder("right-*", "run")
    assert find_folders(["*-left-*", "runs/*-right-s1-*", "latest"], "run") == [
        *sorted(folders[:2]),
        folders[3],
    ]
    with pytest.raises(BadInput, match=r"left could be any of 2 runs: \S+left-s0-\S+, \S+left-s1-\S+$"):
        find_folder("left", "run")
    with pytest.raises(BadInput, match=r"\(did you mean .*right-s1.*\?\); internalize runs lists them \(4\)"):
        find_folder(folders[3].name[:-14] + "7", "run")
    with pytest.raises(BadInput, match="no run matches C9-"):
        find_folders(["C9-*"], "run")


def test_runs_in_any_order_and_by_the_name_of_a_file(tmp_path: Path, capsys: Output) -> None:
    for seed, accuracy in enumerate((0.9, 0.99, 0.5)):
        done_run(tmp_path, "left", seed, accuracy, task="automata/div3.json")
    done_run(tmp_path, "left", 3, 0.7)
    words = ["runs", "--out", str(tmp_path), "--json", "--task"]
    assert main([*words, "div3", "--sort", "accuracy", "--limit", "2"]) == 0
    assert [entry["seed"] for entry in json.loads(capsys.readouterr().out)] == [1, 0]
    assert main(["runs", "--out", str(tmp_path), "--task", "div4"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"0 runs in {tmp_path}\n"
    assert "their tasks: C7, automata/div3.json" in captured.err


def test_success_with_words_is_marked(tmp_path: Path, capsys: Output) -> None:
    speaks: dict[str, Any] = {
        "succeeded": True,
        "internalized": False,
        "stage": 2,
        "stages": 4,
        "response_length": 4.0,
        "views_per_input": 0.0312,
    }
    done_run(tmp_path, "left", 0, 0.99, **speaks)
    done_run(tmp_path, "left", 1, 0.99, **{**speaks, "internalized": True, "response_length": 2.0})
    done_run(tmp_path, "cot", 0, 0.99, **{**speaks, "stage": 1, "stages": 1})
    assert main(["runs", "--out", str(tmp_path)]) == 0
    _, *rows, remark, _ = capsys.readouterr().out.splitlines()
    assert [row.split()[-5:-3] for row in rows] == [["4.0", "0.031"], ["4.0!", "0.031"], ["2.0", "0.031"]]
    assert remark.startswith("! right only while it still speaks")


def test_the_cost_is_that_until_the_answer_came_at_once(tmp_path: Path, capsys: Output) -> None:
    done_run(tmp_path, "left", 0, 0.99, internalized=True, operations=3e12, operations_to_internalize=2.14e12)
    done_run(tmp_path, "left", 1, 0.60, internalized=False, operations=3e12, operations_to_internalize=None)
    done_run(tmp_path, "left", 2, 0.99, internalized=True)  # of before costs were counted
    assert main(["runs", "--out", str(tmp_path)]) == 0
    heading, *rows, _ = capsys.readouterr().out.splitlines()
    end = heading.index("cost") + len("cost")
    assert [row[:end].split()[-1] for row in rows] == ["2.1e12", ">3.0e12", "–"]


def test_a_stage_that_does_not_ask_for_the_last_state_is_listed_with_its_own_target(
    tmp_path: Path, capsys: Output
) -> None:
    done_run(tmp_path, "inductive", 0, 0.5, id_target_accuracy=0.99, stage=3, stages=7)
    assert main(["runs", "--out", str(tmp_path)]) == 0
    assert "99.0 % (q_T 50.0 %)" in capsys.readouterr().out


def test_what_has_to_stand_below_the_results() -> None:
    summary = {"succeeded": False, "stage": 2, "stages": 5, "samples": 19_200, "possible_inputs": 32.0}
    early, toy = shortcomings(summary, "runs/x", {})
    assert "ended at stage 2 of 5; internalize diagnose runs/x" in early
    assert toy.startswith("a toy (32 possible inputs, 19,200 samples seen)")
    good = {**summary, "succeeded": True, "internalized": True, "possible_inputs": 3.0**16}
    assert shortcomings(good, "runs/x", {}) == []
    # ended early, and yet a toy: its budget, which was fixed before, allows more than a tenth of the inputs
    (by_budget,) = shortcomings(good, "runs/x", {"iterations": 40_000, "batch": 128})
    assert by_budget.startswith("a toy (43,046,721 possible inputs, 19,200 samples seen, 5,120,000 allowed)")


def test_toys_are_marked_in_the_list(tmp_path: Path, capsys: Output) -> None:
    for seed, possible in enumerate((64.0, 3.0**25)):
        coverage: dict[str, Any] = {"possible_inputs": possible, "views_per_input": 1_000 / possible}
        done_run(tmp_path, "left", seed, 0.99, samples=1_000, **coverage)
    assert main(["runs", "--out", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert "16*" in listed
    assert "1.2e-09 " in listed
    assert listed.count("* a toy:") == 1


def test_the_papers_own_c2_with_inputs_held_out_is_no_toy() -> None:
    """6.4 million samples of 2^25 inputs are 0.19 views: more than a tenth, and the one exception."""
    summary = {"samples": 6_400_000, "possible_inputs": 2.0**25}
    cell = {"task": "C2", "horizon": 25, "held_out": 0.05}
    assert shortcomings(summary, "runs/x", cell) == []
    for other in ({"held_out": None}, {"held_out": 0.01}, {"task": "C3"}, {"horizon": 24}):
        assert len(shortcomings(summary, "runs/x", {**cell, **other})) == 1
    assert len(shortcomings({**summary, "samples": 7_000_000}, "runs/x", cell)) == 1


def test_an_unfinished_run_shows_what_was_measured_last_and_in_which_stage(
    tmp_path: Path, capsys: Output
) -> None:
    done_run(tmp_path, "left", 0, 0.5)
    folder = done_run(tmp_path, "left", 1, 0.5)
    write_json(folder / "status.json", {"state": "interrupted"})
    first = {"event": "evaluation", "stage": 8, "id_accuracy": 0.9, "ood_accuracy": 0.8}
    last = {"event": "evaluation", "stage": 9, "id_accuracy": 0.994, "ood_accuracy": 0.25}
    rows = [first, {**last, "id_response_length": 3.0}, {"event": "train", "stage": 10, "loss": 0.5}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"event": "eval')
    assert main(["runs", "--out", str(tmp_path)]) == 0
    _heading, finished, unfinished, remark, _count = capsys.readouterr().out.splitlines()
    assert "50.0 %" in finished
    assert "99.4 % (9)  25.0 % (9)  3.0 (9)" in unfinished
    assert "not finished" in remark
    assert main(["runs", "--out", str(tmp_path), "--json"]) == 0
    done, stopped = json.loads(capsys.readouterr().out)
    assert (done["so_far"], stopped["so_far"], stopped["accuracy"]) == (None, rows[1], None)
    assert main(["runs", "show", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"interrupted; go on with: internalize resume {folder}" in shown
    assert "measured last: the run is not finished stage 9 ID accuracy 99.4 %" in shown


def test_listing_needs_no_torch(tmp_path: Path) -> None:
    """Torch takes seconds to import; a listing has to be there within one."""
    make_runs(tmp_path, 3)
    code = "import sys; from internalize.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, "runs", "--out", str(tmp_path)], check=True, env=os.environ)


def test_a_run_is_shown_with_its_curves(internalized: Run, capsys: Output) -> None:
    assert main(["runs", "show", str(internalized.path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{internalized.path.name}\ndone, ")
    squeezed = " ".join(text.split())
    for part in ("T, symbols read 4 --horizon", "learning rate 0.003 --optimizer.lr", "internalized yes"):
        assert part in squeezed
    for part in ("● loss", "ID accuracy", "▲ OOD accuracy"):
        assert part in text
    assert "id_" not in text
    assert "True" not in text
    assert main(["runs", "show", str(internalized.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["metrics"] == list(internalized.metrics())
    assert shown["identity"]["config"]["horizon"] == 4


def test_a_plot_puts_points_where_they_are() -> None:
    plot = text_plot({"up": [(0, 0.0), (50, 0.5), (100, 1.0)], "flat": [(100, 0.0)]}, width=21, height=5)
    assert plot.splitlines() == [
        "1 │                    ●",
        "  │",
        "  │          ●",
        "  │",
        "0 │●                   ○",
        "  └" + "─" * 21,
        "   0                 100",
        "● up   ○ flat",
    ]
    assert text_plot({"none": []}) == ""
    met = text_plot({"ID": [(0, 1.0), (1, 1.0)], "OOD": [(0, 1.0), (1, 0.0)]}, width=3, height=2).splitlines()
    assert (met[0], met[1], met[-1]) == ("1 │◆ ●", "0 │  ○", "● ID   ○ OOD   ◆ several in one place")
    falling = {"loss": [(0.0, 1.0), (1.0, 0.1), (2.0, 0.01), (3.0, 0.0)]}
    rows = [line.index("●") for line in text_plot(falling, 4, 5, logarithmic=True).splitlines()[:5:2]]
    assert rows == [6, 7, 8], "a tenth is one step down, whatever it is a tenth of"
    assert "●" in text_plot({"one": [(3, 0.25)]})


def test_groups_are_compared_by_seed(tmp_path: Path, capsys: Output) -> None:
    """Four seeds in common; the fifth of one group has no partner and must not count."""
    for seed, (left, right) in enumerate([(0.99, 0.5), (0.97, 0.6), (0.96, 0.4), (0.98, 0.7)]):
        done_run(tmp_path / "left", "left", seed, left)
        done_run(tmp_path / "right", "right", seed, right)
    done_run(tmp_path / "left", "left", 9, 0.1)
    write_json(done_run(tmp_path / "left", "left", 10, 0.1) / "status.json", {"state": "failed"})
    assert main(["runs", "compare", str(tmp_path / "left"), f"{tmp_path}/right/C7-right-*", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    left, right = result["groups"]
    assert (left["runs"], left["unfinished"], left["succeeded"]) == (5, 1, 4)
    assert right["success_interval"] == pytest.approx([0.0, 0.4899], abs=1e-4)  # Wilson, 0 of 4
    (pair,) = result["differences"]
    assert pair["pairs"] == 4
    assert pair["fields"] == "method"
    # differences -.49 -.37 -.56 -.28: mean -.425, sd .1245, t(3) = 3.182
    assert pair["difference"] == pytest.approx(-0.425)
    assert pair["interval"] == pytest.approx([-0.6231, -0.2269], abs=1e-4)
    assert pair["mcnemar_p"] == pytest.approx(2 * 0.5**4)
    assert main(["runs", "compare", str(tmp_path / "left"), str(tmp_path / "right")]) == 0
    assert "difference -42.5 points [-62" in capsys.readouterr().out


def test_kinds_that_know_no_success_are_compared_without_it(capsys: Output) -> None:
    parity = next((Path(__file__).parents[1] / "golden" / "runs").glob("parity-*"))
    words = ["runs", "compare", str(parity), str(parity), "--metric", "phases"]
    assert main(words) == 0
    assert "succe" not in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["succeeded"] is None


def test_single_runs_are_compared_whatever_their_seeds(tmp_path: Path, capsys: Output) -> None:
    one, two = done_run(tmp_path, "left", 0, 0.9), done_run(tmp_path, "left", 1, 0.8)
    assert main(["runs", "compare", str(one), str(two)]) == 0
    text = capsys.readouterr().out
    assert "mean 90.0 % [89.0, 91.0] over 1 run;" in text
    assert "differ in: seed (0, 1)" in text
    assert "difference -10.0 points, over 1 pair: no interval" in text
    done_run(tmp_path, "cot", 1, 0.7)
    for words, complaint in (
        ([str(one)], "needs at least two"),
        ([str(one), str(tmp_path)], "two runs of seed 1 that differ in method"),
        ([str(one), str(tmp_path / "x*")], "no run matches"),
        ([str(one), str(two), "--metric", "nonsense"], "has no nonsense; known: id_accuracy, succeeded"),
    ):
        assert main(["runs", "compare", *words]) == 2
        assert complaint in capsys.readouterr().err


def test_export_holds_every_run_and_field(tmp_path: Path, capsys: Output) -> None:
    make_runs(tmp_path / "runs", 7)
    done_run(tmp_path / "runs", "left", 3, 0.5)
    file = tmp_path / "all.csv"
    assert main(["runs", "export", "--out", str(tmp_path / "runs"), "--csv", str(file)]) == 0
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert len(rows) == 8
    extra = next(row for row in rows if row["path"].startswith("C7-left-s3"))
    assert (extra["config.model.depth"], extra["summary.id_accuracy"]) == ("2", "0.5")
    assert main(["runs", "export", "--out", str(tmp_path / "runs")]) == 2
    assert main(["runs", "export", "--out", str(tmp_path / "runs"), "--csv", "/nowhere/at/all.csv"]) == 2
    assert "cannot write /nowhere/at/all.csv" in capsys.readouterr().err


def test_export_to_parquet(tmp_path: Path, capsys: Output) -> None:
    make_runs(tmp_path / "runs", 7)
    words = ["runs", "export", "--out", str(tmp_path / "runs"), "--parquet", str(tmp_path / "all.parquet")]
    try:
        from pyarrow import parquet
    except ImportError:
        assert main(words) == 2
        assert "pip install 'internalize[parquet]'" in capsys.readouterr().err
        return
    assert main(words) == 0
    table = parquet.read_table(tmp_path / "all.parquet").to_pydict()
    assert sorted(table["config.seed"]) == list(range(7))
    assert set(table["config.task"]) == {"C2", "C3", "C5", "C7", "S3"}


def test_prune_says_first_and_spares_the_living(tmp_path: Path, capsys: Output) -> None:
    make_runs(tmp_path, 21)
    failed = {p for p in tmp_path.iterdir() if json.loads((p / "status.json").read_text())["state"] == "failed"}
    spared = min(failed)
    assert len(failed) > 1
    assert main(["runs", "prune", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert all(str(folder) in said for folder in failed)
    assert "add --yes" in said
    assert all(folder.exists() for folder in failed)
    with own(spared):
        assert main(["runs", "prune", "--out", str(tmp_path), "--yes"]) == 0
    assert f"deleted {len(failed) - 1} of {len(failed)}" in capsys.readouterr().out
    assert {folder for folder in failed if folder.exists()} == {spared}
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 21 - len(failed) + 1


def test_prune_can_take_checkpoints_of_finished_runs_only(tmp_path: Path, capsys: Output) -> None:
    make_runs(tmp_path, 7)
    for folder in tmp_path.iterdir():
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / "000000000001.safetensors").write_bytes(b"x" * 100)
    assert main(["runs", "prune", "--out", str(tmp_path), "--what", "checkpoints", "--yes"]) == 0
    for folder in tmp_path.iterdir():
        if folder.is_dir():
            assert (folder / "checkpoints").exists() != Run.open(folder).is_done
    words = [
        "runs",
        "prune",
        "--out",
        str(tmp_path),
        "--what",
        "checkpoints",
        "--status",
        "interrupted",
        "--yes",
    ]
    assert main(words) == 2
    assert "status: must be done or failed for --what checkpoints" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("runs/a", ("runs/a", None)),
        ("runs/a@12", ("runs/a", 12)),
        ("me@home/a", ("me@home/a", None)),
        ("me@home/a@3", ("me@home/a", 3)),
    ],
)
def test_a_run_is_named_with_a_stage(text: str, parts: tuple[str, int | None]) -> None:
    assert split_stage(text, "run") == parts


@pytest.mark.parametrize("text", ["a@x", "a@", "@3", "a@-1", "a@1.5"])
def test_what_is_no_stage_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="run: must end in a stage's number after @"):
        split_stage(text, "run")
