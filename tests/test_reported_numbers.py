"""Tables in the documents that no command prints: their numbers are those of the committed results."""

from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest

from internalize.figures.claims import told_p
from internalize.figures.paper import NAMES, find_figure, isoparameter
from internalize.figures.paper.parity_watch import LEMMAS
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.parity.watch import holds as quantity_holds
from internalize.statistics import spearman_trend
from internalize.sweeps import read_sweep

ROOT = Path(__file__).resolve().parents[1]


IN_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows_of(name: str) -> list[dict[str, str]]:
    with (ROOT / "results" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(rows: Sequence[dict[str, str]], column: str, unit: float = 1) -> list[float]:
    return [float(row[column]) / unit for row in rows]


def spread(values: Sequence[float], form: str) -> str:
    return f"{min(values):{form}}–{max(values):{form}}"


def count(rows: Sequence[dict[str, str]]) -> str:
    return f"{sum(row['internalized'] == 'True' for row in rows)} of {len(rows)}"


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("judge-T25", {"C3", "C4", "C5", "C7"}),
        ("judge-S3", {"S3"}),
        ("judge", {"C2", "C3", "C5", "C7"}),
        ("judge-rehearsal", {"C2", "C3", "C5", "C7"}),
    ],
)
def test_what_the_recipe_reaches(name: str, tasks: set[str]) -> None:
    document, judged = text_of("docs/cost.md"), rows_of(f"laptop/{name}.csv")
    assert {row["task"] for row in judged} == tasks
    for task, horizon in {(row["task"], row["horizon"]) for row in judged}:
        rows = [row for row in judged if row["task"] == task]
        columns = [
            (numbers(rows, "result.iterations"), ",.0f", ""),
            (numbers(rows, "operations", 1e12), ".1f", ""),
            (numbers(rows, "processor_seconds"), ".0f", ""),
            (numbers(rows, "id_accuracy", 0.01), ".1f", " %"),
            (numbers(rows, "ood_accuracy", 0.01), ".1f", " %"),
        ]
        cells = [f"{median(values):{form}}{unit} ({spread(values, form)})" for values, form, unit in columns]
        undone = sum(int(row["attempts_undone"]) for row in rows)
        line = [f"{task[0]}_{task[1:]}, {horizon}", count(rows), *cells, str(undone)]
        assert f"| {' | '.join(line)} |" in document


def test_what_is_lost_out_of_distribution_at_the_papers_horizon() -> None:
    rows = rows_of("laptop/judge-T25.csv")
    drawn = [row for row in rows if row["task"] != "C7"]  # those of the figure
    kept, kept_there = (sum(row["ood_succeeded"] == "True" for row in part) for part in (rows, drawn))
    assert f"Out of distribution {kept} of these {len(rows)} runs stay above 95 %" in text_of("docs/cost.md")
    told = f"{kept_there} of the {len(drawn)} runs end above 95 % out of distribution"
    assert told in text_of("docs/results.md")


def test_whether_quicker_runs_are_better_out_of_distribution() -> None:
    notes = text_of("docs/lab-notes.md")
    told: dict[str, list[tuple[float, float]]] = {}
    for row in [*rows_of("laptop/judge-S3.csv"), *rows_of("laptop/judge-T25.csv")]:
        if row["internalized"] == "True":
            pair = float(row["iterations_to_internalize"]), float(row["ood_accuracy"])
            told.setdefault(row["task"], []).append(pair)
    found = {task: spearman_trend(*zip(*pairs, strict=True)).correlation for task, pairs in told.items()}
    assert f"(rank correlation {found.pop('S3'):.2f})" in " ".join(notes.split())
    assert ", ".join(f"C_{task[1:]} {value:+.2f}" for task, value in found.items()) in " ".join(notes.split())


def test_what_was_chosen_on() -> None:
    """The runs without rehearsal, on a seed for choosing."""
    notes = text_of("docs/lab-notes.md")
    for row in rows_of("laptop/choose-T25.csv"):
        place = f"{row['task'][0]}_{row['task'][1:]}, {row['horizon']}"
        accuracies = [f"{100 * float(row[f'{kind}_accuracy']):.1f} %" for kind in ("id", "ood")]
        cost = [
            f"{int(row['iterations_to_internalize']):,}",
            f"{float(row['operations_to_internalize']) / 1e12:.1f}",
        ]
        assert f"| {' | '.join([place, row['model.depth'], *cost, *accuracies])} |" in notes


def test_left_and_right_on_a_seed_for_choosing() -> None:
    notes = text_of("docs/lab-notes.md")
    rows = rows_of("laptop/choose-sides.csv")
    assert len(rows) == 11
    for row in rows:
        place = f"{row['task'][0]}_{row['task'][1:]}, {row['horizon']}"
        positions = "kept" if row["keep_positions"] == "True" else "absolute"
        line = f"| {place} | {row['method']} | {positions} | {int(row['result.iterations']):,} | "
        accuracies = [f"{100 * float(row[f'{kind}_accuracy']):.1f} %" for kind in ("id", "ood")]
        ended = f"internalized: {', '.join(accuracies)} |" if row["internalized"] == "True" else "**lost** at "
        assert line + ended in notes


def test_why_right_fails() -> None:
    document = text_of("docs/results.md")
    rows = [row for row in rows_of("left-vs-right/left-vs-right.csv") if row["task"] == "C7"]
    lines = {
        ("left", "absolute"): "left, absolute positions | stays",
        ("right", "absolute"): "right, absolute positions | moves",
        ("right", "kept"): "right, every state keeps its place | stays",
        ("left", "end"): "left, positions counted from the end | moves",
        ("left", "rotary"): "left, rotary positions | –",
        ("right", "rotary"): "right, rotary positions | –",
        ("left", "none"): "left, no positions | –",
        ("right", "none"): "right, no positions | –",
    }
    assert {(row["method"], row["encoding"]) for row in rows} == set(lines)
    for (method, encoding), words in lines.items():
        here = [row for row in rows if (row["method"], row["encoding"]) == (method, encoding)]
        ended = spread(numbers(here, "result.iterations"), ",.0f")
        assert f"| {words} | {count(here)} | {ended} |" in document


@pytest.mark.parametrize(
    ("large_heads", "seeds", "kinds"),
    [
        ("False", 6, [("left", "absolute"), ("right", "absolute"), ("right", "kept")]),
        ("True", 4, [("left", "rotary"), ("right", "rotary"), ("right", "absolute")]),
    ],
)
def test_why_right_fails_at_two_more_tasks(large_heads: str, seeds: int, kinds: list[tuple[str, str]]) -> None:
    wanted = ("True", large_heads)
    rows = rows_of("left-vs-right/left-vs-right.csv")
    again = [row for row in rows if (row["again"], row["large_heads"]) == wanted]
    for task, horizon in (("C2", "26"), ("C3", "17")):
        cells = []
        for kind in kinds:
            here = [row for row in again if (row["task"], row["method"], row["encoding"]) == (task, *kind)]
            assert len(here) == seeds
            cells.append(f"{count(here)}, {spread(numbers(here, 'result.iterations'), ',.0f')}")
        assert f"| {task[0]}_{task[1:]}, {horizon} | {' | '.join(cells)} |" in text_of("docs/results.md")


def test_what_a_wide_mlp_costs_in_operations() -> None:
    """A ratio for each order, of mean logarithms over the runs that internalized."""
    rows = [row for row in rows_of("orders/orders.csv") if row["happened"] == "True"]
    ratios = []
    for task in {row["task"] for row in rows}:
        wide, narrow = (
            fmean(math.log(float(row["operations_until"])) for row in rows if (row["task"], row["wide"]) == own)
            for own in ((task, "True"), (task, "False"))
        )
        ratios.append(wide - narrow)
    told = " ".join(text_of("docs/results.md").split())
    assert (
        f"{math.exp(fmean(ratios)):.2f} times (the geometric mean over the orders, of the {len(rows)} runs"
        in told
    )


def test_ood_accuracy_falls_away() -> None:
    document = text_of("docs/results.md")
    rows = rows_of("ood-degradation/ood-degradation.csv")
    for task in ("C3", "C4", "C5"):
        here = [row for row in rows if row["task"] == task]
        trends, kept = numbers(here, "ood_gap_trend"), numbers(here, "stages_kept")
        cells = [
            f"{fmean(trends):.2f}",
            f"{sum(trend < 0 for trend in trends)} of {len(here)}",
            f"{median(kept):g} ({spread(kept, '.0f')})",
            f"{sum(row['ood_succeeded'] == 'True' for row in here)} of {len(here)}",
        ]
        assert f"| C_{task[1:]} | {' | '.join(cells)} |" in document
    told = sum(row["ood_succeeded"] == "True" for row in rows)
    assert f"{told} of the {len(rows)} runs end above 95 % out of" in document
    assert not {row["run"] for row in rows} & {row["run"] for row in rows_of("ood-degradation/second-look.csv")}


def test_the_lemmas_of_the_parity_proof() -> None:
    """Columns of the table from the quantities of every phase, and how often other bounds are broken."""
    rows = {row["run"]: row for row in rows_of("parity-watch/parity-watch.csv")}
    phases: dict[str, list[dict[str, str]]] = {run: [] for run in rows}
    for phase in rows_of("parity-watch/parity-watch-curves.csv"):
        phases[phase["run"]].append(phase)

    def holds(phase: dict[str, str], quantity: str) -> bool:
        return quantity_holds(quantity, float(phase[quantity]), float(phase[f"{quantity}_bound"]))

    for run, row in rows.items():
        assert len(phases[run]) == int(row["k"])
        for column, quantities in LEMMAS.items():
            found = all(holds(phase, name) for phase in phases[run] for name in quantities)
            assert row[column] == str(found)
    asked = [row for row in rows.values() if row["batch"] and row["zero_init"] == "False"]
    known = [phase for row in asked for phase in phases[row["run"]]]
    broken = {name: sum(not holds(phase, name) for phase in known) for name in ("reach_high", "tracking_norm")}
    document = " ".join(text_of("docs/parity.md").split())
    assert f"have {len(known)} phases" in document
    assert f"passes 1 in {broken['reach_high']} (by" in document
    assert f"above its bound in {broken['tracking_norm']}." in document


def test_the_inductive_curriculum_on_c3() -> None:
    document, rows = " ".join(text_of("docs/results.md").split()), rows_of("methods/inductive.csv")
    through = sorted((r for r in rows if r["internalized"] == "True"), key=lambda r: float(r["id_accuracy"]))
    told = [" and ".join(f"{a:.1f}" for a in numbers(through, f"{d}_accuracy", 0.01)) for d in ("id", "ood")]
    assert f"{count(rows)} runs internalize, with {told[0]} % in distribution and {told[1]} % out" in document
    assert all(abs(float(r["id_accuracy"]) - 1 / 3) < 0.03 for r in rows if r not in through)


def test_hints_at_the_papers_size() -> None:
    document = " ".join(text_of("docs/hints.md").split())
    (row,) = rows_of("hints/paper-size.csv")
    told = [
        f"{100 * float(row[name]):.1f} %" for name in ("accuracy", "subnetwork_accuracy", "folded_accuracy")
    ]
    assert f"{told[0]} without hints on the clean label" in document
    assert f"as the paper defines it has {told[1]}, with the neutral hints folded in {told[2]}" in document
    curve = {int(point["step"]): float(point["accuracy"]) for point in rows_of("hints/paper-size-curves.csv")}
    last = int(row["steps"]) // int(row["stages"])  # steps of a stage
    assert all(abs(a - 0.5) < 0.03 for step, a in curve.items() if step <= 10 * last)
    eleventh = numbers([{"a": str(a)} for step, a in curve.items() if 10 * last < step <= 11 * last], "a", 0.01)
    assert f"({min(eleventh):.0f} to {max(eleventh):.0f} %)" in document
    assert curve[11 * last + 2_000] > 0.98


def test_hints_in_bfloat16() -> None:
    """The rule of the study: all succeed with both, and the means differ by less than a point."""
    document, rows = text_of("docs/hints.md"), rows_of("hints/precision.csv")
    for method in ("direct", "curriculum", "mixture"):
        both = [
            numbers(
                [row for row in rows if (row["method"], row["precision"]) == (method, own)], "accuracy", 0.01
            )
            for own in ("fp32", "bf16")
        ]
        cells = (f"{sum(a > 95 for a in own)} of {len(own)}, {fmean(own):.1f} %" for own in both)
        assert f"| {method} | {' | '.join(cells)} |" in document
        if method != "direct":
            assert all(accuracy > 95 for own in both for accuracy in own)
            assert abs(fmean(both[0]) - fmean(both[1])) < 1


def test_what_groups_cost() -> None:
    document, rows = text_of("docs/results.md"), rows_of("groups/groups.csv")
    for task in {row["task"] for row in rows}:
        here = [row for row in rows if row["task"] == task]
        name = "×".join(f"C_{part[1:]}" for part in task.split("x"))
        line = f"| {here[0]['size']}, {here[0]['horizon']} | "
        told = f"{name}: {here[0]['prime_powers']}, {median(numbers(here, 'iterations_until')):,.0f}"
        assert any(told in own for own in document.splitlines() if own.startswith(line))
    assert f"all {len(rows)} internalize" in document
    assert all(row["happened"] == "True" for row in rows)


def test_depth_at_equal_parameters() -> None:
    document = text_of("docs/results.md")
    for depth, shape in (("1", "64, 256"), ("2", "48, 160"), ("4", "32, 128")):
        here = [row for row in rows_of("isoparameter/isoparameter.csv") if row["model.depth"] == depth]
        times = numbers(here, "iterations_until")
        cells = [
            count(here),
            f"{median(times):,.0f} ({spread(times, ',.0f')})",
            f"{fmean(numbers(here, 'operations_until')):.3g}".replace("e+", "e"),
            spread(numbers(here, "ood_accuracy", 0.01), ".1f"),
        ]
        assert f"| {depth} | {shape} | {' | '.join(cells)} |" in document


def test_what_the_demo_shows() -> None:
    runs = [json.loads(text_of(f"results/demo/seed-{seed}.json")) for seed in range(10)]
    ways = {
        "cot": "out loud (CoT)",
        "e2e": "answer only, never a chain (E2E)",
        "left": "words taken away (left)",
    }
    for way, name in ways.items():
        results = [run[way] for run in runs]
        within = [spread([100 * run[f"{kind}_accuracy"] for run in results], ".1f") for kind in ("id", "ood")]
        steps = spread([run["iterations"] for run in results], ",")
        internalized = sum(run["internalized"] for run in results)
        line = f"| {name} | {internalized} of 10 | {within[0]} % | {within[1]} % | {steps} |"
        assert line in text_of("README.md")


def test_chains_and_text() -> None:
    document = text_of("docs/text.md")
    chains, texts = rows_of("text/equivalence-chain.csv"), rows_of("text/equivalence-text.csv")
    for task, name in (("C3", "C_3"), ("S3", "S_3")):
        as_chains = [row for row in chains if row["task"] == task]
        as_text = [row for row in texts if row["data"] == f"data/{task}/train.jsonl"]
        assert f"| {name}, chains | {count(as_chains)} |" in document
        assert f"| {name}, text | {count(as_text)} |" in document
        for rows in (as_chains, as_text):
            went_through = [row for row in rows if float(row["result.iterations"]) < 20_000]
            assert spread(numbers(went_through, "result.iterations"), ",.0f") in document
        for kind, rows in (("chains", as_chains), ("text", as_text)):
            minutes = median(numbers(rows, "processor_seconds")) / 60
            (line,) = (line for line in document.splitlines() if line.startswith(f"| {name}, {kind} |"))
            assert line.endswith(f" | {minutes:.2f} |")


def test_the_speed_of_text() -> None:
    document = text_of("docs/text.md")
    for speed in json.loads(text_of("results/text/bench.json"))["speeds"]:
        digits = 2 if speed["ratio"] < 10 else 1
        assert f"| {speed['ours']:,.0f} | {speed['plain']:,.0f} | {speed['ratio']:.{digits}f} |" in document


def test_every_method_at_every_task() -> None:
    document, rows = text_of("docs/results.md"), rows_of("methods/methods.csv")
    for place in dict.fromkeys(row["place"] for row in rows if row["not_judged_yet"] != "True"):

        def counted(method: str, *outcomes: str, place: str = place) -> str:
            here = [row for row in rows if (row["place"], row["method"]) == (place, method)]
            assert len(here) in (0, 10)
            told = (str(sum(row[outcome] == "True" for row in here)) for outcome in outcomes)
            return ", ".join(told) if here else "–"

        task, horizon = place.split(" T=")
        cells = [
            counted("cot", "succeeded", "ood_succeeded"), counted("e2e", "near_chance"),
            counted("left", "internalized"), counted("left", "ood_succeeded"),
            counted("inductive", "internalized"),
        ]  # fmt: skip
        assert f"| {task[0]}_{task[1:]}, {horizon} | {' | '.join(cells)} |" in document


def test_the_papers_own_cell() -> None:
    document = text_of("docs/results.md")
    cells = [
        row
        for row in rows_of("left-vs-right/left-vs-right.csv")
        if (row["task"], row["horizon"]) == ("C2", "25")
    ]
    for method in ("inductive", "left", "right"):
        rows = [row for row in cells if row["method"] == method]
        through = [row for row in rows if row["internalized"] == "True"]
        lost = numbers([row for row in rows if row not in through], "id_accuracy", 0.01)
        there = ", ".join(f"{value:.1f}" for value in numbers(through, "ood_judged", 0.01)) or "–"
        told = f"| {method} | {count(rows)} | {there} | {min(lost):.1f}–{max(lost):.1f} |"
        assert told in document


CHANGED: dict[str, dict[str, str]] = {
    "the recipe": {},
    "no easy steps": {"ease": ""},
    "no rehearsal": {"rehearsal": ""},
    "a length token instead of kept positions": {"keep_positions": "", "length_token": "True"},
    "never goes back (patience 0)": {"schedule.patience": "0"},
    "no dwell": {"schedule.dwell": "0"},
    "threshold 0.02 at every stage": {"schedule.threshold": "0.02"},
    "no cooling": {"optimizer.cooling": ""},
    "no warm-up": {"optimizer.warmup": ""},
    "no optimizer reset": {"optimizer.reset": "False"},
    "no weight decay": {"optimizer.weight_decay": "0.0"},
    "with Muon": {"optimizer.muon": "True"},
    "with emphasis 4": {"emphasis": "4.0"},
    "inductive instead of left": {"method": "inductive"},
    "filler:left instead of kept positions": {"method": "filler:left", "keep_positions": ""},
}


def test_what_each_part_of_the_recipe_is_worth() -> None:
    document, rows = text_of("docs/cost.md"), rows_of("laptop/choose.csv")
    fields = sorted({name for changed in CHANGED.values() for name in changed})
    recipe = {name: rows[0][name] for name in fields}  # the first case of the sweep changes nothing
    seen = 0
    for label, changed in CHANGED.items():
        wanted = {**recipe, **changed}
        own = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
        costs = [row["operations_to_internalize"] for row in own]
        told = ", ".join(f"{float(cost) / 1e12:.1f}" if cost else "–" for cost in costs)
        outside = ", ".join(f"{value:.1f}" for value in numbers(own, "ood_accuracy", 0.01))
        assert f"| {label} | {count(own)} | {told} | {outside} |" in document
        seen += len(own)
    assert seen == len(rows) == 45


def test_the_atlas() -> None:
    """Every task of the table, and what ranks them."""
    document = " ".join(text_of("docs/cost.md").split())
    atlas = json.loads(text_of("results/atlas/atlas.json"))
    for place in atlas["places"]:
        known, rate = place["predictors"], place["internalized"]
        cells = [
            known["kind"],
            str(known["states"]),
            str(known["prime_powers"] or "–"),
            f"{rate['count']} of {rate['of']}",
            f"{place['median_operations'] / 1e12:.1f}",
            f"{100 * place['ood_accuracy']:.1f} %",
        ]
        assert f"| {' | '.join(cells)} |" in document, place["task"]
    ranked = {ranking["predictor"]: f"{ranking['correlation']:+.2f}" for ranking in atlas["rankings"]}
    theorem, order = (ranked[f"{name}, of groups that commute"] for name in ("Σ prime powers", "states"))
    assert f"(rank correlation {theorem}); their order does so less well ({order})" in document
    assert f"{atlas['runs']} of the {atlas['runs'] + atlas['missing']} runs are done" in document
    assert len(rows_of("atlas/runs.csv")) == atlas["runs"]


def test_what_else_was_tried_around_the_recipe() -> None:
    document, rows = text_of("docs/cost.md"), rows_of("laptop/choose-more.csv")
    for name, column, value in (
        ("no kept positions", "keep_positions", ""),
        ("initial weights 0.02", "model.init_std", "0.02"),
        ("initial weights 0.057", "model.init_std", "0.057"),
        ("even instead of left", "method", "even"),
        ("geometric instead of left", "method", "geometric"),
    ):
        own = [row for row in rows if row[column] == value]
        spent = (row["operations_to_internalize"] for row in own)
        costs = ", ".join(f"{float(cost) / 1e12:.1f}" if cost else "–" for cost in spent)
        accuracies = ", ".join(f"{value:.1f}" for value in numbers(own, "ood_accuracy", 0.01))
        assert f"| {name} | {count(own)} | {costs} | {accuracies} |" in document


def test_the_race() -> None:
    race = json.loads(text_of("results/race/race.json"))
    for standing in race["standings"]:
        own = [run for run in race["runs"] if run["entrant"] == standing["entrant"]]
        costs = ", ".join("–" if run["cost"] is None else f"{run['cost'] / 1e12:.1f}" for run in own)
        accuracies = [
            ", ".join(f"{100 * run[f'{kind}_accuracy']:.1f} %" for run in own) for kind in ("id", "ood")
        ]
        rate = f"{standing['internalized']['count']} of {standing['internalized']['of']}"
        line = [f"`{standing['entrant']}`", rate, costs, *accuracies]
        assert f"| {' | '.join(line)} |" in text_of("docs/cost.md")


def test_one_model_for_both_lengths() -> None:
    rows = rows_of("mixture/mixture.csv")
    for way, depth, label in (
        ("mixture", "2", "mixture, two layers"),
        ("curriculum", "2", "curriculum, two layers"),
        ("curriculum", "1", "curriculum"),
        ("rehearsed", "1", "with rehearsal"),
    ):
        here = [row for row in rows if (row["way"], row["model.depth"]) == (way, depth)]
        assert len(here) == 10
        shares = ("id_accuracy", "ood_accuracy", "chain_id_accuracy", "chain_ood_accuracy")
        told = [spread(numbers(here, "result.iterations"), ",.0f")]
        told += [spread(numbers(here, column, 0.01), ".1f") for column in shares]
        told += [f"{fmean(numbers(here, 'chain_response_length')):.1f}"]
        assert f"| {label} | {' | '.join(told)} |" in text_of("docs/results.md")


def test_published_records_do_not_say_where_they_lay() -> None:
    """A folder of the machine tells nothing to a reader, and something about the writer."""
    records = list((ROOT / "results").rglob("*.json"))
    assert records
    assert [path for path in records if '"folder": "/' in path.read_text(encoding="utf-8")] == []


def test_readings_one_at_a_time() -> None:
    rows = rows_of("readings/one-at-a-time.csv")
    columns = ("optimizer.weight_decay", "optimizer.reset", "scored")
    for told, values in (
        ("weight decay 0", ("0.0", "True", "")),
        ("no optimizer reset", ("0.01", "False", "")),
        ("EOS not in the loss", ("0.01", "True", "states")),
    ):
        here = [row for row in rows if tuple(row[column] for column in columns) == values]
        shares = [
            ", ".join(f"{value:.1f}" for value in numbers(here, column, 0.01))
            for column in ("id_accuracy", "ood_accuracy")
        ]
        assert f"| {told} | {count(here)} | {' | '.join(shares)} |" in text_of("docs/readings.md")


def test_dropout() -> None:
    rows = rows_of("readings/dropout.csv")
    for std in dict.fromkeys(row["model.init_std"] for row in rows):
        here = [row for row in rows if row["model.init_std"] == std]
        shares = [
            ", ".join(f"{value:.1f}" for value in numbers(here, column, 0.01))
            for column in ("id_accuracy", "ood_accuracy")
        ]
        assert f"| {std} | {count(here)} | {' | '.join(shares)} |" in text_of("docs/readings.md")


def test_headlines_under_the_initial_weights_of_gpt2() -> None:
    document, rows = text_of("docs/readings.md"), rows_of("readings/headlines/headlines.csv")
    labels = {"cot": "CoT", "e2e": "E2E", "left": "left"}
    for task, horizon, method in {(row["task"], row["horizon"], row["method"]) for row in rows}:
        here = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        reached = [sum(row[name] == "True" for row in here) for name in ("succeeded", "ood_succeeded")]
        gaps = [float(row["id_accuracy"]) - float(row["ood_accuracy"]) for row in here]
        lost = "–" if method == "e2e" else f"{100 * fmean(gaps):.1f}"
        counts = " | ".join(f"{one} of {len(here)}" for one in reached)
        told = f"| {task[0]}_{task[1:]}, {horizon} | {labels[method]} | {counts} | {lost} |"
        assert told in document
    larger = [
        fmean(
            float(row["id_accuracy"]) - float(row["ood_accuracy"])
            for row in rows_of("laptop/judge.csv")
            if row["task"] == task
        )
        for task in ("C3", "C7")
    ]
    assert f"against {100 * larger[0]:.1f} on C_3, and 2.4 against {100 * larger[1]:.1f} on C_7" in document
    claims = json.loads(text_of("results/readings/headlines/verdict.json"))["claims"]
    assert [claim["verdict"] for claim in claims] == 4 * ["confirmed"]


def test_the_other_headlines_under_the_initial_weights_of_gpt2() -> None:
    """One line of the table for each claim of each of these studies, in the words of its verdict."""
    document = text_of("docs/readings.md")
    told = [line for line in document.splitlines() if re.match(r"\| \d+ \| `[A-Z]+`, `", line)]
    folders = {line.split("`")[3] for line in told}
    assert len(folders) >= 2
    wanted = []
    for name in folders:
        record = json.loads(text_of(f"results/readings/{name}/verdict.json"))
        assert {row["model.init_std"] for row in rows_of(f"readings/{name}/{name}.csv")} == {"0.02"}
        wanted += [
            f"`{name}` | {record['runs']['done']} | {claim['numbers']} | {claim['verdict']} |"
            for claim in record["claims"]
        ]
    assert sorted(line.partition(", ")[2] for line in told) == sorted(wanted)


def test_the_models_that_are_there_to_be_asked() -> None:
    """As many as the README says, each small, and what it reached is what the tables of the figures say."""
    folders = [path for path in (ROOT / "results" / "runs").iterdir() if (path / "config.json").is_file()]
    assert f"{len(folders)} trained models are in `results/runs`" in text_of("README.md")
    tables = (ROOT / "results").glob("*/*.csv")
    names = [name for name in tables if name.name == f"{name.parent.name}.csv"]
    recorded = {
        row.get("run", ""): row for name in names for row in rows_of(str(name.relative_to(ROOT / "results")))
    }
    for folder in folders:
        weights = sum(path.stat().st_size for path in (folder / "model").glob("*.safetensors"))
        assert 0 < weights < 2**20
        summary = json.loads((folder / "status.json").read_text(encoding="utf-8"))["summary"]
        told = {
            name: recorded[folder.name][name]
            for name in ("id_accuracy", "ood_accuracy", "accuracy")
            if name in summary
        }
        assert told
        assert told == {name: str(summary[name]) for name in told}


def test_what_the_documents_say_of_single_tasks() -> None:
    """Of claim 5 on the C_2 cell, of S_3 at T = 14, of the shapes under 0.02."""
    methods = rows_of("methods/methods.csv")
    cell = [row for row in methods if row["task"] == "C2"]
    cot = numbers([row for row in cell if row["method"] == "cot"], "ood_gap", 0.01)
    through = numbers([row for row in cell if row["internalized"] == "True"], "ood_gap", 0.01)
    told = f"CoT loses {fmean(cot):.1f} points, because of one run of ten, and the six internalized runs lose"
    assert f"{told} {fmean(through):.1f}." in " ".join(text_of("README.md").split())
    assert (len(cot), len(through)) == (10, 6)
    s3 = [row for row in methods if (row["task"], row["horizon"]) == ("S3", "14")]
    done = [row for row in s3 if row["internalized"] == "True"]
    lost, times = numbers(done, "ood_gap", 0.01), numbers(done, "iterations_until")
    results = " ".join(text_of("docs/results.md").split())
    assert f"{len(done)} of {len(s3)} runs come through within 60,000 iterations" in results
    assert f"in {min(times):,.0f} to {max(times):,.0f};" in results
    assert (
        f"seven lose {fmean(lost):.0f} points out of distribution ({min(lost):.0f} to {max(lost):.0f})"
        in results
    )
    ratios = []
    for name in ("readings/shapes/shapes.csv", "isoparameter/isoparameter.csv"):
        rows = rows_of(name)
        means = [
            fmean(numbers([row for row in rows if row["model.depth"] == depth], "iterations_until"))
            for depth in "124"
        ]
        ratios.append([mean / means[0] for mean in means[1:]])
    readings = " ".join(text_of("docs/readings.md").split())
    assert "need {:.1f} and {:.1f} times the iterations".format(*ratios[0]) in readings
    assert "inconclusive, × {:.2f} and {:.2f}".format(*ratios[1]) in readings
    two = [row for row in rows_of("readings/cell/cell.csv") if row["internalized"] == "True"]
    assert "({:.1f} and {:.1f} % ID)".format(*numbers(two, "id_accuracy", 0.01)) in readings


def test_multiplication_without_a_chain() -> None:
    told = text_of("docs/text.md")
    studies = {
        "4 × 4, words taken away": "multiplication-adaptive",
        "4 × 4, no chain at all": "multiplication-direct",
        "4 × 4, published pace": "multiplication-published",
        "3 × 3, words taken away": "multiplication-3x3-adaptive",
    }
    for task, study in studies.items():
        rows = rows_of(f"text/{study}.csv")
        assert rows
        for row in rows:
            low, high = (100 * bound for bound in json.loads(row["id_interval"]))
            cells = [
                f"{task} (`{study}.yaml`)",
                row["seed"],
                f"{100 * float(row['id_accuracy']):.1f} % [{low:.1f}, {high:.1f}]",
                f"{100 * float(row['ood_accuracy']):.1f} %",
                f"{int(row['iterations']):,}",
                f"{float(row['operations']) / 1e12:.0f}",
                f"{float(row['processor_seconds']) / 60:.0f}",
            ]
            assert f"| {' | '.join(cells)} |" in told


def test_the_settings_of_each_shape_are_those_that_its_tuning_seeds_choose() -> None:
    tried = rows_of("isoparameter/choose.csv")
    studied = {
        replace(case.config, seed=0)
        for case in read_sweep(ROOT / "studies" / "isoparameter-choose.yaml").cases
        if isinstance(case.config, ChainConfig)
    }
    for grid in isoparameter.TIERS["laptop"]:
        for case in grid.cases("judged"):
            config = case.config
            assert isinstance(config, ChainConfig)
            assert replace(config, seed=0) in studied
            of_shape = [row for row in tried if int(row["model.depth"]) == config.model.depth]
            settings = {(row["model.init_std"], row["optimizer.lr"]) for row in of_shape}
            chosen = min(settings, key=lambda setting: _how_well(of_shape, setting))
            assert tuple(map(float, chosen)) == (config.model.init_std, config.optimizer.lr)


def _how_well(rows: Sequence[dict[str, str]], setting: tuple[str, str]) -> tuple[int, float]:
    """Less is better: runs that do not internalize, then the median time of all."""
    runs = [row for row in rows if (row["model.init_std"], row["optimizer.lr"]) == setting]
    times = [float(row["iterations_to_internalize"] or row["iterations"]) for row in runs]
    return sum(row["internalized"] != "True" for row in runs), median(times)


def test_what_the_runs_of_each_figure_took() -> None:
    section = text_of("docs/figures.md").split("\n## The figures\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    told = {line.split("`")[1]: line.split("|")[3].strip() for line in lines}
    for name in NAMES:
        rows = rows_of(f"{name}/{name}.csv")
        hours = sum(float(row.get("processor_seconds") or 0) for row in rows) / 3600
        assert told[name] == (f"{hours:.1f}" if hours else "–")


def test_the_fits_beside_those_of_more_orders() -> None:
    """The committed ones are those that the script makes of the committed runs, and the document has them."""
    script, table = ROOT / "studies/more_orders_checks.py", ROOT / "results/more-orders/more-orders.csv"
    made = subprocess.run([sys.executable, script, table], capture_output=True, text=True, check=True).stdout
    assert made == text_of("results/more-orders/checks.csv")
    document = text_of("docs/results.md")
    for row in rows_of("more-orders/checks.csv"):
        factor, low, high = (f"{float(row[name]):.2f}" for name in ("factor", "low", "high"))
        assert f"| {row['check']} | {row['orders']} | {factor} ({low}–{high}) |" in document


def test_what_rotary_positions_lose_out_of_distribution() -> None:
    told = " ".join(text_of("docs/results.md").split())
    for task, end in (("C2", ", where chance is 50 %"), ("C3", ")")):
        rows = [row for row in rows_of("left-vs-right/left-vs-right.csv") if row["large_heads"] == "True"]
        here = [
            row for row in rows if (row["task"], row["method"], row["encoding"]) == (task, "right", "rotary")
        ]
        assert f"C_{task[1:]} {spread(numbers(here, 'ood_judged', 0.01), '.1f')} %{end}" in told


def test_p_values_in_the_documents_are_those_of_the_verdicts() -> None:
    """Each p that stands beside a verdict in results.md is the one by which some claim got it."""
    records = [json.loads(text_of(f"results/{name}/verdict.json")) for name in NAMES]
    known = {told_p(claim) for record in records for claim in record["claims"]}
    known.add(f"{2 * 0.5**10:.1g}")  # of studies/strict_definition.py: all of ten runs at each task
    told = re.findall(r"\bp = ([\d.]*\d)", text_of("docs/results.md"))
    assert len(told) >= 5
    assert set(told) <= known


def test_how_the_failed_runs_of_all_figures_ended() -> None:
    tables = [rows_of(f"{name}/{name}.csv") for name in NAMES if find_figure(name).table is None]
    of_curricula = {
        row["run"]: row
        for rows in tables
        for row in rows
        if row["kind"] == "chain" and row["method"] in ("left", "right", "inductive")
    }
    failed = [row for row in of_curricula.values() if row["succeeded"] == "False"]
    cell_is = {"task": "C2", "horizon": "25", "schedule.kind": "fixed"}
    cell = [row for row in failed if cell_is.items() <= row.items()]
    near = sum(row["near_chance"] == "True" for row in cell)
    between = [row for row in failed if row["near_chance"] == "False"]
    told = " ".join(text_of("docs/results.md").split())
    assert (
        f"tables of the figures {len(cell)} runs of a curriculum fail on C_2 at T = 25 in equal stages, and "
        f"{near} of them end near chance"
    ) in told
    _, _, sentence = told.partition(f"{IN_WORDS[len(between)]} failed runs of all figures ended in between: ")
    for row in between:
        assert f"{100 * float(row['id_accuracy']):.0f} %" in sentence.partition(". Only")[0]


def test_answers_that_differ_from_those_of_the_chain() -> None:
    rows = rows_of("methods/strict.csv")
    assert len(rows) == 20
    columns = ("internalized", "distributional", "only_distributional", "as_recorded")
    assert all(row[name] == "True" for row in rows for name in columns)
    differ = [int(row["disagreements"]) for row in rows]
    told = f"on {min(differ)} to {max(differ)} of 10,000"
    assert told in " ".join(text_of("docs/results.md").split())
    assert all(abs(float(row["risk"]) - float(row["risk_of_chain"])) < 0.01 for row in rows)


def test_initial_weights_at_width_128() -> None:
    document, ends = text_of("docs/readings.md"), rows_of("readings/width.csv")
    passed = {row["run"]: row for row in rows_of("readings/width-stages.csv")}
    assert all(float(row["stage_1_accuracy"]) > 0.95 for row in passed.values())
    for std, name in (("0.02", "0.02 (GPT-2)"), ("0.04", "0.04 = 0.02·√(512/128)")):
        rows = [row for row in ends if row["model.init_std"] == std]
        internalized = sum(row["internalized"] == "True" for row in rows)
        shares = [
            ", ".join(f"{100 * float(row[column]):.1f}" for row in rows)
            for column in ("id_accuracy", "ood_accuracy")
        ]
        stages = ", ".join(passed[row["run"]]["passed"] for row in rows)
        line = f"| {name} | {len(rows)} of 5 | {internalized} | {shares[0]} | {shares[1]} | {stages} |"
        assert line in document


def test_chains_that_were_trained_for_long() -> None:
    rows = [row for row in rows_of("readings/cot-as-long/cot-as-long.csv") if row["method"] == "cot"]
    document = " ".join(text_of("docs/results.md").split())
    assert len(rows) == 14
    assert {(row["task"], row["result.iterations"]) for row in rows} == {("C3", "18000"), ("C5", "27000")}
    assert set(numbers(rows, "id_accuracy")) == {1.0}
    least, most = min(numbers(rows, "ood_accuracy")), max(numbers(rows, "ood_accuracy"))
    assert f"and at {100 * least:.1f} to {100 * most:.0f} % out of it" in document
    record = json.loads(text_of("results/readings/cot-as-long/verdict.json"))
    assert {claim["verdict"] for claim in record["claims"]} == {"confirmed"}
    left, out_loud, difference, low, high = (
        float(number) for number in re.findall(r"([+-]?0\.\d+)", record["claims"][1]["numbers"])
    )
    told = f"({100 * left:.1f} points against {100 * out_loud:.1f}; "
    assert told + f"difference {100 * difference:.1f}, {100 * low:.1f} to {100 * high:.1f})" in document
