"""Presets, and the studies that judge them: what is judged is what the preset trains."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from internalize import ChainConfig
from internalize.cli import main
from internalize.configs.command_line import parse
from internalize.configs.named import own_files
from internalize.curricula.curriculum import METHODS
from internalize.errors import BadInput
from internalize.figures.paper import find_figure
from internalize.kinds.chain.commands import TrainArguments
from internalize.kinds.chain.presets import LAPTOP, LAPTOP_IN_ORDER, laptop, preset_in
from internalize.sweeps.sweep import read_sweep

STUDIES = Path(__file__).parents[2] / "studies"
OWN = f"--model.network {Path(__file__).parents[2] / 'examples/networks/recurrent.py'}:Recurrent"


REHEARSED = replace(LAPTOP, rehearsal=0.5, schedule=replace(LAPTOP.schedule, settle_for_less=None))
"""The recipe as it was first judged."""
IN_FIGURES = replace(LAPTOP, held_out=0.05, evaluation=replace(LAPTOP.evaluation, every=250))


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("laptop-judge", LAPTOP), ("laptop-judge-rehearsal", REHEARSED), ("laptop-judge-T25", IN_FIGURES)],
)
def test_one_recipe_is_judged_for_all_tasks(name: str, recipe: ChainConfig) -> None:
    configs = [case.config for case in read_sweep(STUDIES / f"{name}.yaml").cases]
    assert {config.seed for config in configs} == set(range(200, 210))
    for config in configs:
        assert isinstance(config, ChainConfig)
        assert config == replace(recipe, task=config.task, horizon=config.horizon, seed=config.seed)


@pytest.mark.parametrize("name", ["laptop-judge-T25", "s3-judge"])
def test_the_runs_of_a_study_are_those_of_the_figures(name: str) -> None:
    figures = [find_figure(figure).sweep("laptop", later=True) for figure in ("methods", "ood-degradation")]
    known = {_without_seed(case.config) for sweep in figures for case in sweep.cases}
    assert {_without_seed(case.config) for case in read_sweep(STUDIES / f"{name}.yaml").cases} < known


@pytest.mark.parametrize(
    ("study", "name"),
    [
        ("CELL", "scatter"),
        ("HEADS", "heads"),
        ("PLACE", "left-vs-right"),
        ("SHAPES", "isoparameter"),
        ("MIXTURE", "mixture"),
        ("ORDERS", "more-orders"),
        ("DURING", "ood-degradation"),
    ],
)
def test_only_the_initial_weights_differ_from_the_figure(
    study: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(STUDIES.parent)
    cases = find_figure(f"studies/headlines_under_gpt2_init.py:{study}").sweep("laptop").cases
    begun = [replace(_chain(case.config), seed=0) for case in cases]
    assert {config.model.init_std for config in begun} == {0.02}
    figure = [_chain(case.config) for case in find_figure(name).sweep("laptop", later=True).cases]
    known = {replace(config, seed=0, model=replace(config.model, init_std=0.02)) for config in figure}
    assert set(begun) <= known
    assert {case.config.seed for case in cases} <= {config.seed for config in figure}


def _chain(config: object) -> ChainConfig:
    assert isinstance(config, ChainConfig)
    return config


def _without_seed(config: object) -> ChainConfig:
    """A figure that is judged again has other seeds than the study."""
    assert isinstance(config, ChainConfig)
    return replace(config, seed=0)


def test_the_atlas_has_many_tasks_one_horizon_and_one_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the judged runs of S_3, which are part of it, on seeds that nothing was chosen on."""
    monkeypatch.chdir(STUDIES.parent)
    configs = [case.config for case in read_sweep(STUDIES / "atlas.yaml").cases]
    judged = {case.config for case in read_sweep(STUDIES / "s3-judge.yaml").cases}
    assert len({config.task for config in configs if isinstance(config, ChainConfig)}) >= 8
    assert {replace(config, task="S3") for config in configs if isinstance(config, ChainConfig)} < judged
    assert len(judged & set(configs)) == len({config.seed for config in configs})


def test_words_depart_from_the_preset_that_they_name() -> None:
    words = ["--task", "C5", "--preset", "laptop", "--optimizer.lr", "2e-3"]
    arguments = parse(TrainArguments, words, "internalize train", TrainArguments.defaults(words))
    expected = replace(LAPTOP, task="C5", optimizer=replace(LAPTOP.optimizer, lr=2e-3))
    assert arguments.config == expected
    assert TrainArguments.defaults(["--task", "C5"]) is None
    assert preset_in(["--preset=paper"]) == ChainConfig()
    with pytest.raises(BadInput, match="preset"):
        preset_in(["--preset", "phone"])


@pytest.mark.parametrize("method", METHODS)
def test_the_preset_serves_every_method(method: str) -> None:
    words = ["--preset", "laptop", "--method", method, "--task", "C3", "--horizon", "5"]
    arguments = parse(TrainArguments, words, "internalize train", TrainArguments.defaults(words))
    assert arguments.config.method == method
    assert arguments.config.model == LAPTOP.model
    arguments.config.check({})  # nothing in it is refused


@pytest.mark.parametrize("model", ["--model.positions=rotary", "--model.positions none", OWN])
def test_the_preset_serves_models_without_learned_positions(model: str) -> None:
    words = f"--preset laptop --task C3 --horizon 5 {model}".split()
    arguments = parse(TrainArguments, words, "internalize train", TrainArguments.defaults(words))
    assert replace(arguments.config, model=LAPTOP.model, keep_positions=True) == replace(
        LAPTOP, task="C3", horizon=5
    )
    with own_files():
        arguments.config.check({})  # nothing in it is refused


@pytest.mark.parametrize(
    ("task", "recipe"),
    [
        ("C7", LAPTOP),
        ("C2xC3", LAPTOP),
        ("S3", LAPTOP_IN_ORDER),
        ("flipflop2", LAPTOP_IN_ORDER),
        ("regex:(0|1)*11", LAPTOP_IN_ORDER),
        ("turnstile.py:turnstile", LAPTOP_IN_ORDER),
        ("parity.json", LAPTOP),
        ("missing.json", LAPTOP),  # which the check of the config refuses
    ],
)
def test_the_preset_has_two_layers_where_the_order_of_symbols_matters(
    task: str, recipe: ChainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the command line, in Python and in a sweep file; a model that is asked for stays as it is."""
    monkeypatch.chdir(tmp_path)
    Path("parity.json").write_text('{"transitions": [[0, 1], [1, 0]]}')
    Path("turnstile.py").write_text(
        "from internalize import semiautomaton\nturnstile = semiautomaton('turnstile', [[0, 1], [0, 1]])\n"
    )
    words = ["--preset", "laptop", "--task", task, "--horizon", "5"]
    arguments = parse(TrainArguments, words, "internalize train", TrainArguments.defaults(words))
    assert arguments.config == laptop(task, 5) == replace(recipe, task=task, horizon=5)
    asked = [*words, "--model.depth", "3"]
    assert parse(TrainArguments, asked, "train", TrainArguments.defaults(asked)).config.model.depth == 3
    Path("sweep.yaml").write_text(f"preset: laptop\nbase: {{task: '{task}', horizon: 5}}\n")
    if "missing" not in task:
        with own_files():
            (case,) = read_sweep("sweep.yaml").cases
        assert case.config == arguments.config


SMALL = {
    "task": "C3",
    "horizon": 3,
    "iterations": 9,
    "batch": 8,
    "model": {"depth": 1, "width": 16, "heads": 8},
}


def test_words_depart_from_the_file_that_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of one's own, a run's config.json and a run are the same config: the same folder, done once."""
    monkeypatch.chdir(tmp_path)
    small = {**SMALL, "evaluation": {"samples": 10, "final_samples": 20}}
    Path("mine.json").write_text(json.dumps(small))
    Path("mine.yaml").write_text(yaml.safe_dump(small))
    assert main(["train", "--config", "mine.yaml", "--seed", "5", "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert "already done" not in captured.err
    names = ["mine.json", "latest", f"{result['run']}/config.json"]
    for number, name in enumerate(names):
        seed = ["--seed", "5"] if number == 0 else []
        assert main(["train", "--config", name, *seed, "--json"]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out) == result
        assert re.search(r"already done \(\d{4}-\d\d-\d\d \d\d:\d\d\); --fresh trains it anew", captured.err)
    assert main(["experiment", "chain", "--config", "latest", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert main(["experiment", "hints", "--config", "latest"]) == 2
    assert "config.json is a config of the kind chain, not of hints" in capsys.readouterr().err
    assert main(["train", "--config", "mine.yaml", "--preset", "laptop"]) == 2
    assert "config: gives all fields: leave --preset out" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["", "--task C7 --seed 3", "--quiet --json"])
def test_days_of_work_are_not_started_unasked(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words.split(), "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert re.search(r"takes about \d+ d \d+ h of one core, so it is not started unasked", said)
    assert "--preset laptop" in said
    assert "--preset paper" in said
    assert list(tmp_path.iterdir()) == []
