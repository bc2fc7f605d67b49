"""Runs of a user's own network: learned, kept, killed, resumed, asked; runs without one are what they were."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, OptimizerConfig, Run, train
from internalize.cli import main
from internalize.configs.codec import from_json, to_json
from internalize.errors import BadInput
from internalize.kinds import prepare
from tests.runtime.faults import Watcher, bytes_of, send

EXAMPLE = Path(__file__).parents[2] / "examples" / "networks" / "recurrent.py"
RECURRENT = ChainConfig(
    task="C2",
    horizon=3,
    method="cot",
    iterations=250,
    batch=32,
    model=ModelConfig(depth=1, width=16, heads=1, network="recurrent.py:Recurrent"),
    optimizer=OptimizerConfig(lr=1e-2),
    evaluation=EvaluationConfig(every=100, samples=50, final_samples=500),
)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose network's file is gone. Read only."""
    folder = tmp_path_factory.mktemp("own network")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shutil.copy(EXAMPLE, folder)
        run = train(RECURRENT, out=folder / "runs")
        (folder / EXAMPLE.name).unlink()
    return run


def test_a_recurrent_network_learns_the_chain(learned: Run) -> None:
    summary = learned.summary()
    assert summary["id_accuracy"] > 0.95
    assert summary["ood_accuracy"] > 0.95
    assert summary["response_length"] == 4.0
    assert summary["kernel"] == "plain"


def test_the_folder_holds_the_users_file_and_the_modules_own_names(learned: Run) -> None:
    stored = json.loads((learned.path / "config.json").read_text())
    assert stored["config"]["model"]["network"] == "recurrent.py:Recurrent"
    assert [path.read_text() for path in learned.copies().values()] == [EXAMPLE.read_text()]
    assert [path.name for path in (learned.path / "model").iterdir()] == ["model.safetensors"]
    gru = [f"gru.{kind}_{gate}_l0" for kind in ("weight", "bias") for gate in ("ih", "hh")]
    names = {"embedding.weight", *gru, "unembedding.weight", "unembedding.bias"}
    assert set(learned.weights()) == set(learned.weights(1)) == names


@pytest.mark.parametrize(
    "command",
    ["evaluate --inputs uniform", "matrix", "profile", "diagnose", "show --examples 2", "probe", "patch"],
)
def test_it_is_asked_like_any_other_run(
    learned: Run, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *words = command.split()
    if name != "show":
        words += ["--samples", "60"]
    if name not in ("show", "evaluate"):
        words += ["--out", str(tmp_path)]
    assert main([name, str(learned.path), *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    if name == "evaluate":
        assert found["accuracy"] > 0.95
    if name == "matrix":
        teacher = {cell["budget"]: cell["accuracy"] for cell in found["cells"] if cell["reading"] == "teacher"}
        assert teacher[3] > 0.95
    if name in ("probe", "patch"):
        rows = found["probes" if name == "probe" else "rows"]
        assert list(dict.fromkeys(row["layer"] for row in rows)) == ["embedding", "gru", "unembedding"]


def test_whoever_needs_the_layers_of_gpt2_says_no(learned: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["construct", "--against", str(learned.path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    network = "trained recurrent.py:Recurrent: this command looks at the layers of the built-in GPT-2 alone"
    assert network in said


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed for good, with a checkpoint after every step; the global numbers are others every time."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    config = replace(RECURRENT, method="left", iterations=30, log_every=7)
    torch.manual_seed(1)
    calm = bytes_of(train(config, out=tmp_path / "calm").path)
    torch.manual_seed(2)
    for step in (4, 17):
        child = os.fork()
        if child == 0:
            often = Execution(out=tmp_path / "killed", checkpoint_minutes=1e-9)
            train(config, often, [Watcher(step, send(signal.SIGKILL))])
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert bytes_of(train(config, out=tmp_path / "killed").path) == calm


def test_starting_from_another_run(learned: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    config = replace(RECURRENT, method="left", iterations=9, init_from=str(learned.path))
    run = train(config, out=tmp_path / "runs")
    assert run.metrics("train")["loss"][0] < 0.1  # it knew the chain from the beginning
    assert set(json.loads((run.path / "config.json").read_text())["sources"]) == {
        "recurrent.py:Recurrent",
        str(learned.path),
    }
    for other in (replace(config.model, width=8), replace(config.model, network=None)):
        with pytest.raises(BadInput, match=r"^init-from: "):
            replace(config, model=other).check({})


def test_runs_without_an_own_network_keep_their_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash is the one that this config had before there was such a field."""
    monkeypatch.chdir(EXAMPLE.parent)
    assert prepare(ChainConfig()).identity.digest() == "b127572e077f"
    assert "network" not in to_json(ChainConfig())["model"]
    assert (
        prepare(RECURRENT).identity.digest()
        != prepare(replace(RECURRENT, model=replace(RECURRENT.model, network=None))).identity.digest()
    )
    assert from_json(ChainConfig, to_json(RECURRENT, settled=False)) == RECURRENT
