"""Trackers with modules that only take notes, and the real ones where they are installed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, train
from internalize.cli import main
from internalize.errors import BadInput, Interrupted, RunWarning
from internalize.runs.trackers import TrackerName, find_trackers
from tests.runtime.faults import Watcher, interrupted_at, send

CONFIG = ChainConfig(
    horizon=2,
    iterations=20,
    batch=4,
    model=ModelConfig(depth=1, width=8, heads=2),
    evaluation=EvaluationConfig(samples=10, final_samples=10),
    log_every=10,
    kernel="plain",
)


class Notes:
    """Takes every call and writes it down: (name, arguments, named arguments)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def note(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments, named))
            return self

        return note

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(arguments, named) for called, arguments, named in self.calls if called == name]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    """All three libraries, replaced by one book of notes."""
    notes = Notes()
    notes.summary = SimpleNamespace(update=lambda values: notes.calls.append(("summary", (values,), {})))  # type: ignore[attr-defined]
    notes.info = SimpleNamespace(run_id="r1")  # type: ignore[attr-defined]
    notes.experiment_id = "e1"  # type: ignore[attr-defined]
    notes.search_runs = lambda *_: []  # type: ignore[attr-defined]

    def client(**named: Any) -> Notes:
        notes.calls.append(("client", (), named))
        return notes

    def writer(*arguments: Any, **named: Any) -> Notes:
        notes.calls.append(("writer", arguments, named))
        return notes

    for name, content in {
        "torch.utils.tensorboard": {"SummaryWriter": writer},
        "wandb": {"init": notes.init},
        "mlflow": {},
        "mlflow.tracking": {"MlflowClient": client},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return notes


def test_curves_reach_every_tracker(notes: Notes, tmp_path: Path) -> None:
    run = train(CONFIG, out=tmp_path, tracker=("tensorboard", "wandb", "mlflow"))
    losses = [row["loss"] for row in run.metrics("train")]
    assert len(losses) == 2
    drawn = [arguments for arguments, _ in notes.of("add_scalar") if arguments[0] == "train/loss"]
    assert drawn == [("train/loss", losses[0], 10), ("train/loss", losses[1], 20)]
    logged = [entry[0] for entry, _ in notes.of("log") if "train/loss" in entry[0]]
    assert [(entry["train/loss"], entry["step"]) for entry in logged] == list(
        zip(losses, (10, 20), strict=True)
    )
    metric = [(a[2], named["step"]) for a, named in notes.of("log_metric") if a[1] == "train/loss"]
    assert metric == list(zip(losses, (10, 20), strict=True))
    ((_, session),) = notes.of("init")
    assert (session["mode"], session["id"]) == ("offline", run.digest())
    assert session["config"]["model"]["width"] == 8
    assert session["settings"] == {"silent": True}
    assert notes.of("define_metric") == [(("*",), {"step_metric": "step"})]
    assert ("r1", "model.width", 8) in [arguments for arguments, _ in notes.of("log_param")]
    assert notes.of("set_terminated") == [(("r1",), {"status": "FINISHED"})]
    ((summary,), _) = notes.of("summary")[0]
    assert summary["state"] == "done"
    assert summary["iterations"] == 20
    ((settings, results), where) = notes.of("add_hparams")[0]
    assert (settings["model.width"], settings["method"], where) == (8, "left", {"run_name": "."})
    assert results["result/id_accuracy"] == run.summary()["id_accuracy"]
    assert results["result/succeeded"] == int(run.summary()["succeeded"])
    assert notes.of("close")


def test_a_resumed_run_is_drawn_again_from_its_checkpoint_on(notes: Notes, tmp_path: Path) -> None:
    interrupted_at(13, tmp_path, CONFIG, tracker=("tensorboard",))
    train(CONFIG, out=tmp_path, tracker=("tensorboard",))
    assert [named["purge_step"] for _, named in notes.of("writer")] == [1, 14]


def test_a_tracker_that_fails_stops_nothing(notes: Notes, tmp_path: Path) -> None:
    def offline(*_: Any) -> None:
        raise ConnectionError("no route to host")

    notes.add_scalar = offline  # type: ignore[attr-defined]
    with pytest.warns(RunWarning, match="TensorBoard failed .* ConnectionError: no route to host") as warned:
        run = train(CONFIG, out=tmp_path / "a", tracker=("tensorboard", "wandb"))
    assert len(warned) == 1
    assert run.is_done
    assert len(notes.of("log")) == 4, "the other one went on"


def test_a_missing_extra_is_refused_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("wandb", "mlflow", "mlflow.tracking", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    names: tuple[TrackerName, ...] = ("tensorboard", "wandb", "mlflow")
    for name in names:
        with pytest.raises(BadInput, match=rf"tracker: {name} is not installed .*internalize\[{name}\]"):
            find_trackers([name])
    assert (
        main(["train", "--preset", "laptop", "--tracker", "wandb", "--out", str(tmp_path / "runs"), "--quiet"])
        == 2
    )
    assert "pip install 'internalize[wandb]'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.filterwarnings("ignore")
def test_real_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupted_at(13, tmp_path, CONFIG, tracker=("tensorboard",))
    run = train(CONFIG, out=tmp_path, tracker=("tensorboard",))
    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [10, 20]
    started = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    assert b"model.width" in started
    assert events.Scalars("result/succeeded")[0].value == run.summary()["succeeded"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_the_others_for_real(name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(name)
    for variable, value in (("WANDB_SILENT", "true"), ("MLFLOW_DISABLE_TELEMETRY", "true")):
        monkeypatch.setenv(variable, value)
    with pytest.raises(Interrupted):
        train(CONFIG, Execution(out=tmp_path, tracker=(name,)), [Watcher(13, send(signal.SIGTERM))])
    run = train(CONFIG, out=tmp_path, tracker=(name,))
    if name == "wandb":
        assert list(run.path.glob("wandb/offline-run-*/*.wandb"))
    else:
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.sqlite'}")
        found = client.search_runs(["1"])
        assert [one.info.status for one in found] == ["FINISHED"]
        assert found[0].data.metrics["train/loss"] == run.metrics("train")["loss"][-1]
