"""Race, frontier and atlas: on planted outcomes, and once each on the command line with tiny runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from internalize import ChainConfig, ModelConfig, ScheduleConfig
from internalize.analysis.atlas import Place, places, rankings
from internalize.analysis.frontier import fit_law, search
from internalize.analysis.race import (
    HEADINGS,
    RaceArguments,
    RaceFinish,
    _finishes,
    _lost_its_numbers,
    cells,
    entrant_config,
    standings,
    waiting_shares,
)
from internalize.cli import main
from internalize.contract import RunState
from internalize.errors import BadInput, RunFailed
from internalize.kinds import prepare
from internalize.kinds.chain.presets import LAPTOP
from internalize.runs.folder import Run
from internalize.runs.table import latex_table, markdown_table
from internalize.runtime.fleet.driver import Outcome
from tests.entering import forecast_of

TINY = [
    *("--task", "C2", "--horizon", "3", "--model.depth", "1", "--model.width", "16", "--model.heads", "4"),
    *("--batch", "16", "--optimizer.lr", "5e-3", "--evaluation.samples", "50", "--evaluation.final-samples"),
    *("200", "--evaluation.every", "100", "--schedule.threshold", "0.2", "--quiet", "--device", "cpu"),
]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code = main(list(words))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    found: dict[str, Any] = json.loads(captured.out.splitlines()[-1])
    return found


# Race ----------------------------------------------------------------------------------------------------


def finish(
    entrant: str, seed: int, cost: float | None, ood: float = 0.5, chain: float | None = None
) -> RaceFinish:
    return RaceFinish(entrant, seed, cost is not None, cost, 100.0, 0.9, ood, chain)


def test_standings_on_planted_outcomes() -> None:
    """quick: 3 of 4 at 10, 20, 30; slow: 3 of 4 at 60, 70, 80; never: 0 of 2."""
    runs = [
        *(finish("slow", seed, cost) for seed, cost in enumerate([60.0, None, 80.0, 70.0])),
        *(finish("quick", seed, cost, 0.8, 0.99) for seed, cost in enumerate([30.0, 10.0, None, 20.0])),
        *(finish("never", seed, None) for seed in range(2)),
    ]
    quick, slow, never = standings(runs, 100.0)
    assert [quick.entrant, slow.entrant, never.entrant] == ["quick", "slow", "never"]
    assert (quick.median_cost, quick.mean_cost) == (20, 40)  # (10 + 20 + 30 + 100) / 4
    assert (slow.median_cost, slow.mean_cost) == (70, 77.5)
    assert (never.median_cost, never.mean_cost) == (None, 100)
    assert quick.chain is not None
    assert (quick.chain.successes, quick.chain.trials) == (4, 4)
    assert slow.chain is None
    assert waiting_shares([30.0, 10.0, None, 20.0]) == [(0, 1), (10, 0.75), (20, 0.5), (30, 0.25)]


@pytest.mark.parametrize("method", ["left", "inductive", "mixture", "cot"])
def test_fixed_stages_spend_the_budget_and_no_more(method: str) -> None:
    """By the forecast, which counts what a run will cost in another place."""
    base = ChainConfig(task="C3", horizon=5, model=ModelConfig(depth=1, width=16, heads=4), batch=8)
    config = entrant_config(f"{method}+fixed", base, 1e9)
    assert config.schedule == ScheduleConfig()
    assert 0.98e9 < forecast_of(config).training_flops <= 1e9


def test_entrants() -> None:
    base = ChainConfig(task="C3", horizon=5, rehearsal=0.3, rehearse="all", length_token=True)
    plain, told = entrant_config("left", base, 1e12), entrant_config("left+rehearsal", base, 1e12)
    assert (plain.rehearsal, plain.length_token, plain.operations_limit) == (None, None, 1e12)
    assert (told.rehearsal, told.rehearse, told.length_token) == (0.3, "all", True)
    pausing = entrant_config("filler:left+rehearsal+muon", replace(base, keep_positions=True), 1e12)
    assert (pausing.length_token, pausing.keep_positions, pausing.optimizer.muon) == (None, None, True)
    for wrong in ("left+magic", "lefft"):
        with pytest.raises(BadInput, match="meth"):
            entrant_config(wrong, base, 1e12)


def test_a_method_of_one_stage_does_not_cool_from_its_start() -> None:
    base = replace(LAPTOP, task="C3", horizon=5)
    mixed, left = entrant_config("mixture", base, 1e12), entrant_config("left+easy", base, 1e12)
    assert (mixed.optimizer.cooling, mixed.schedule.kind, mixed.keep_positions) == (None, "adaptive", None)
    assert replace(left, iterations=LAPTOP.iterations, operations_limit=None) == base
    with pytest.raises(BadInput, match="ease"):
        entrant_config("mixture+easy", base, 1e12).check({})


def test_learning_rates_are_chosen_on_other_seeds_and_a_run_that_fails_is_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a learning rate of 1e30 the loss is no number after a step."""
    words = ["race", "--operations", "2e8", "--methods", "left", "--seeds", "1", "--workers", "1", *TINY]
    words = [*words, "--out", str(tmp_path), "--json", "--tuning-seeds", "1", "--lrs", "1e30"]
    race = said(capsys, *words, "5e-3")
    assert race["learning_rates"] == {"left": 5e-3}
    lost = said(capsys, *words)  # one rate: nothing to choose from
    assert lost["learning_rates"] == {"left": 1e30}
    assert [(run["internalized"], run["id_accuracy"]) for run in lost["runs"]] == [(False, 0.0)]
    assert main([*words, "5e-3", "--seed", "190"]) == 2
    assert "seed: learning rates are chosen on seeds 190 to 190" in capsys.readouterr().err


def test_a_race_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    race = said(
        capsys,
        *("race", "--operations", "2e8", "--methods", "left,mixture", "--seeds", "1", "--workers", "1"),
        *("--out", str(tmp_path), "--json", *TINY),
    )
    spent = {run["entrant"]: run["spent"] for run in race["runs"]}
    assert set(spent) == {"left", "mixture"}
    assert all(operations < 2.02e8 for operations in spent.values())  # one step may go beyond
    names = {path.name for path in (tmp_path / "race").iterdir()}
    assert {"race.json", "race.md", "race.tex", "race.png", "race.svg"} <= names


# Frontier ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truth", "first", "most", "largest", "missed", "tried"),
    [
        (11, 4, 64, 11, 12, [4, 8, 16, 12, 10, 11]),
        (3, 4, 64, None, 4, [4]),
        (64, 4, 64, 64, None, [4, 8, 16, 32, 64]),
        (100, 5, 60, 60, None, [5, 10, 20, 40, 60]),
        (4, 4, 64, 4, 5, [4, 8, 6, 5]),
    ],
)
def test_the_search_on_planted_outcomes(
    truth: int, first: int, most: int, largest: int | None, missed: int | None, tried: list[int]
) -> None:
    found = search(lambda horizon: horizon <= truth, first, most)
    assert (found.largest, found.smallest_missed) == (largest, missed)
    assert [horizon for horizon, _ in found.tried] == tried


def test_the_search_ends_when_the_gap_is_small_enough() -> None:
    found = search(lambda horizon: horizon <= 41, 8, 64, resolution=8)
    assert [horizon for horizon, _ in found.tried] == [8, 16, 32, 64, 48, 40]
    assert (found.largest, found.smallest_missed) == (40, 48)


def test_a_planted_law_is_found() -> None:
    exact = fit_law([(t, 7.0 * t**2.5) for t in (4, 8, 8, 16)])
    assert exact is not None
    assert (exact.factor, exact.exponent) == pytest.approx((7.0, 2.5))
    assert exact.low is None, "a horizon with one run says nothing of its spread"
    assert str(exact) == "7 · T^2.50, 4 runs"
    noisy = fit_law([(t, 7.0 * t**2.5 * f) for t in (4, 8, 16, 32) for f in (0.5, 1.0, 2.0)])
    assert noisy is not None
    assert noisy.low is not None
    assert noisy.high is not None
    assert noisy.low < 2.5 < noisy.high
    assert noisy.high - noisy.low > 0.1
    assert fit_law([(4, 1.0), (4, 2.0)]) is None


def test_a_frontier_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["frontier", "--minutes", "1", "--seeds", "1", "--first", "2", "--most", "3", *TINY]
    words = [*words, "--iterations", "3000", "--out", str(tmp_path), "--json"]
    found = said(capsys, *words)
    assert [row["horizon"] for row in found["runs"]] == [2, 3]
    assert found["largest"] == 3
    assert all(0 < row["seconds"] < 60 for row in found["runs"])
    again = said(capsys, *words)  # finished runs are read, not trained again
    assert again["runs"] == found["runs"]


def test_a_run_out_of_time_is_left_to_go_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["frontier", "--seeds", "1", "--first", "2", "--most", "2", *TINY, "--iterations", "200000"]
    words = [*words, "--schedule.threshold", "1e-9", "--out", str(tmp_path), "--json"]
    found = said(capsys, *words, "--minutes", "0.02")
    assert [row["ended"] for row in found["runs"]] == ["out of time"]
    assert found["largest"] is None
    (status,) = (json.loads(path.read_text()) for path in tmp_path.glob("*/status.json"))
    assert status["state"] == "interrupted"


# Atlas ---------------------------------------------------------------------------------------------------


def planted(task: str, horizon: int, *costs: float | None) -> list[dict[str, Any]]:
    """Finished runs as a table has them."""
    return [
        {"task": task, "horizon": horizon, "operations_to_internalize": cost, "samples": 100}
        | {"internalized": cost is not None, "ood_accuracy": 0.9 if cost else 0.2}
        for cost in costs
    ]


def test_places_and_rankings_on_planted_costs() -> None:
    """Costs that rise with the order, a task that is lost, and another horizon, which is not compared."""
    rows = [
        *planted("C9", 5, None, None, 90.0),
        *planted("C4", 5, 40.0, 42.0),
        *(row for n in (5, 6, 7, 8) for row in planted(f"C{n}", 5, 10.0 * n)),
        *planted("C2", 12, 1000.0),
    ]
    found = places(rows)
    assert [place.task for place in found] == ["C4", "C5", "C6", "C7", "C8", "C2", "C9"]
    lost: Place = found[-1]
    assert lost.costs == (None, None, 90.0)
    assert (lost.median_operations, lost.ood_accuracy) == (None, 0.9)
    assert (lost.internalized.successes, lost.internalized.trials) == (1, 3)
    by_name = {ranking.predictor: ranking for ranking in rankings(found)}
    assert by_name["states"].tasks == 6
    assert by_name["states"].correlation == pytest.approx(1)
    assert by_name["states"].p < 0.01  # 2 of 720 orders are as extreme
    # Σ prime powers of C4 … C9: 4, 5, 5, 7, 8, 9
    assert by_name["Σ prime powers, of groups that commute"].correlation == pytest.approx(
        17 / (17 * 17.5) ** 0.5
    )
    assert rankings(found[:3]) == []


def test_an_atlas_of_two_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = tmp_path / "two.yaml"
    sweep.write_text(
        "base: {horizon: 2, iterations: 400, batch: 16, model: {depth: 1, width: 16, heads: 4},\n"
        "       optimizer: {lr: 5e-3}, evaluation: {samples: 50, final_samples: 100, every: 100}}\n"
        "grid: {task: [C2, S3]}\n"
    )
    out = str(tmp_path / "runs")
    said(capsys, *("sweep", str(sweep), "--out", out, "--quiet", "--no-estimate", "--workers", "1", "--json"))
    found = said(capsys, "atlas", str(sweep), "--out", out, "--json")
    assert {place["task"] for place in found["places"]} == {"C2", "S3"}
    by_task = {place["task"]: place["predictors"] for place in found["places"]}
    assert by_task["S3"]["transformations"] == 6
    assert by_task["C2"]["prime_powers"] == 2
    assert by_task["C2"]["construction_width"] < by_task["S3"]["construction_width"]
    assert found["rankings"] == []  # two tasks have no order to speak of
    assert {place["predictors"]["kind"] for place in found["places"]} == {"group", "group that commutes"}
    assert (Path(out) / "atlas" / "atlas.md").read_text().count("\n") == 4
    assert (Path(out) / "atlas" / "atlas.html").read_text().count("<tr>") == 3
    assert (Path(out) / "atlas" / "atlas.png").exists()


def test_a_run_that_could_not_be_carried_out_has_not_lost_a_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has it, the disk is full: that says nothing of the method. A loss of NaN does."""
    config = replace(LAPTOP, task="C2", horizon=3)
    prepared = prepare(config)
    outcome = Outcome(prepared, RunState.FAILED, error="is being trained by process 4711", exit_code=2)
    monkeypatch.setattr("internalize.analysis.race.train_side_by_side", lambda *_: [outcome])
    arguments = RaceArguments(config=config)
    with pytest.raises(RunFailed, match="is being trained by process 4711"):
        _finishes([("left", config)], arguments, "")
    outcome.run = Run(tmp_path)
    for for_good in (False, True):
        (tmp_path / "status.json").write_text(
            json.dumps({"state": "failed", "message": "", "for_good": for_good})
        )
        assert _lost_its_numbers(outcome) == for_good
    assert not _finishes([("left", config)], arguments, "")[0].internalized


def test_the_committed_race_is_the_standing_of_its_runs() -> None:
    folder = Path(__file__).resolve().parents[2] / "results" / "race"
    found = json.loads((folder / "race.json").read_text())
    table = standings([RaceFinish(**run) for run in found["runs"]], found["operations"])
    assert found["standings"] == [standing.to_json() for standing in table]
    assert (folder / "race.md").read_text() == markdown_table(HEADINGS, list(map(cells, table))) + "\n"
    assert (folder / "race.tex").read_text() == latex_table(HEADINGS, list(map(cells, table))) + "\n"
