"""Hostile and damaged run folders × commands that read runs: a clear end, the other runs, true numbers."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.children import Children, Outcome
from tests.hostile.folders import ATTACKS, DAMAGES
from tests.hostile.laboratory import WHOLE

OPENING = [
    "runs show RUN", "evaluate RUN --samples 20", "show RUN --examples 2", "ask RUN 1,0,1",
    "matrix RUN --samples 10",
    "profile RUN --samples 10 --points 2", "audit RUN --samples 10", "check RUN --against RUN@1 --samples 10",
    "probe RUN --samples 40", "patch RUN --samples 4", "diagnose RUN --samples 10", "explore RUN",
    "resume RUN --quiet",
    "runs verify RUN", "construct --order 2 --horizon 3 --samples 10 --against RUN", "hints draw RUN",
    "runs trust RUN",
    "selfplay draw RUN", "runs compare RUN RUN",
]  # fmt: skip
LISTING = [
    "runs", "runs --json", "runs --rebuild", "runs export --csv -", "runs compare runs runs", "doctor",
    "figures",
    "runs page --page page.html", "runs verify", "runs verify --rebuild", "runs export --public",
    "collect sweep.json",
    "atlas sweep.json", "report --page report.html", "figure construction-size --no-train --tier smoke",
    "runs prune --status damaged", "runs prune --status damaged --yes",
]  # fmt: skip


def runs_of(lab: Path) -> list[str]:
    return sorted(path.name for path in (lab / "runs").iterdir() if (path / "config.json").exists())


def many_hostile(lab: Path, count: int, seed: int) -> list[str]:
    """Put so many hostile folders beside the good runs, each a copy of one of them that was then attacked."""
    names = []
    good = runs_of(lab)
    for i in range(count):
        chance = random.Random(f"{seed}/{i}")
        name = f"hostile{i:04d}-{chance.choice(good)}"
        shutil.copytree(lab / "runs" / name.partition("-")[2], lab / "runs" / name)
        ATTACKS[i % len(ATTACKS)](lab / "runs" / name, chance)
        names.append(name)
    return names


def check_listing(lab: Path, good: list[str], children: Children) -> None:
    """Every command over all folders ends well, and the good runs are listed with their numbers as ever."""

    def listed() -> dict[str, dict[str, object]]:
        rows = json.loads(children.run(["runs", "--json"], lab, patience=60).out)
        return {row["path"]: row for row in rows if row["path"] in good}

    for index in lab.glob("runs/.index*"):
        index.unlink()
    before = listed()
    assert sorted(before) == good
    for line in LISTING:
        ended = children.run(line.split(), lab, patience=60)
        assert ended.complaint(60) is None
        if "--rebuild" in line or "--yes" in line:  # it changed something, or should have
            assert listed() == before, line
    assert listed() == before


@pytest.fixture
def attacked(fresh: Callable[[], Path]) -> Path:
    return fresh()


def test_a_hundred_hostile_folders_hide_nothing(attacked: Path, children: Children) -> None:
    good = runs_of(attacked)
    many_hostile(attacked, 100, seed=0)
    check_listing(attacked, good, children)


def test_hostile_folders_opened(attacked: Path, children: Children) -> None:
    """By every command once."""
    for line, name in zip(OPENING, many_hostile(attacked, len(OPENING), seed=1), strict=True):
        words = line.replace("RUN", f"runs/{name}").split()
        assert children.run(words, attacked, patience=15).complaint() is None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_hostile_folders(part: int, fresh: Callable[[], Path], children: Children) -> None:
    lab = fresh()
    good = runs_of(lab)
    names = many_hostile(lab, 100, seed=100 + part)
    complaints = []
    for i, name in enumerate(names):
        for turn in range(4):
            words = OPENING[(i + 5 * turn + part) % len(OPENING)].replace("RUN", f"runs/{name}").split()
            complaint = children.run(words, lab, patience=15).complaint()
            if complaint is not None:  # told at once: the whole takes long
                print(f"{ATTACKS[i % len(ATTACKS)].__name__}: {complaint}", flush=True)
                complaints.append(complaint)
    check_listing(lab, good, children)
    assert complaints == []


TELLING = ["runs --json", "runs show RUN --json", "runs export --csv -",
           "runs compare RUN RUN --metric id_accuracy",
           "evaluate RUN --samples 50 --json", "show RUN --examples 3 --json",
           "evaluate RUN --stage 1 --samples 50 --json"]  # fmt: skip
"""Commands that say numbers of a run."""


def check_truth(lab: Path, seed: int, turns: int, fresh: Callable[[], Path], children: Children) -> None:
    """Damage of a finished run is told (exit code, warning or word), or what is said is as ever."""
    run = next(lab.glob(WHOLE)).relative_to(lab)
    truth: dict[str, Outcome] = {}
    for turn in range(turns):
        chance = random.Random(f"damage/{seed}/{turn}")
        damaged = fresh()
        damage = DAMAGES[turn % len(DAMAGES)]
        damage(damaged / run, chance)
        for line in chance.sample(TELLING, 2):
            words = line.replace("RUN", str(run)).split()
            if line not in truth:
                truth[line] = children.run(words, lab, patience=30)
                assert truth[line].code == 0, truth[line].err
            ended = children.run(words, damaged, patience=30)
            assert ended.complaint() is None
            told = ended.code != 0 or "damaged" in ended.out + ended.err or "warning: " in ended.err
            assert told or ended.out == truth[line].out, f"{damage.__name__}, {seed}/{turn}: {words}"


@pytest.mark.parametrize("seed", range(1))
def test_damage_is_told_or_without_effect(
    seed: int, laboratory: Path, fresh: Callable[[], Path], children: Children
) -> None:
    check_truth(laboratory, seed, 2 * len(DAMAGES), fresh, children)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_much_damage_is_told_or_without_effect(
    seed: int, laboratory: Path, fresh: Callable[[], Path], children: Children
) -> None:
    check_truth(laboratory, seed, 70, fresh, children)
