"""The commands as a user types them: files, JSON, exit codes, one line for what is wrong."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest
from torch import Tensor

from internalize.analysis.check import choose_inputs, find_predictor
from internalize.analysis.open_run import OpenChain
from internalize.cli import main
from internalize.measure.predictor import Prediction, TransformerPredictor


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_matrix_writes_what_it_prints(
    chain: OpenChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["matrix", str(chain.run.path), "--samples", "20", "--stages", "1", "4", "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    found = said(capsys)
    assert found["stages"] == [1, 4]
    assert names(tmp_path) == {"matrix.png", "matrix.svg", "matrix.csv", "matrix.json"}
    assert json.loads((tmp_path / "matrix.json").read_text()) == found
    with (tmp_path / "matrix.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = found["cells"]
    assert isinstance(cells, list)
    assert [float(row["accuracy"]) for row in rows] == [cell["accuracy"] for cell in cells]
    assert main(words) == 0
    assert "serves" in capsys.readouterr().out


def test_profile_probe_and_audit(
    chain: OpenChain, mixture: OpenChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = str(chain.run.path), ["--out", str(tmp_path)]
    assert main(["profile", run, "--samples", "30", "--points", "3", *out]) == 0
    assert main(["probe", run, "--samples", "60", *out]) == 0
    assert main(["audit", str(mixture.run.path), "--samples", "30", *out]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "rarest first" in printed
    assert "before it is" in printed
    assert "contradictory" in printed
    pictures = {f"{stem}.{kind}" for stem in ("profile", "probe", "probe-layers", "lens", "attention", "heads")
                for kind in ("png", "svg")}  # fmt: skip
    data = {f"{stem}.{kind}" for stem in ("profile", "probe", "audit") for kind in ("csv", "json")}
    assert names(tmp_path) == pictures | data


def test_check_says_which_clause_failed(chain: OpenChain, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(chain.run.path)
    assert main(["check", run, "--against", f"{run}@1", "--json"]) == 0
    found = said(capsys)
    assert (found["holds"], found["exhaustive"], found["inputs"]) == (True, True, 16)
    assert main(["check", run, "--against", run, "--json"]) == 1
    assert said(capsys)["failed"] == ["different_weights", "faster"]
    assert main(["check", f"{run}@1", "--against", f"{run}:2", "--json"]) == 1
    assert said(capsys)["failed"] == ["faster"]  # the same answers, the wrong way round
    assert main(["check", f"{run}@2:3", "--against", f"{run}@1", "--json"]) == 1
    assert said(capsys)["failed"] == ["agreement"]  # stopped before q_4
    assert main(["check", run, "--against", f"{run}@1", "--epsilon", "0.01"]) == 0
    assert "internalizes up to ε = 0.01 on uniform" in capsys.readouterr().out
    words = ["--inputs", "binomial:0.8", "--samples", "50"]
    assert main(["check", run, "--against", f"{run}@1", *words, "--json"]) == 0
    found = said(capsys)
    assert (found["exhaustive"], found["inputs"], found["distribution"]) == (False, 50, "binomial:0.8")


def test_the_seconds_of_a_check_are_those_of_answers_alone(
    chain: OpenChain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a model's first answer has to get ready, here a fifth of a second, is no part of them."""
    inner, ready = TransformerPredictor.answer, set()

    def slow_at_first(self: TransformerPredictor, inputs: Tensor) -> Prediction:
        if id(self) not in ready:
            ready.add(id(self))
            time.sleep(0.2)
        return inner(self, inputs)

    monkeypatch.setattr(TransformerPredictor, "answer", slow_at_first)
    run = str(chain.run.path)
    assert main(["check", run, "--against", f"{run}@1", "--samples", "5", "--json"]) == 0
    found = said(capsys)
    assert len(ready) == 2
    for name in ("fast_seconds", "slow_seconds"):
        assert 0 < float(str(found[name])) < 0.2


def test_a_mixture_model_is_refused_against_its_own_chain(
    mixture: OpenChain, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(mixture.run.path)
    assert main(["check", f"{run}:2", "--against", f"{run}:4", "--json"]) == 1
    assert said(capsys)["failed"] == ["different_weights"]


def test_inputs_are_enumerated_weighted_or_drawn(chain: OpenChain) -> None:
    everything = choose_inputs(chain, None, None, 0)
    rows = [tuple(row) for batch in everything.batches() for row in batch.tolist()]
    assert len(set(rows)) == len(rows) == 16
    weighted = choose_inputs(chain, "binomial:0.8", None, 0, weighted=True)
    assert sum(float(weighted.probability(batch).sum()) for batch in weighted.batches()) == pytest.approx(1)
    assert not choose_inputs(chain, "binomial:0.8", None, 0).exhaustive  # what is asked for is a distribution
    drawn = choose_inputs(chain, None, 5_000, 0)
    assert not drawn.exhaustive
    assert [len(batch) for batch in drawn.batches()] == [4_096, 904]
    named = find_predictor(f"{chain.run.path}@2:3", "cpu", "fast")
    assert named.predictor.weights_digest == chain.predictor(stage=2).weights_digest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["matrix", "RUN", "--stages", "9"], "stages: kept are the stages [1, 2, 3, 4], not [9]"),
        (["matrix", "RUN", "--samples", "0"], "samples: must be at least 1"),
        (["matrix", "RUN", "--samples", "1000000000000"], "samples: 1,000,000,000,000 sequences of 4 symbols"),
        (["check", "RUN", "--against", "RUN@1", "--samples", "1000000000000"], "samples: must lie in 1…"),
        (["profile", "RUN", "--points", "1000000000"], "points: must be at most 10,000"),
        (["matrix", "RUN", "--samples", "5", "--stages", "1", "--out", "/dev/null/x"], "out: cannot write to"),
        (["matrix", "nowhere"], "run: nowhere is not a run folder"),
        (["profile", "RUN", "--points", "1"], "points: must be at least 2"),
        (["profile", "RUN", "--stage", "7"], "stage: kept are the stages [1, 2, 3, 4], not 7"),
        (["audit", "RUN"], "no length tokens to audit"),
        (["probe", "RUN", "--samples", "2"], "samples: probes need at least 30 inputs"),
        (["probe", "RUN", "--budget", "4"], "budget: stage 4 trained answers of [2] tokens"),
        (["diagnose", "RUN", "--samples", "0"], "samples: must be at least 1"),
        (["check", "RUN", "--against", "RUN@9"], "against: kept are the stages [1, 2, 3, 4], not 9"),
        (["check", "RUN:99", "--against", "RUN@1"], "fast: a budget lies in 2…5"),
        (["check", "RUN", "--against", "RUN@1", "--epsilon", "-1"], "epsilon: must be more than 0"),
        (["check", "RUN", "--against", "RUN@1", "--inputs", "all", "--samples", "5"], "samples: all inputs"),
        (["check", "RUN", "--against", "RUN@1", "--inputs", "gaussian"], "inputs: must be uniform"),
        (["check", "RUN", "--against", "MIXTURE"], "against: the two runs are of different tasks"),
        (["check", "RUN"], "--against"),
    ],
)
def test_what_is_wrong_takes_one_line(
    chain: OpenChain,
    mixture: OpenChain,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"RUN": str(chain.run.path), "MIXTURE": str(mixture.run.path)}
    for name, path in places.items():
        words = [word.replace(name, path) for word in words]
    assert main(words) == 2
    complaint = capsys.readouterr().err.strip()
    assert message in complaint
    assert complaint.startswith("internalize: ")
    assert "\n" not in complaint
