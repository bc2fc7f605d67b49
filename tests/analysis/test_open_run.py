"""Runs in a notebook and at the command line: what they answer, and of which weights that is said."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import internalize
from internalize import BadInput, ChainConfig, EvaluationConfig, Execution, ModelConfig, Run, open_run, train
from internalize.analysis.open_run import OpenChain, open_chain
from internalize.cli import main
from internalize.runtime.kind import Streams
from internalize.tasks.parity import all_bits
from tests.measure.test_generation import naive

ROTARY = ChainConfig(
    task="C3",
    horizon=4,
    method="left",
    iterations=8,
    batch=8,
    model=ModelConfig(depth=1, width=16, heads=4, positions="rotary"),
    evaluation=EvaluationConfig(every=10_000, samples=10, final_samples=20),
)
"""Hardly trained: only what it reads matters here."""
GOLDEN = Path(__file__).parent.parent / "golden" / "runs"


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """C3, T = 4, stopped in stage 2 of 4: the weights of stage 1 are there."""
    folder = next(GOLDEN.glob("C3-*"))
    return Path(shutil.copytree(folder, tmp_path / folder.name))


@pytest.fixture(scope="module")
def rotary(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(ROTARY, Execution(out=tmp_path_factory.mktemp("rotary"), quiet=True))


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_everything_public_is_listed_and_there() -> None:
    listed = dir(internalize)
    assert set(internalize.__all__) == set(listed)
    names = {"__version__", "train", "open_run", "BadInput", "Curriculum", "semiautomaton"}
    kinds = {"ChainConfig", "HintsConfig", "ParityConfig", "SelfPlayConfig"}
    assert names | kinds <= set(listed)
    for name in listed:
        assert getattr(internalize, name) is not None


def test_a_run_answers_in_python(internalized: Run) -> None:
    run = open_run(internalized.path)
    found = run.answer("1 0 1 1")
    assert (found.final, found.right, found.truth) == ("1", True, ("1", "1", "0", "1"))
    assert (found.states, found.text) == (("1",), "q:1 EOS")
    assert found == run.answer("1011") == run.answer("1,0,1,1") == run.answer([1, 0, 1, 1])
    assert found == run.answer(["1", "0", "1", "1"])
    chain = run.answer("1 0 1 1", stage=1)
    assert chain.states == ("1", "1", "0", "1")
    assert str(chain.moment) == "stage 1 of 4"
    assert run.answer("1 0 1 1", budget=3, stage=1).states == ("1", "1")
    assert not run.answer("1 0 1 0", budget=3, stage=1).right
    assert run.stages == [1, 2, 3, 4]
    assert run.config.horizon == 4
    assert run.metrics.where(event="evaluation").rows == internalized.metrics("evaluation").rows
    for wrong in ("1 0 2 1", "1 0 x 1", [1, 0, 7, 1], "1 0", "", [True, 0, 1, 1]):
        with pytest.raises(BadInput, match=r"^inputs: "):
            run.answer(wrong)


ABSOLUTE = replace(ROTARY, model=replace(ROTARY.model, positions="absolute"), iterations=400)


@pytest.mark.parametrize(
    "config",
    [
        replace(ABSOLUTE, length_token=True),
        replace(ABSOLUTE, answer_positions="end"),
        replace(ABSOLUTE, scored="states"),
    ],
    ids=["length token", "positions from the end", "no EOS"],
)
def test_a_stage_is_asked_as_it_was_measured(config: ChainConfig, tmp_path: Path) -> None:
    """Opened at the end of a stage, a run answers as it did when training measured it there."""
    run = open_chain(train(config, Execution(out=tmp_path, quiet=True)).path, "cpu")
    symbols = run.draw(run.experiment.inputs, 50, 0, "test").symbols
    for stage in run.stages:
        state = run.experiment.init(Streams(0, run.experiment.device))
        state.model.load(run.run.weights(stage), "run")
        state.progress = replace(state.progress, stage=stage)
        budget = len(run.own_shown(stage)) + 1 if config.length_token else None
        measured = run.experiment.predictor(state, budget).generate(symbols)
        assert torch.equal(run.predictor(stage=stage).generate(symbols), measured)


def test_what_is_inside_belongs_to_the_answer(internalized: Run) -> None:
    run = open_run(internalized.path, "cpu")
    found, model = run.activations("1 0 1 1", stage=1), run.model(1)
    text = run.answer("1 0 1 1", stage=1)
    names = open_run(internalized.path, "cpu").experiment.renderer.vocabulary.tokens()
    tokens = [names.index(word) for word in f"{text.prompt} {text.text}".split()][:-1]
    with torch.no_grad():
        torch.testing.assert_close(found["logits"], model(torch.tensor([tokens]))[0][0])
    attention, hidden = run.attention("1 0 1 1", stage=1), run.hidden_states("1 0 1 1", stage=1)
    assert [pattern.shape for pattern in attention] == [(16, 9, 9)]
    assert [stream.shape for stream in hidden] == [(9, 32)] * 2
    assert torch.equal(hidden[1], found["residual.1"])


def test_runs_on_bits_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(GOLDEN.glob("parity-*"))
    run = open_run(folder)
    assert (run.status, run.config.d, run.stages) == ("done", 8, [1, 2, 3])
    assert len(run.metrics) > 0
    support = run.summary()["support"]
    for x in ("1 0 1 1 0 0 1 0", "11111111", [0, 1, 0, 1, 1, 1, 0, 0]):
        bits = [int(bit) for bit in x if bit != " "]
        chain = [sum(bits[i - 1] for i in support[:t]) % 2 for t in (1, 2, 3)]
        assert run.answer(x).right
        assert run.answer(x).final == str(chain[-1])
        assert run.answer(x, budget=3).states == run.answer(x).truth == tuple(map(str, chain))
        for phase in (1, 2):  # the direct answer after phase t is z_t
            assert run.answer(x, stage=phase).right
            assert run.answer(x, stage=phase).final == str(chain[phase - 1])
        assert run.answer(x, budget=2).truth == tuple(map(str, chain[:2]))
    assert "1  right" in said(
        capsys, "ask", folder, " ".join("1" if i in support else "0" for i in range(1, 9))
    )
    for wrong, field in (("1 0 1", "inputs"), ("1 0 1 1 0 0 1 2", "inputs")):
        with pytest.raises(BadInput, match=f"{field}: must "):
            run.answer(wrong)
    with pytest.raises(BadInput, match="of the kind parity: it cannot be looked into"):
        run.attention("1 0 1 1 0 0 1 0")
    hints = open_run(next(GOLDEN.glob("hints-parity-*")))
    inputs = torch.cat(list(all_bits(8)))[::37]
    found = [hints.answer(x, budget=1, stage=1) for x in inputs.tolist()]
    assert sum(answer.right for answer in found) == int(
        (hints.predictor(1, 1).answer(inputs).output == hints.experiment.task.circuit.evaluate(inputs)[1]).sum()
    )


def test_other_kinds_say_what_they_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    folder = next(GOLDEN.glob("selfplay-*"))
    assert open_run(folder).status == "done"
    assert main(["ask", str(folder), "1 0 1"]) == 2
    assert "of the kind selfplay: it cannot answer symbols" in capsys.readouterr().err


def test_ask_says_what_it_asked(
    internalized: Run, interrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "ask", internalized.path, "1 1 0 1")
    assert text.splitlines()[0].split() == ["1", "right"]
    assert text.rstrip().endswith("stage 4 of 4")
    found = json.loads(said(capsys, "ask", internalized.path, "1 1 0 1", "--stage", "1", "--json"))
    assert (found["final"], found["states"], found["stage"], found["status"]) == (
        "1",
        ["1", "0", "0", "1"],
        1,
        "done",
    )
    assert "stage 1 of 4, run interrupted" in said(capsys, "ask", interrupted, "2 1 0 1")


def test_a_measurement_of_an_unfinished_run_says_so(
    interrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = {"stage": 1, "stages": 4, "status": "interrupted"}
    few = ["--samples", "40"]
    assert "stage 1 of 4, run interrupted" in " ".join(said(capsys, "evaluate", interrupted, *few).split())
    for words in (["evaluate", interrupted, *few], ["profile", interrupted, *few, "--points", "2"]):
        found = json.loads(said(capsys, *words, "--json"))
        assert {key: found[key] for key in moment} == moment
    (shown,) = json.loads(said(capsys, "show", interrupted, "--examples", "1", "--json"))
    assert {key: shown[key] for key in moment} == moment
    found = json.loads(said(capsys, "probe", interrupted, *few, "--json"))
    assert {key: found[key] for key in moment} == moment
    found = json.loads(said(capsys, "matrix", interrupted, *few, "--json"))
    assert (found["stages"], found["status"]) == ([1], "interrupted")
    assert main(["check", str(interrupted), "--against", f"{interrupted}@1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fast_weights"] == found["slow_weights"] == moment
    assert found["verdict"] == "not internalized strictly"


def test_a_killed_run_is_interrupted_whatever_it_says(interrupted: Path) -> None:
    status = json.loads((interrupted / "status.json").read_text())
    (interrupted / "status.json").write_text(json.dumps({**status, "state": "running"}))
    assert open_run(interrupted).status == "interrupted"


def test_the_diagnosis_of_an_interrupted_run_says_resume(
    interrupted: Path, internalized: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = json.loads(said(capsys, "diagnose", interrupted, "--samples", "50", "--json"))
    assert found["headline"].startswith("The run was interrupted and can be resumed.")
    assert found["suggestions"][0]["try"] == f"internalize resume {interrupted}"
    assert (found["status"], found["stage"], found["strict_definition"]) == ("interrupted", 2, None)
    words = ["diagnose", internalized.path, "--samples", "50", "--out", tmp_path / "out"]
    assert "strict definition asks for more" in " ".join(said(capsys, *words).split())
    found = json.loads(said(capsys, *words, "--json"))
    asked = found["strict_definition"].removeprefix("internalize ").split()
    assert "internalizes strictly" in said(capsys, *asked)


def test_longer_inputs_where_positions_allow_it(
    rotary: Run, internalized: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", rotary.path, "--horizon", "7", "--samples", "30", "--inputs", "uniform", "--seed", "3"]
    found = json.loads(said(capsys, *words, "--json"))
    assert (found["horizon"], found["trained_horizon"], found["stage"]) == (7, 4, 4)
    assert "T = 7 (trained on 4)" in " ".join(said(capsys, *words).split())
    opened = open_run(rotary.path, "cpu")
    assert isinstance(opened, OpenChain)
    longer = opened.at_horizon(7)
    assert longer.own_shown(4) == (7,)
    symbols = torch.randint(3, (20, 7), generator=torch.Generator().manual_seed(0))
    renderer = longer.experiment.renderer
    expected = naive(longer.model(), renderer.prompt(symbols), renderer.vocabulary.eos, 9, None)
    answers = longer.answers(symbols, longer.predictor(), longer.moment())
    names = renderer.vocabulary.tokens()
    assert [a.text for a in answers] == [" ".join(names[token] for token in row) for row in expected]
    assert opened.answer("0 1 2 0 1 2 2").truth[-1] == "2"
    mixture = train(replace(ROTARY, method="mixture"), Execution(out=tmp_path, quiet=True))
    for run, why in ((internalized, "absolute positions"), (mixture, "a token for each length")):
        assert main(["evaluate", str(run.path), "--horizon", "20"]) == 2
        complaint = capsys.readouterr().err
        assert complaint.startswith("internalize: horizon: must be 4")
        assert why in complaint
