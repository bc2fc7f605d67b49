"""The README's table and docs/claims.md say what the verdicts in results/ say, and every claim has its
place."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.figures.claim_tables import claims_document, headline_table, with_indices
from internalize.figures.figure import Figure
from internalize.figures.paper import NAMES, find_figure
from internalize.figures.recorded import recorded_runs
from internalize.figures.report import find_records, find_studies
from internalize.figures.results import read
from internalize.statistics import SUCCESS
from internalize.sweeps.recorded import run_name, table_rows

ROOT = Path(__file__).resolve().parents[2]
ABOUT_THEOREMS = ("construction-size", "parity-watch", "attention-parity")
PAPERS_OWN = "the paper's own"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_the_headline_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(ROOT / "results"), "--markdown"]) == 0
    table = capsys.readouterr().out.strip()
    assert table in README, "renew the README's table with: internalize report --markdown"
    words = Counter(line.rsplit("**", 2)[1] for line in table.splitlines()[2:])
    of = f"Of {words.total()} headline claims {words['confirmed']} are confirmed here, "
    assert (
        f"{of}{words['inconclusive']} are inconclusive, and {words['contradicted']} are contradicted." in README
    )


def test_the_readme_counts_all_claims_too() -> None:
    (counts,) = re.findall(r"verdicts in `results/`: (.*)\.", claims_document(find_records(ROOT / "results")))
    assert f"All claims together ([docs/claims.md](docs/claims.md)): {counts}." in " ".join(README.split())


def test_the_readme_counts_the_studies() -> None:
    studies = find_studies(ROOT / "results")
    (counts,) = re.findall(
        r"in `studies/`: (.*)\. They", claims_document(find_records(ROOT / "results"), studies)
    )
    of_all = sum(len(record["claims"]) for record, _ in studies)
    assert f"Studies beside the figures judge {of_all} more claims ({counts})." in " ".join(README.split())


def test_the_readme_says_which_confirmed_claims_are_about_training() -> None:
    verdicts = {name: json.loads((ROOT / f"results/{name}/verdict.json").read_text("utf-8")) for name in NAMES}
    confirmed = [
        (name in ABOUT_THEOREMS, claim["scale"])
        for name, record in verdicts.items()
        for claim in record["claims"]
        if claim["verdict"] == "confirmed" and claim["scale"] != "toy"
    ]
    training = [scale for theorem, scale in confirmed if not theorem]
    assert (
        f"Of the {len(confirmed)} confirmed claims {len(confirmed) - len(training)} are about theorems and "
        f"constructions, and {len(training)} about training. Of these {len(training)} only "
        f"{training.count(PAPERS_OWN)} are at the paper's own scale, all on C_2."
    ) in " ".join(README.split())


def test_the_readme_says_whose_sentences_are_confirmed() -> None:
    confirmed = [
        claim
        for name in NAMES
        for claim in json.loads((ROOT / f"results/{name}/verdict.json").read_text("utf-8"))["claims"]
        if claim["verdict"] == "confirmed" and claim["scale"] != "toy"
    ]
    ours, late = (sum(bool(claim[name]) for claim in confirmed) for name in ("ours", "seen"))
    assert (
        f"{len(confirmed) - ours} of the {len(confirmed)} confirmed are sentences of the paper, and {ours} say "
        f"what it does not; {late} of them were added or changed when runs of theirs had been seen, and say so."
    ) in " ".join(README.split())


def test_what_a_way_to_measure_changed_is_told_as_the_table_has_it() -> None:
    """Out of distribution on the C_2 cell: on held-out inputs alone, and on all."""
    runs = [row for row in table_rows(ROOT / "results/scatter/scatter.csv") if row["task"] == "C2"]
    came = [row for row in runs if row["succeeded"]]
    fail = [sum(row[name] <= SUCCESS for row in came) for name in ("ood_accuracy", "ood_judged")]
    told = " ".join((ROOT / "docs" / "figures.md").read_text(encoding="utf-8").split())
    assert f"went from {fail[0]} to {fail[1]} of {len(came)} runs, from confirmed to *inconclusive*" in told


def test_the_document_of_claims_is_the_one_that_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(ROOT / "results"), "--claims"]) == 0
    written = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == written, "renew: internalize report --claims > docs/claims.md"


def test_every_claim_of_every_figure_has_a_verdict_on_record() -> None:
    """Made or planned; and as fixed now, not as it was when the record was written."""
    records = {
        record["figure"]: record for record, _ in find_records(ROOT / "results") if record["tier"] == "laptop"
    }
    for name in NAMES:
        claims = find_figure(name).claims
        recorded = {claim["claim"]: claim for claim in records[name]["claims"]}
        assert list(recorded) == [claim.name for claim in claims], (
            f"renew: internalize figure {name} --no-train"
        )
        for claim in claims:
            found = recorded[claim.name]
            now = (claim.sentence, claim.test.method, claim.headline)
            assert (found["sentence"], found["method"], found["headline"]) == now


@pytest.mark.parametrize("name", [name for name in NAMES if find_figure(name).table is None])
def test_committed_verdicts_are_those_of_the_committed_tables(name: str, tmp_path: Path) -> None:
    """As the code judges them now: numbers, verdicts, and the scale of every run."""
    figure, results = find_figure(name), ROOT / "results"
    made = read(figure, "laptop", tmp_path, recorded_runs(results, figure))
    judged = [judgement.to_json() for judgement in made.judgements]
    record = json.loads((results / name / "verdict.json").read_text(encoding="utf-8"))
    for now, committed in zip(judged, record["claims"], strict=True):
        assert _comparable(now) == _comparable(committed), f"renew: internalize figure {name} --no-train"
    scales = {row["run"]: row["scale"] for row in table_rows(results / name / f"{name}.csv")}
    assert {row["run"]: row["scale"] for row in made.material.rows}.items() <= scales.items()
    later = {run_name(case) for case in made.sweep.cases} - {
        run_name(case) for case in figure.sweep("laptop").cases
    }
    told = record["runs"].get("waiting", [])
    assert sum(one["runs"] for one in told) == len(later - set(scales)), "what is planned is in docs/claims.md"


def studies(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures that scripts in studies/ define, by their names."""
    found: dict[str, Figure] = {}
    for path in sorted((ROOT / "studies").glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        found |= {value.name: value for value in vars(module).values() if isinstance(value, Figure)}
    return found


def test_committed_verdicts_of_studies_are_those_of_their_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined, judged = studies(monkeypatch), 0
    for record, folder in find_studies(ROOT / "results"):
        if record["figure"] in defined:
            figure = defined[record["figure"]]
            made = read(figure, "laptop", tmp_path, recorded_runs(folder.parent, figure))
            now = [_comparable(judgement.to_json()) for judgement in made.judgements]
            assert now == [_comparable(claim) for claim in record["claims"]], f"renew {folder}"
            judged += 1
    assert judged == len(list((ROOT / "results" / "readings").glob("*/verdict.json")))


def _comparable(claim: dict[str, Any]) -> object:
    """To nine digits: the last ones of a regression, and what a plan costs, are those of a machine."""
    told = {**claim, "numbers": "its cost"} if claim["verdict"] == "planned" else claim
    return json.loads(json.dumps(told), parse_float=lambda digits: f"{float(digits):.9g}")


def test_a_dozen_headlines_none_of_them_by_a_toy() -> None:
    records = find_records(ROOT / "results")
    headlines = [claim for name in NAMES for claim in find_figure(name).claims if claim.headline]
    assert 12 <= len(headlines) <= 15
    lines = headline_table(records).splitlines()[2:]
    assert len(lines) == len(headlines)
    assert all(" toy " not in line for line in lines)
    document = claims_document(records)
    assert all(with_indices(claim.sentence) in document for name in NAMES for claim in find_figure(name).claims)


def test_toys_support_no_headline() -> None:
    """The same claim, confirmed on toys alone, is shown as planned; with a larger run it is shown as found."""

    def record(tier: str, scale: str, verdict: str) -> dict[str, object]:
        claim = {
            "claim": "a",
            "sentence": "A.",
            "headline": True,
            "scale": scale,
            "numbers": tier,
            "verdict": verdict,
        }
        return {"figure": "heads", "tier": tier, "claims": [claim]}

    toy = (record("laptop", "toy", "confirmed"), Path())
    assert headline_table([toy]).splitlines()[-1] == "| 1 | A. | – | so far a toy only | **planned** |"
    paper = (record("paper", "the paper's own", "contradicted"), Path())
    assert "| the paper's own | paper | **contradicted** |" in headline_table([paper, toy])
