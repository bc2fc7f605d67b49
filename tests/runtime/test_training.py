"""From a config to a finished run: really trained, twice the same, and complete without its sources."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import internalize
from internalize import (
    ChainConfig,
    EvaluationConfig,
    Execution,
    ModelConfig,
    OptimizerConfig,
    Run,
    ScheduleConfig,
    train,
)
from internalize.analysis.open_run import open_chain
from internalize.cli import main
from internalize.errors import BadInput
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.runtime import execution
from internalize.runtime.execution import keeps_stage, resolve_device, surroundings
from tests.conftest import SMALL

BRIEF = ChainConfig(
    task="C2",
    horizon=3,
    iterations=40,
    batch=16,
    model=ModelConfig(depth=1, width=16, heads=8),
    evaluation=EvaluationConfig(samples=20, final_samples=50),
    log_every=7,
    kernel="plain",
)


def test_a_small_model_internalizes(internalized: Run) -> None:
    summary = internalized.summary()
    assert summary["internalized"] is True
    assert summary["succeeded"] is True
    assert summary["id_accuracy"] > 0.95
    assert summary["response_length"] == summary["forward_passes"] == 2.0
    assert summary["stage"] == summary["stages"] == 4
    assert 4 * 50 <= summary["iterations"] < SMALL.iterations
    low, high = summary["id_interval"]
    assert low <= summary["id_accuracy"] <= high
    assert set(summary) >= {"ood_accuracy", "ood_interval", "ood_succeeded", "flops", "kernel"}
    assert internalized.is_done
    assert internalized.status()["seconds"] > 0


def test_the_folder_tells_the_whole_story(internalized: Run) -> None:
    stored = json.loads((internalized.path / "config.json").read_text())
    assert stored["kind"] == "chain"
    assert stored["config"]["horizon"] == 4
    assert internalized.stages() == [1, 2, 3, 4]
    files = {path.name for path in (internalized.path / "model").iterdir()}
    assert files == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"
    }  # fmt: skip
    last = internalized.weights(4)
    assert all(torch.equal(tensor, last[name]) for name, tensor in internalized.weights().items())

    rows = internalized.metrics("evaluation")
    assert rows["stage"] == [1, 2, 3, 4]
    assert rows["id_response_length"] == pytest.approx([5.0, 4.0, 3.0, 2.0], abs=0.1)
    assert all(accuracy > 0.9 for accuracy in rows["id_target_accuracy"])
    training = internalized.metrics("train")
    assert training["iteration"] == sorted(training["iteration"])
    assert training["loss"][0] > 0.5 > training["loss"][-1]


def bytes_of(run: Run) -> dict[str, bytes]:
    names = ["metrics.jsonl", "config.json", "model/model.safetensors", "stages/0001.safetensors"]
    return {name: (run.path / name).read_bytes() for name in names}


@pytest.mark.parametrize(("method", "kernel"), [("left", "plain"), ("mixture", "fast")])
def test_the_same_config_gives_the_same_bytes(tmp_path: Path, method: str, kernel: Any) -> None:
    config = replace(BRIEF, method=method, kernel=kernel)
    torch.manual_seed(1)
    first = bytes_of(train(config, out=tmp_path / "a"))
    torch.manual_seed(2)  # nothing global is read
    torch.rand(100)
    assert bytes_of(train(config, out=str(tmp_path / "b"))) == first
    other = bytes_of(train(replace(config, seed=1), out=tmp_path / "c"))
    assert all(other[name] != content for name, content in first.items())


def test_a_finished_run_is_returned_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(BRIEF, out=tmp_path)
    before = bytes_of(run)
    with monkeypatch.context() as patch:
        patch.setattr(ChainConfig, "build", None)  # whoever trains must build
        assert train(BRIEF, out=tmp_path).path == run.path
    again = train(BRIEF, out=tmp_path, fresh=True)
    assert bytes_of(again) == before


@pytest.mark.parametrize("words", [[], ["--quiet"]], ids=["announced", "quiet"])
def test_a_config_is_checked_once_and_one_experiment_is_built(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the command to the loop, with the forecast that is announced and the memory that is looked at."""
    counts = {"check": 0, "__init__": 0}

    def counted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def count(*arguments: Any) -> Any:
            counts[name] += 1
            return real(*arguments)

        monkeypatch.setattr(owner, name, count)

    counted(ChainConfig, "check")
    counted(ChainExperiment, "__init__")
    small = "--horizon 3 --iterations 6 --model.depth 1 --model.width 16 --model.heads 8 --batch 4"
    assert main(["train", *small.split(), "--out", str(tmp_path), *words]) == 0
    assert counts == {"check": 1, "__init__": 1}


def test_curricula_share_a_prefix(internalized: Run, tmp_path: Path) -> None:
    """Two trainings from the end of another's stage 1; the run keeps the weights it started from."""
    source = tmp_path / "prefix"
    shutil.copytree(internalized.path, source)
    gentle = OptimizerConfig(lr=1e-5)
    brief = replace(
        SMALL, iterations=12, optimizer=gentle, schedule=ScheduleConfig(), evaluation=BRIEF.evaluation
    )
    weights = internalized.weights(1)
    for method in ("right", "inductive"):
        config = replace(brief, method=method, init_from=f"{source}@1")
        experiment = config.build(torch.device("cpu"), {})
        start = experiment.init(None).model  # type: ignore[arg-type]  # no random numbers are needed
        assert all(torch.equal(p, weights[name]) for name, p in start.named_parameters())
        run = train(config, out=tmp_path / "runs")
        assert run.metrics("train")["loss"][0] < 0.1  # it knew the chain from the beginning
    shutil.rmtree(source)
    chain = open_chain(run.path)
    assert chain.own_shown(chain.moment().stage) == (4,)
    with pytest.raises(BadInput, match="init-from: "):
        train(config, out=tmp_path / "elsewhere")


def test_weights_that_know_the_held_out_inputs_are_refused(tmp_path: Path) -> None:
    """A run holds out what its seed and share say: weights of another have seen it."""
    parent = train(replace(BRIEF, seed=1, held_out=0.2), out=tmp_path)
    child = replace(BRIEF, seed=1, held_out=0.2, iterations=BRIEF.iterations + 1, init_from=str(parent.path))
    assert train(child, out=tmp_path).is_done
    assert train(replace(child, held_out=0.1), out=tmp_path).is_done  # a part of what the parent held out
    for other in (replace(child, seed=2), replace(child, held_out=0.3)):
        with pytest.raises(BadInput, match=r"^held-out: .* has --seed 1, --held-out 0.2; "):
            train(other, out=tmp_path)
    assert train(replace(child, seed=2, held_out=None), out=tmp_path).is_done


@pytest.mark.parametrize("init_from", ["{run}@9", "{run}@x", "{run}/nowhere", "{other}"])
def test_starting_weights_that_do_not_fit_leave_nothing(
    internalized: Run, tmp_path: Path, init_from: str
) -> None:
    """The last one is of another shape."""
    other = train(BRIEF, out=tmp_path / "other")
    config = replace(SMALL, init_from=init_from.format(run=internalized.path, other=other.path))
    with pytest.raises(BadInput, match=r"^init-from: "):
        train(config, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


OWN = """
from internalize import Curriculum, semiautomaton
toggle = semiautomaton("toggle", [[0, 1], [1, 0]], ["off", "on"], ["wait", "press"])
class Halves(Curriculum):
    stages = 2
    def shown(self, stage):
        return tuple(range(1, self.horizon + 1)) if stage == 1 else (self.horizon,)
"""


def test_a_run_keeps_its_users_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.py"
    own.write_text(OWN)
    config = replace(BRIEF, task="own:toggle", method="own.py:Halves")
    run = train(config, out="runs")
    assert run.stages() == [1, 2]
    stored = json.loads((run.path / "config.json").read_text())
    assert set(stored["sources"]) == {"own:toggle", "own.py:Halves"}
    assert [path.read_text() for path in run.copies().values()] == [OWN, OWN]

    own.write_text(OWN + "# changed")  # another content, another run
    assert train(config, out="runs").path != run.path
    own.unlink()
    assert main(["evaluate", str(run.path), "--inputs", "uniform", "--samples", "30", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= {"accuracy", "interval", "response_length"}
    assert main(["show", str(run.path), "--examples", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["prompt"].endswith("q:off")

    next(iter(run.copies().values())).write_text(OWN + "# changed")
    with pytest.raises(BadInput, match=r"the run's copy of own.* is missing or has changed"):
        open_chain(run.path)


def test_positions_that_hugging_face_lacks_are_trained_and_kept(tmp_path: Path) -> None:
    run = train(replace(BRIEF, model=replace(BRIEF.model, positions="rotary")), out=tmp_path)
    assert [path.name for path in (run.path / "model").iterdir()] == ["model.safetensors"]
    assert open_chain(run.path).model().config.positions == "rotary"


def test_which_stages_are_kept(tmp_path: Path) -> None:
    assert train(BRIEF, out=tmp_path, keep_stages="none").stages() == []
    assert [stage for stage in range(1, 12) if keeps_stage("some", stage, 11)] == [1, 2, 4, 8, 11]
    assert all(keeps_stage("all", stage, 11) for stage in range(1, 12))


def test_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert resolve_device("auto") == resolve_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(BadInput, match=f"^device: {name} is not available here; there is cpu$"):
            resolve_device(name)
    with pytest.raises(BadInput, match=r"^device: cuda"):
        train(BRIEF, Execution(out=tmp_path / "runs", device="cuda"))
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")


@pytest.mark.parametrize(
    "said", [{"threads": "two"}, {"threads": -1}, {"threads": True}, {"device": "foo"}, {"device": 5}]
)
def test_a_provenance_that_makes_no_sense_is_not_followed(said: dict[str, Any], tmp_path: Path) -> None:
    run = train(BRIEF, out=tmp_path)
    run.add_to_provenance(**said)
    with surroundings(run, Execution()) as device:
        assert (device, torch.get_num_threads()) == (resolve_device("auto"), 1)


@pytest.mark.parametrize(
    "fields", [{"threads": 0}, {"checkpoint_minutes": 0.0}, {"checkpoint_minutes": float("nan")}]
)
def test_impossible_execution_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="must be"):
        Execution(**fields)


@pytest.mark.filterwarnings("default")
def test_more_threads_than_cores_are_said_to_be_slow_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not refused: a run that was made with more is repeated to the bit only with as many."""
    monkeypatch.setattr(execution, "usable_cores", lambda: 2)
    words = "train --horizon 3 --iterations 3 --model.depth 1 --model.width 16 --model.heads 8 --batch 4"
    measured = "--evaluation.samples 5 --evaluation.final-samples 5"
    for count, said in ((3, 1), (2, 0)):
        out = ["--threads", str(count), "--out", str(tmp_path / str(count))]
        assert main([*words.split(), *measured.split(), *out]) == 0
        complaint = f"internalize: warning: {count} threads share 2 usable cores"
        assert capsys.readouterr().err.count(complaint) == said


def test_everything_public_is_there() -> None:
    assert isinstance(internalize.__version__, str)
    for name in set(internalize.__all__) - {"__version__"}:
        assert getattr(internalize, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = internalize.nonsense
