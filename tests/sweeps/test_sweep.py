"""Which runs a sweep has, against a list worked out by hand, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize import ChainConfig, ModelConfig
from internalize.cli import main
from internalize.configs.command_line import parse
from internalize.errors import BadInput
from internalize.kinds import find_kind, prepare
from internalize.kinds.chain.commands import TrainArguments
from internalize.sweeps import BadSweep, read_sweep, sweep_of
from internalize.sweeps.sweep import find_sweep
from tests.sweeps.tiny import EXAMPLES

BASE = {"horizon": 4, "iterations": 10, "model": {"depth": 1, "width": 8, "heads": 4}}
LAPTOP = """
preset: laptop
base: {task: C2, horizon: 6}
cases:
  - {method: left}
  - {method: cot}
  - {method: mixture}
  - {method: "filler:left"}
  - {model.positions: rotary}
  - {model: {positions: none}, optimizer.lr: 2e-3}
  - {model.network: RECURRENT}
seeds: [3]
"""
YAML = """
name: by-hand
kind: chain
base: {horizon: 4, iterations: 10, model.depth: 1, model: {width: 8, heads: 4}, optimizer: {lr: 1e-3}}
cases:
  - {task: C2}
  - {task: C3, model: {heads: 2}}
zip:
  model.width: [8, 16]
  model.mlp: [32, 64]
grid:
  method: [cot, left]
seeds: [5, 7]
"""


def test_every_case_with_every_entry_point_and_seed_in_order(tmp_path: Path) -> None:
    """cases, then zip, then grid, then seeds, the last turning fastest."""
    file = tmp_path / "a.yaml"
    file.write_text(YAML)
    sweep = read_sweep(file)
    by_hand = [
        (task, width, mlp, heads, method, seed)
        for task, heads in (("C2", 4), ("C3", 2))
        for width, mlp in ((8, 32), (16, 64))
        for method in ("cot", "left")
        for seed in (5, 7)
    ]
    found = []
    for case in sweep.cases:
        config = case.config
        assert isinstance(config, ChainConfig)
        model = config.model
        found.append((config.task, model.width, model.mlp, model.heads, config.method, config.seed))
        assert (config.optimizer.lr, config.horizon, model.depth) == (1e-3, 4, 1)
    assert sweep.name == "by-hand"
    assert found == by_hand
    assert dict(sweep.cases[9].fields) == {
        **{"task": "C3", "model.heads": 2, "model.width": 8, "model.mlp": 32, "method": "cot", "seed": 7}
    }


def test_a_json_file_and_a_call_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "same.json"
    grid: dict[str, list[Any]] = {"task": ["C2", "C3"], "model.depth": [1, 2]}
    file.write_text(json.dumps({"base": {**BASE, "seed": 3}, "grid": grid, "seeds": 2}))
    called = sweep_of("same", "chain", {**BASE, "seed": 3}, grid=grid, seeds=2)
    assert read_sweep(file) == called
    assert [case.config.seed for case in called.cases[:2]] == [3, 4]
    model = ModelConfig(depth=2, width=8, heads=4)
    assert called.cases[-1].config == ChainConfig("C3", 4, "left", 10, 4, model)


def test_cases_that_set_different_fields_are_named_by_all_of_them() -> None:
    cases: list[dict[str, Any]] = [{}, {"optimizer.lr": 0.01}, {"method": "cot"}]
    sweep = sweep_of("uneven", "chain", BASE, cases=cases, seeds=[2])
    assert [str(case) for case in sweep.cases] == [
        "optimizer.lr=0.0003 method=left seed=2",
        "optimizer.lr=0.01 method=left seed=2",
        "optimizer.lr=0.0003 method=cot seed=2",
    ]


def test_groups_of_fields_that_do_not_meet_can_be_combined() -> None:
    model = [{"width": 8}, {"width": 16}]
    sweep = sweep_of("groups", "chain", BASE, grid={"model": model, "model.depth": [1, 2]})
    assert [str(case) for case in sweep.cases] == [
        f"model.width={width} model.depth={depth} seed=0" for width in (8, 16) for depth in (1, 2)
    ]


def test_any_kind_can_be_swept() -> None:
    sweep = sweep_of("p", "parity", {"d": 6}, grid={"k": [2, 3]}, seeds=2)
    assert [case.config.label() for case in sweep.cases] == [
        f"parity-d6-k{k}-theorem-s{seed}" for k in (2, 3) for seed in (0, 1)
    ]


def test_all_that_cannot_run_is_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bad.json"
    grid = {"task": ["C2", "Z9"], "optimizer.lr": [1e-3, -1]}
    file.write_text(json.dumps({"base": BASE, "grid": grid, "seeds": 3}))
    assert main(["sweep", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("internalize: optimizer.lr: must be more than 0")
    assert lines[0].endswith("(in task=C2 optimizer.lr=-1 seed=0, 6 cases in all)")
    assert lines[1].startswith("internalize: task: unknown task 'Z9'")
    assert lines[1].endswith("(in task=Z9 optimizer.lr=0.001 seed=0, 3 cases in all)")
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(BadSweep, match="and 1 more"):
        read_sweep(file)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"grdi": {}}, "grdi: unknown in .*did you mean 'grid'"),
        ({"kind": "chian"}, "kind: unknown kind"),
        ({"base": [1]}, "base: must be a mapping"),
        ({"grid": {"task": "C2"}}, "grid.task: must be a list of values"),
        ({"grid": {"task": []}}, "grid.task: must be a list of values"),
        ({"grid": {"seed": [1, 2]}}, "grid.seed: seeds have an entry of their own"),
        ({"zip": {"task": ["C2", "C3"], "method": ["cot"]}}, "task has 2, method has 1"),
        ({"grid": {"task": ["C2"]}, "zip": {"task": ["C3"]}}, "grid.task: zip sets this field already"),
        ({"cases": {"task": "C2"}}, "cases: must be a list of mappings"),
        ({"cases": [{"task": "C2"}, {}]}, "seed=0 and task=C2 seed=0 are the same run"),
        ({"cases": []}, "cases: must name at least one case, got an empty list"),
        (
            {"cases": [{"model": {"depth": 1}}], "grid": {"model.depth": [2, 3]}},
            "grid.model.depth: cases sets this field already$",
        ),
        (
            {"zip": {"model": [{"depth": 1}]}, "grid": {"model.depth": [2, 3]}},
            "grid.model.depth: zip sets this field already$",
        ),
        (
            {"cases": [{"model": None}], "grid": {"model.depth": [2, 3]}},
            "grid.model.depth: cases sets this field already as model$",
        ),
        (
            {"grid": {"model.depth": [1], "model": [{"depth": 2}]}},
            "grid.model.depth: grid sets this field already",
        ),
        (
            {"cases": [{"model": {"depth": 1}, "model.depth": 2}]},
            "cases.model.depth: is set twice: model.depth is there, too",
        ),
        ({"base": {**BASE, "model.depth": 2}}, "base.model.depth: is set twice: model.depth is there, too"),
        ({"seeds": 0}, "seeds: must lie in 1…100,000"),
        ({"seeds": 10**12}, "seeds: must lie in 1…100,000"),
        (
            {"grid": {f"x{i}": [1, 2] for i in range(60)}},
            "sweep: must have at most 100,000 runs, got 1,152,921",
        ),
        ({"base": {f"x{i}": 1 for i in range(50_000)}}, "base: must set at most 1000 fields"),
        ({"seeds": [1, 1]}, "seeds: must all be different"),
        ({"grid": {"task.name": ["C2"]}, "base": {**BASE, "task": "C2"}}, "task is no group of fields"),
        ({"grid": {"model.dpeth": [1]}}, "model.dpeth: unknown field .did you mean 'depth'"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps({"base": BASE, **said}))
    with pytest.raises(BadInput, match=complaint):
        read_sweep(file)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_can_be_read(path: Path) -> None:
    assert read_sweep(path).cases


@pytest.mark.usefixtures("named_by_the_user")
def test_the_example_in_python_keeps_the_size_of_its_heads() -> None:
    sweep = find_sweep(f"{EXAMPLES / 'widths.py'}:WIDTHS")
    assert [str(case) for case in sweep.cases[::5]] == [
        f"model.width={width} model.heads={width // 2} seed=0" for width in (16, 32, 64)
    ]


PYTHON = """
from internalize.sweeps import Sweep, sweep_of

BASE = {base!r}
WIDTHS = sweep_of("widths", "chain", BASE, grid={{"model.width": [8, 16]}}, seeds=2)
NOTHING = Sweep("nothing", ())
"""


@pytest.mark.usefixtures("named_by_the_user")
def test_a_sweep_made_in_python_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sw.py").write_text(PYTHON.format(base=BASE))
    by_hand = sweep_of("widths", "chain", BASE, grid={"model.width": [8, 16]}, seeds=2)
    assert find_sweep("sw.py:WIDTHS") == find_sweep("sw:WIDTHS") == by_hand
    for name, complaint in {
        "sw.py": r"^sweep: sw.py is Python: name the sweep in it, as sw.py:NAME",
        "sw.py:BASE": r"^sweep: sw.py:BASE is no sweep, made by sweep_of, but a dict",
        "sw.py:WIDHTS": r"^sweep: module 'sw.py' has no attribute 'WIDHTS'",
        "sw.py:NOTHING": r"^sweep: nothing has no runs",
    }.items():
        with pytest.raises(BadInput, match=complaint):
            find_sweep(name)


def test_all_that_is_wrong_with_a_sweep_in_python_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(PYTHON.format(base=BASE).replace("[8, 16]", "[-1, 7]"))
    for command in ("sweep", "collect", "plan"):
        assert main([command, f"{file}:WIDTHS"]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert [line.partition(" (in ")[0] for line in lines] == [
            "internalize: model.width: must be at least 1, got -1",
            "internalize: model.heads: must divide model.width = 7, got 4",
        ]


@pytest.mark.usefixtures("named_by_the_user")
def test_a_preset_gives_the_runs_that_train_gives_with_it(tmp_path: Path) -> None:
    """The very same identities, whatever the method and the model."""
    network = f"{EXAMPLES.parent / 'networks' / 'recurrent.py'}:Recurrent"
    file = tmp_path / "laptop.yaml"
    file.write_text(LAPTOP.replace("RECURRENT", network))
    options = [
        "--method left",
        "--method cot",
        "--method mixture",
        "--method filler:left",
        "--model.positions rotary",
        "--model.positions none --optimizer.lr 2e-3",
        f"--model.network {network}",
    ]
    found = [case.prepared.identity.digest() for case in read_sweep(file).cases]
    expected = []
    for option in options:
        words = f"--preset laptop --task C2 --horizon 6 --seed 3 {option}".split()
        config = parse(TrainArguments, words, "train", TrainArguments.defaults(words)).config
        expected.append(prepare(config).identity.digest())
    assert found == expected
    assert len(set(found)) == len(options)
    in_python = sweep_of("same", "chain", {"preset": "laptop", "task": "C2", "horizon": 6, "seed": 3})
    assert in_python.cases[0].prepared.identity.digest() == expected[0]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (
            {"preset": "labtop"},
            r"^preset: must be one of paper, laptop \(did you mean 'laptop'\?\); got 'labtop'",
        ),
        ({"preset": ["laptop"]}, r"^preset: must be one of paper, laptop"),
        ({"preset": "laptop", "base": {"preset": "laptop"}}, r"^base.preset: is set twice"),
        ({"preset": "laptop", "base": {"task": "C2", "model": 3}}, r"^model: "),
        ({"preset": "laptop", "base": {"method": 3}}, r"^method: must be text"),
        ({"preset": "laptop", "kind": "parity"}, r"^preset: runs of parity have no presets: leave it out"),
        ({"preset": "labtop", "kind": "hints"}, r"^preset: "),
    ],
)
def test_presets_that_there_are_not(said: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(said))
    with pytest.raises(BadInput, match=complaint):
        read_sweep(file)


def test_the_presets_of_hints_are_fields_of_theirs(tmp_path: Path) -> None:
    file = tmp_path / "hints.yaml"
    file.write_text("kind: hints\npreset: laptop\nbase: {method: curriculum}\n")
    assert read_sweep(file).cases[0].config == find_kind("hints").config(preset="laptop", method="curriculum")
