"""Every figure at the smoke tier, from its runs to its files; and its claims on planted outcomes."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from internalize import Execution, train
from internalize.cli import main
from internalize.figures.cases import differences, shapes_of
from internalize.figures.claims import ClaimTest, judge
from internalize.figures.commands import status
from internalize.figures.doubts import doubts
from internalize.figures.each import AtEach
from internalize.figures.paper import NAMES, find_figure, told_by
from internalize.figures.rates import RateAbove
from internalize.figures.recorded import recorded_runs
from internalize.figures.results import plan
from internalize.figures.rows import group
from internalize.figures.waiting import Sooner
from internalize.kinds import prepare
from internalize.runs.folder import Run
from internalize.sweeps.recorded import run_name
from tests.figures.planting import AS_CLAIMED, EXCEPTIONS, LAPTOP_ALONE, SEEDS, TOO_FEW, chain, plant


@pytest.fixture(scope="module")
def smoke_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs of all figures at the smoke tier, each once."""
    out = tmp_path_factory.mktemp("smoke")
    configs = {case.config: None for name in NAMES for case in find_figure(name).sweep("smoke").cases}
    for config in configs:
        train(config, Execution(out=out, quiet=True))
    return out


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_at_the_smoke_tier(
    name: str, smoke_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs are there: nothing is trained, everything is written, and no claim is judged."""
    before = sorted(smoke_runs.iterdir())
    words = ["figure", name, "--tier", "smoke", "--out", str(smoke_runs), "--results", str(tmp_path), "--json"]
    assert main(words) == 0
    assert sorted(smoke_runs.iterdir()) == before
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    folder = tmp_path / f"{name}-smoke"
    written = {path.name for path in folder.iterdir()}
    curves = {f"{name}-curves.csv"} if find_figure(name).curve_of_run else set()
    assert written == {"verdict.json", *(f"{name}.{kind}" for kind in ("png", "svg", "pdf", "csv")), *curves}
    assert record == json.loads((folder / "verdict.json").read_text())
    assert (record["claims"], record["judged"], record["runs"]["missing"]) == ([], False, [])
    assert {entry["claim"] for entry in record["plan"]} == {claim.name for claim in find_figure(name).claims}
    rows = list(csv.DictReader((folder / f"{name}.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == (record["runs"]["planned"] or 16)


def test_a_figure_runs_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--tier", "smoke", "--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["figure", "mixture", *where, "--no-train"]) == 0
    assert "nothing to draw of mixture" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "results" / "mixture-smoke").iterdir()] == ["verdict.json"]
    assert main(["figure", "mixture", *where, "--workers", "1", "--quiet"]) == 0
    runs = sorted((tmp_path / "runs").glob("C2-*"))
    assert [Run(path).is_done for path in runs] == 4 * [True]
    (runs[0] / "status.json").unlink()
    written = {path: path.read_bytes() for path in (tmp_path / "results" / "mixture-smoke").iterdir()}
    capsys.readouterr()
    assert main(["figure", "mixture", *where, "--no-train"]) == 2
    assert "was made of 4 runs, of which 3 are found now" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in written} == written, "hours of runs are not replaced by fewer"
    assert main(["figure", "mixture", *where[:4], "--results", str(tmp_path / "fewer"), "--no-train"]) == 0
    assert "1 of 4 runs are missing" in capsys.readouterr().out


def test_judged_again_without_a_picture(smoke_runs: Path, tmp_path: Path) -> None:
    """The picture and its table stay as they were, and so does what is said of the picture."""
    words = [
        "figure",
        "heads",
        "--tier",
        "smoke",
        "--out",
        str(smoke_runs),
        "--results",
        str(tmp_path),
        "--quiet",
    ]
    folder = tmp_path / "heads-smoke"
    assert main([*words, "--no-draw"]) == 0
    assert [path.name for path in folder.iterdir()] == ["verdict.json"]
    assert main(words) == 0
    record = json.loads((folder / "verdict.json").read_text()) | {"caption": "As it was.", "plan": []}
    (folder / "verdict.json").write_text(json.dumps(record))
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "verdict.json"}
    assert main([*words, "--no-draw"]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "verdict.json"} == kept
    judged = json.loads((folder / "verdict.json").read_text())
    assert judged["caption"] == "As it was."
    assert judged["plan"]


UNTESTABLE = "not testable here"
ABOUT_FAILURE = {"e2e-fails", "direct-fails", "right-never"}
"""Claims that some training fails: where nothing is learned they are true, and say what they should."""


@pytest.mark.parametrize(
    "name", [name for name in AS_CLAIMED if name not in ("attention-parity", "parity-watch")]
)
def test_where_nothing_is_learned_nothing_is_confirmed(name: str) -> None:
    """The chain is learned, and then every run of every curriculum ends at chance, whatever it was asked."""
    figure = find_figure(name)

    def lost(row: dict[str, Any]) -> dict[str, Any]:
        if name == "mlp-hints":
            return {"succeeded": False, "accuracy": 0.5, "subnetwork_accuracy": 0.5, "folded_accuracy": 0.5}
        good = 1.0 if row["method"] == "cot" else 0.0
        asked = {
            "chain_id_accuracy": 1.0,
            "chain_ood_accuracy": 1.0,
            "chain_response_length": row["horizon"] + 1.0,
        }
        told = row["method"] == "mixture" or row.get("length_token")
        more = asked if told else {"ood_gap_trend": 0.001 * (row["seed"] - 7)}
        return {**chain(row, good, chance=row["chance"]), **more, "stages_passed": 0.3}

    judged = judge(figure.claims, plant(figure, "laptop", lost))
    allowed = {*ABOUT_FAILURE, "cot-succeeds", "cot-keeps-ood", "nearly-binary"}
    assert {one.claim.name for one in judged if one.word == "confirmed"} <= allowed


@pytest.mark.parametrize("name", AS_CLAIMED)
def test_what_the_paper_claims_is_confirmed_if_it_comes_out_so(name: str) -> None:
    """Planted as the paper has it, at the paper's cases, every claim of the figure is confirmed."""
    figure = find_figure(name)
    judged = judge(figure.claims, plant(figure, "paper", AS_CLAIMED[name]))
    expected = dict.fromkeys((claim.name for claim in figure.claims), "confirmed")
    for claims, word in ((EXCEPTIONS, UNTESTABLE), (TOO_FEW, UNTESTABLE), (LAPTOP_ALONE, "planned")):
        expected |= dict.fromkeys(claims[name], word)
    assert {one.claim.name: one.word for one in judged} == expected


@pytest.mark.parametrize("name", AS_CLAIMED)
def test_the_cases_of_the_laptop_can_tell(name: str) -> None:
    """With the seeds that are planned there, the same outcome is confirmed as well, whatever has cases
    there."""
    figure = find_figure(name)
    planned = figure.planned(figure.sweep("laptop", later=True))
    seeds = len({row["seed"] for row in planned})
    rows = [row for row in plant(figure, "laptop", AS_CLAIMED[name], SEEDS) if SEEDS - row["seed"] <= seeds]
    words = {one.claim.name: one.word for one in judge(figure.claims, rows)}
    # too few powers; too few runs that succeed at each place
    without = {"primes-cost-more-than-powers", "ood-loss-everywhere", "only-distributional", *TOO_FEW[name]}
    too_large = {"left-a-third", "deepest-not-suited", "deep-stays-weak-beyond-c2"}  # no such models here
    assert {claim for claim, word in words.items() if word != "confirmed"} <= without | too_large
    assert {words[claim] for claim in too_large & set(words)} <= {"planned"}


@pytest.mark.parametrize("name", ["mlp-hints", "attention-parity"])
def test_two_seeds_confirm_nothing(name: str) -> None:
    figure = find_figure(name)
    judged = judge(figure.claims, plant(figure, "paper", AS_CLAIMED[name], seeds=2))
    assert {one.word for one in judged} <= {"inconclusive", UNTESTABLE}


@pytest.mark.parametrize("name", AS_CLAIMED)
def test_without_runs_nothing_is_judged(name: str) -> None:
    assert {one.word for one in judge(find_figure(name).claims, [])} == {"planned"}


def test_construction_size_is_judged_without_runs() -> None:
    figure = find_figure("construction-size")
    assert figure.table is not None
    rows = figure.table_rows("laptop")
    bounds = {row["n"]: row["bound"] for row in rows}
    assert (bounds[16], bounds[17]) == (4 * 16 + 2 + 4, 4 * 17 + 2 + 4)
    judged = {one.claim.name: (one.word, one.scale) for one in judge(figure.claims, rows)}
    confirmed = ("confirmed", "the paper's own")
    assert judged == dict.fromkeys((claim.name for claim in figure.claims), confirmed)
    wrong = [{**row, "exact": row["n"] != 30} for row in rows]
    assert {one.claim.name: one.word for one in judge(figure.claims, wrong)}[
        "computes-the-counter"
    ] != "confirmed"


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_has_a_plan(name: str) -> None:
    """Each says what it tests and what it can see; names are unique; the laptop uses fresh seeds."""
    figure = find_figure(name)
    entries = plan(figure, figure.planned(figure.sweep("laptop", later=True)))
    assert all(entry["method"] and entry["detects"] for entry in entries)
    assert len({claim.name for claim in figure.claims}) == len(figure.claims)
    for tier, grids in figure.tiers.items():
        seeds = {seed for _, those in shapes_of(grids, later=True) for seed in those}
        assert seeds <= set(range(200, 230) if tier in ("laptop", "paper") else range(50))


def test_differences_are_read_off_the_cases() -> None:
    figure = find_figure("heads")
    told = figure.differences("smoke")
    assert "T: 3 (paper: 25)" in told
    assert "curricula: left (paper: inductive)" in told
    assert "width d: 8 (paper: 64, 128)" in told
    assert "MLP width: 32 (paper: 256, 512)" in told
    assert "seeds: 1 (paper tier: 30)" in told
    assert figure.differences("paper") == []
    shapes = shapes_of(figure.tiers["paper"])
    assert differences(shapes, shapes) == []


def test_what_differs_is_told_of_the_runs_that_are_there() -> None:
    """A shape counts from its first run on, whichever seed that is, with the seeds that are there."""
    figure = find_figure("ood-degradation")
    names = [run_name(case) for case in figure.sweep("laptop").cases]
    c3 = [name for name in names if name.startswith("C3-")]
    assert "tasks: C3, C4, C5 (paper: C3, C4)" in figure.differences("laptop", names)
    later_seeds = figure.differences("laptop", c3[1:])
    assert "tasks: C3 (paper: C3, C4)" in later_seeds
    assert "seeds: 19 (paper tier: 15)" in later_seeds


def test_a_claim_that_was_judged_before_needs_more_to_be_seen() -> None:
    """One run of twenty more than at the first look: 0.5^7 is below 0.025 / 3, 0.5^6 is not."""
    figure = find_figure("ood-degradation")
    first = replace(figure, claims=[replace(figure.claims[0], looks=1)])
    told = [plan(one, one.planned(one.sweep("laptop")))[0]["detects"] for one in (first, figure)]
    assert [text.split(" runs")[0] for text in told] == ["6 of 20", "7 of 20"]


def test_the_paper_tier_has_the_paper_s_sizes() -> None:
    """Runs of the specification's table, counted by hand."""
    counts = {
        name: sum(len(seeds) for _, seeds in shapes_of(find_figure(name).tiers["paper"]))
        for name in ("methods", "orders", "isoparameter")
    }
    assert counts == {"methods": 6 * 3 * 3 * 30, "orders": 15 * 2 * 30, "isoparameter": 3 * 9 * 30}
    (config,) = {
        config for config, _ in shapes_of(find_figure("left-vs-right").tiers["paper"])
        if (config.task, config.method, config.model.positions) == ("C7", "left", "absolute")  # type: ignore[attr-defined]
        and config.answer_positions is None  # type: ignore[attr-defined]
    }  # fmt: skip
    assert (config.iterations, config.batch, config.horizon) == (50_000, 128, 25)  # type: ignore[attr-defined]
    model = config.model  # type: ignore[attr-defined]
    assert (model.depth, model.width, model.heads, model.mlp_width) == (4, 512, 128, 2048)


def test_figures_share_runs() -> None:
    """The left curriculum on C_5 at T = 25 is one and the same run in four figures of the paper."""
    shapes = [
        {config for config, _ in shapes_of(find_figure(name).tiers["paper"])}
        for name in ("methods", "mixture", "left-vs-right", "orders")
    ]
    assert {prepare(config).label for config in set.intersection(*shapes)} >= {
        "C5-T25-left-s200",
        "C7-T25-left-s200",
    }


def test_the_documentation_names_every_figure() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in text] == []


def test_unknown_figures_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["figure", "hedas"]) == 2
    assert "did you mean 'heads'?" in capsys.readouterr().err
    assert main(["figure", "internalize.figures.paper.heads:CLAIMS"]) == 2
    assert "must be an internalize Figure, got: list" in capsys.readouterr().err
    assert main(["report", "--results", str(tmp_path)]) == 2
    assert "no figure in" in capsys.readouterr().err
    assert main(["figures", "--results", str(tmp_path / "none")]) == 2
    assert "results: there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"figure": "heads"', '{"figure": "heads"}', "[]"])
def test_a_verdict_that_is_not_whole_is_refused(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "heads").mkdir()
    (tmp_path / "heads" / "verdict.json").write_text(text)
    assert main(["report", "--results", str(tmp_path)]) == 2
    assert "results: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["heads"]


@pytest.mark.filterwarnings("always::internalize.errors.RunWarning")
def test_a_damaged_verdict_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Path(__file__).resolve().parents[2] / "results"
    for name in ("construction-size", "heads"):
        shutil.copytree(made / name, tmp_path / name)
    path = tmp_path / "heads" / "verdict.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "runs": 3}))
    assert main(["report", "--results", str(tmp_path), "--page", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"internalize: warning: damaged: {path} has runs = '3', which must be an object")
    assert said.count("\n") == 1
    page = (tmp_path / "page.html").read_text()
    assert find_figure("construction-size").shows in page
    assert find_figure("heads").shows not in page


def test_the_list_of_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "--runs", "--out", str(tmp_path), "--results", str(tmp_path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["figures"]
    assert [entry["figure"] for entry in listed] == list(NAMES)
    assert all(entry["runs"]["laptop"]["done"] == 0 for entry in listed)
    results = tmp_path / "results"
    shutil.copytree(Path(__file__).resolve().parents[2] / "results" / "heads", results / "heads")
    heads = find_figure("heads")
    assert status(heads, "laptop", tmp_path, recorded_runs(results, heads)).done == 40
    runs = [entry["runs"]["paper"] for entry in listed]
    assert all(of_paper["seconds"] > 0 for of_paper in runs if of_paper["planned"])
    assert listed[0]["paper"] == "Figure 1, right"


@pytest.mark.parametrize("name", ["heads", "mlp-hints", "parity-watch"])
def test_another_seed_of_a_config_is_found_where_it_would_be_trained(name: str, tmp_path: Path) -> None:
    config, _ = shapes_of(find_figure(name).tiers["laptop"])[0]
    other: Any = replace(config, seed=7)  # type: ignore[type-var]
    assert prepare(config).folder_of_seed(7, tmp_path) == prepare(other).folder(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_list_reads_what_the_figure_says(name: str) -> None:
    figure = find_figure(name)
    assert told_by(name) == {"paper": figure.paper, "shows": figure.shows}


@pytest.mark.parametrize("words", [[], ["--no-train"], ["--plan"]])
def test_a_tier_that_a_figure_lacks_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "construction-size", "--tier", "toy", *words]) == 2
    assert "tier: construction-size has no cases for toy" in capsys.readouterr().err


def test_slips_in_the_claims_of_a_figure_are_said_before_its_runs() -> None:
    heads = find_figure("heads")
    claim = replace(heads.claims[0], controls=())
    slips: dict[str, ClaimTest] = {
        "a field 'metod' (did you mean 'method'?)": RateAbove(group("all", metod="left"), "internalized", 0.5),
        "'internalised' (did you mean 'internalized'?)": RateAbove(group("all"), "internalised", 0.5),
        "no case has method = 'lefft'": RateAbove(group("all", method="lefft"), "internalized", 0.5),
        "a field 'taks' (did you mean 'task'?)": RateAbove(group("all"), "internalized", 0.5, by="taks"),
        "'iteration_until' (did you mean 'iterations_until'?)": AtEach(
            Sooner(group("all"), group("others"), time="iteration_until"), "task"
        ),
    }
    for said, test in slips.items():
        (line,) = doubts(replace(heads, claims=[replace(claim, test=test)]), "laptop")
        assert line.startswith(f"{claim.name}: ")
        assert said in line
    for name in NAMES:
        assert doubts(find_figure(name), "laptop") == []
