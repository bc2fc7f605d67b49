"""The tidy table of a sweep, its groups, and what is missing."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from internalize import ChainConfig, train
from internalize.cli import main
from internalize.configs.codec import to_json
from internalize.contract import Row
from internalize.errors import BadInput
from internalize.runs.table import flat
from internalize.statistics import Waiting
from internalize.sweeps import Sweep, collect, sweep_of
from internalize.sweeps.collection import Collected, groups, settings
from internalize.sweeps.drawing import waiting_of
from internalize.sweeps.report import MOST_NAMED, collected_text
from internalize.sweeps.sweep import Case
from tests.sweeps.tiny import BASE, tiny_sweep, write_sweep


def test_one_row_a_finished_run_and_every_other_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet

    file, sweep, out = write_sweep(tmp_path / "s.json"), tiny_sweep(), tmp_path / "runs"
    finished = [sweep.cases[index] for index in (0, 1, 3)]
    runs = [train(case.config, out=out) for case in finished]
    config = sweep.cases[0].config
    assert isinstance(config, ChainConfig)
    train(replace(config, seed=9), out=out)  # no part of the sweep
    collected = collect(sweep, out)
    assert [row["run"] for row in collected.rows] == [run.path.name for run in runs]
    assert [(case.fields, reason) for case, reason in collected.missing] == [
        ({"method": "inductive", "seed": 0}, "not begun")
    ]
    row = collected.rows[0]
    assert (row["model.width"], row["method"], row["seed"], row["kind"]) == (8, "left", 0, "chain")
    assert row["optimizer.betas"] == [0.9, 0.95]
    assert row["id_accuracy"] == runs[0].summary()["id_accuracy"]
    assert row["iterations"] == row["result.iterations"] == 60  # asked for, and done

    files = [str(tmp_path / "t.csv"), str(tmp_path / "t.parquet")]
    words = ["collect", str(file), "--out", str(out), "--csv", files[0], "--parquet", files[1]]
    assert main([*words, "--by", "method"]) == 0
    said = capsys.readouterr().out
    assert "3 of 4 runs finished" in said
    assert "missing 1, not begun: method=inductive seed=0" in said
    assert "1 of 2" in said
    with Path(files[0]).open() as text:
        rows = list(csv.DictReader(text))
    assert [line["run"] for line in rows] == [run.path.name for run in runs]
    assert json.loads(rows[0]["optimizer.betas"]) == [0.9, 0.95]
    assert pyarrow.parquet.read_table(files[1]).column("seed").to_pylist() == [0, 1, 1]

    for picture in ("rates", "curves", "survival"):
        drawn = tmp_path / f"{picture}.svg"
        words = ["collect", str(file), "--out", str(out), "--plot", str(drawn), "--show", picture, "--markdown"]
        assert main(words) == 0
        heading, *_ = capsys.readouterr().out.splitlines()
        assert heading == "| method | runs | succeeded | OOD succeeded | internalized | tokens |"
        assert "<svg" in drawn.read_text()
    words = ["collect", str(file), "--out", str(out), "--csv", str(tmp_path / "none.csv"), "--plot"]
    for bad, why in (("x.gif", "must end in .png, .svg or .pdf"), (f"{file}/x.png", "")):
        assert main([*words, bad]) == 2
        assert f"plot: {why}" in capsys.readouterr().err
        assert not (tmp_path / "none.csv").exists()


def test_a_run_that_was_given_up_waits_for_its_whole_budget() -> None:
    """As in the figures. Censored when it was given up, it would leave the others to speak for its group."""
    lost: Row = {"run": "a", "iterations": 5000, "result.iterations": 400, "iterations_to_internalize": None}
    came: Row = {"run": "b", "iterations": 5000, "result.iterations": 900, "iterations_to_internalize": 850}
    assert [waiting_of(row) for row in (lost, came)] == [Waiting(5000.0, False), Waiting(850.0, True)]
    with pytest.raises(BadInput, match="show: c does not say when it internalized"):
        waiting_of({"run": "c", "iterations": 5000})


def test_a_table_stands_for_runs_whose_folders_are_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a sweep here, the other half on another machine: one table to the byte, nothing trained twice."""
    file, whole, here, table = write_sweep(tmp_path / "s.json"), tmp_path / "whole", tmp_path / "here", "t.csv"
    first, both = str(tmp_path / table), str(tmp_path / "both.csv")
    for case in tiny_sweep().cases:
        train(case.config, out=whole)
    half = write_sweep(tmp_path / "half.json", seeds=1)
    assert main(["collect", str(half), "--out", str(whole), "--csv", first]) == 0
    words = [str(file), "--out", str(here), "--recorded", first]
    assert main(["sweep", *words, "--no-estimate", "--workers", "1", "--quiet"]) == 0
    assert sorted(path.name for path in here.glob("C2-*")) == sorted(
        path.name for path in whole.glob("C2-*") if "-s1-" in path.name
    )
    assert main(["collect", *words, "--csv", both]) == 0
    assert "4 of 4 runs finished" in capsys.readouterr().out
    expected = {row["run"]: row for row in collect(tiny_sweep(), whole).table()}
    with Path(both).open() as text:
        rows = {row["run"]: row for row in csv.DictReader(text)}
    assert list(rows) == list(expected)
    for name, row in rows.items():
        same = {column: "" if value is None else str(value) for column, value in expected[name].items()}
        assert {c: v for c, v in row.items() if "seconds" not in c} == {
            c: v for c, v in same.items() if "seconds" not in c
        }
    again = ["--recorded", both, "--no-estimate"]
    assert main(["sweep", str(file), "--out", str(tmp_path / "none"), *again]) == 0
    assert "all runs are in" in capsys.readouterr().err
    for options, named in (([], "runs"), (["--dry-run"], "to do")):
        assert main(["sweep", str(file), "--out", str(tmp_path / "none"), *again, "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out)[named] == 0
    assert not (tmp_path / "none").exists()
    drawn = ["--plot", str(tmp_path / "curves.png"), "--show", "curves"]
    assert main(["collect", str(file), "--out", str(here), "--recorded", both, *drawn]) == 2
    assert "has no curve" in capsys.readouterr().err
    assert main(["collect", str(file), "--recorded", str(file)]) == 2
    assert "recorded: " in capsys.readouterr().err


def test_rates_by_any_field_against_intervals_from_a_table() -> None:
    """Wilson, 95 %: 9 of 10 is [0.596, 0.982] and 0 of 8 is [0, 0.324]."""
    sweep = tiny_sweep(seeds=10)
    rows = []
    for case in sweep.cases:
        method, seed = case.fields["method"], case.config.seed
        if method == "left" or seed < 8:
            good = method == "left" and seed != 3
            rows.append({"run": "", "method": method, "seed": seed, "optimizer.reset": True, "succeeded": good})
    left, inductive = groups(Collected(sweep, rows), ["method"])
    assert (left.fields, left.finished, left.planned) == ({"method": "left"}, 10, 10)
    assert (inductive.fields, inductive.finished, inductive.planned) == ({"method": "inductive"}, 8, 10)
    assert list(left.rates) == ["succeeded"]  # a field of the config that is yes or no is no result
    found = [rate.interval for group in (left, inductive) for rate in group.rates.values()]
    assert [(round(i.low, 3), round(i.high, 3)) for i in found] == [(0.596, 0.982), (0.0, 0.324)]
    (everything,) = groups(Collected(sweep, rows), [])
    assert everything.rates["succeeded"].successes == 9
    assert len(groups(Collected(sweep, rows), ["seed"])) == 10
    with pytest.raises(BadInput, match="did you mean 'method'"):
        groups(Collected(sweep, rows), ["metod"])
    with pytest.raises(BadInput, match="did you mean 'succeeded'"):
        groups(Collected(sweep, rows), ["method"], ["suceeded"])


def test_a_setting_that_only_some_cases_have_is_no_result() -> None:
    base = {**BASE, "schedule": {"kind": "controller"}}
    sweep = sweep_of("some", "chain", base, cases=[{}, {"schedule.settle_for_less": True}])
    rows = [{**flat(to_json(case.config)), "succeeded": True} for case in sweep.cases]
    assert Collected(sweep, rows).outcomes() == ["succeeded"]


def test_settings_that_differ_are_never_one_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether all cases set a field, one of them, or none: a preset is not in the config that it fills in."""
    cases: list[dict[str, object]] = [{}, {"optimizer.lr": 0.01}, {"method": "cot"}]
    uneven = sweep_of("uneven", "chain", BASE, cases=cases, seeds=2)
    assert settings(uneven) == ("optimizer.lr", "method")
    left_out = sweep_of("left out", "chain", BASE, cases=[{}, {"emphasis": 2.0}], seeds=2)
    assert settings(left_out) == ("emphasis",)
    found = groups(Collected(left_out, []), settings(left_out))
    assert [(one.fields, one.planned) for one in found] == [({"emphasis": None}, 2), ({"emphasis": 2.0}, 2)]
    presets = sweep_of("presets", "hints", {}, grid={"preset": ["laptop", "paper"]}, seeds=2)
    assert settings(presets) == ("d", "k", "width", "lr", "steps")
    assert settings(tiny_sweep()) == ("method",)

    file = tmp_path / "s.json"
    file.write_text(json.dumps({"base": BASE, "cases": cases, "seeds": 2}))
    assert main(["collect", str(file), "--out", str(tmp_path / "runs"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["groups"]
    assert [(group["fields"], group["planned"]) for group in told] == [
        ({"optimizer.lr": 0.0003, "method": "left"}, 2),
        ({"optimizer.lr": 0.01, "method": "left"}, 2),
        ({"optimizer.lr": 0.0003, "method": "cot"}, 2),
    ]


def test_all_that_is_missing_is_named_up_to_a_number_that_is_said() -> None:
    """Runs that differ in nothing but the seed are named together."""

    def said(sweep: Sweep, missing: Sequence[Case]) -> str:
        return collected_text(Collected(sweep, [], [(case, "not begun") for case in missing])).splitlines()[1]

    few = tiny_sweep(seeds=10)
    assert said(few, few.cases) == "missing 20, not begun: method=left seed=0–9; method=inductive seed=0–9"
    some = [case for case in few.cases if case.config.seed in (0, 2, 3, 4, 9) and case.config.method == "left"]
    assert said(few, some) == "missing 5, not begun: method=left seed=0, 2–4, 9"
    rates = [step / 1000 for step in range(1, MOST_NAMED + 5)]
    many = sweep_of("rates", "chain", BASE, grid={"optimizer.lr": rates}, seeds=2)
    named = "; ".join(f"optimizer.lr={rate} seed=0–1" for rate in rates[:MOST_NAMED])
    assert said(many, many.cases) == f"missing 108, not begun: {named}; and 4 more (--json names all)"


def test_a_sweep_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="sweep: nothing has no runs"):
        collect(Sweep("nothing", ()), tmp_path)


def test_where_runs_were_looked_for_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also which folder has them, where that is below the one that was looked into."""
    monkeypatch.chdir(tmp_path)
    write_sweep(Path("s.json"))
    words = ["collect", "s.json"]
    assert main(words) == 0
    elsewhere = (
        "none of them is in runs, which is not there; if the sweep wrote elsewhere, name that folder: --out"
    )
    assert f"{elsewhere} FOLDER" in capsys.readouterr().out
    train(tiny_sweep().cases[0].config, out=Path("runs") / "mine")
    assert main(words) == 0
    assert "none of them is in runs; if the sweep wrote elsewhere, name that folder: --out runs/mine" in (
        capsys.readouterr().out
    )
    for more in (["--csv", "t.csv"], ["--latex"], ["--plot", "p.png"]):
        assert main([*words, *more]) == 2
        said = capsys.readouterr().err
        assert "sweep: no run is finished: there is nothing to write; none of them is in runs" in said
        assert said.count("\n") == 1
    assert main([*words, "--out", "runs/mine"]) == 0
    assert "none of them" not in capsys.readouterr().out


def test_what_a_preset_gives_for_each_method_is_neither_a_setting_nor_a_result(tmp_path: Path) -> None:
    base = {"preset": "laptop", "task": "C2", "horizon": 3, "iterations": 60}
    sweep = sweep_of("preset", "chain", base, grid={"method": ["cot", "left"]}, seeds=1)
    assert settings(sweep) == ("method",)
    for case in sweep.cases:
        train(case.config, out=tmp_path)
    assert collect(sweep, tmp_path).outcomes() == ["succeeded", "ood_succeeded", "internalized"]
    both = sweep_of("both", "hints", {"method": "curriculum"}, grid={"preset": ["laptop", "paper"]})
    assert "width" in settings(both)  # nothing else in the configs tells the two apart
