"""Trackers: observers that send a run's curves elsewhere. Each needs an extra of the package.

TensorBoard writes event files in the run's own folder. Weights & Biases stays offline unless WANDB_MODE says
otherwise, so that no account is needed. MLflow keeps a database beside the runs unless MLFLOW_TRACKING_URI
names a server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from internalize.contract import Observer, Row, RunState, Stage
from internalize.errors import BadInput
from internalize.runs.folder import Run
from internalize.runs.table import flat

TrackerName = Literal["tensorboard", "wandb", "mlflow"]


def find_trackers(names: Sequence[TrackerName]) -> list[Observer]:
    """The trackers of these names; a missing extra is refused before anything is trained."""
    trackers: list[Observer] = []
    for name in dict.fromkeys(names):
        try:
            trackers.append(TRACKERS[name]())
        except ImportError as error:
            raise BadInput(
                "tracker", f"{name} is not installed ({error}): pip install 'internalize[{name}]'"
            ) from None
    return trackers


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The entries of a row that make a curve, as `train/loss` or `evaluation/id_accuracy`."""
    event = str(row.get("event", "run"))
    return {
        f"{event}/{name}": float(value)
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def results_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """The results of a finished run as numbers, `result/id_accuracy`; of yes and no, yes is 1."""
    judged = {name: int(value) for name, value in summary.items() if isinstance(value, bool)}
    return numbers({"event": "result", **summary, **judged})


class TensorBoard:
    """Writes RUN/tensorboard/; look at many runs at once with `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._make_writer: Any = SummaryWriter
        self._writer: Any = None
        self._folder = Path()

    def begin(self, folder: Path, stage: Stage) -> None:
        # purge_step: what a killed sitting drew beyond its last checkpoint is drawn again
        self._writer = self._make_writer(str(folder / "tensorboard"), purge_step=stage.step + 1)
        self._folder = folder

    def stepped(self, stage: Stage) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Row, stage: Stage) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, stage.step)

    def end(self, state: RunState, summary: Row) -> None:
        if self._writer is not None:
            if state == RunState.DONE:  # the tab HPARAMS compares finished runs by their settings and results
                self._writer.add_hparams(_settings(self._folder), results_of(summary), run_name=".")
            self._writer.close()


class WeightsAndBiases:
    """Writes RUN/wandb/; `wandb sync` sends an offline run."""

    def __init__(self) -> None:
        import wandb

        self._wandb: Any = wandb
        self._session: Any = None

    def begin(self, folder: Path, stage: Stage) -> None:
        identity = Run(folder).identity()
        self._session = self._wandb.init(
            project="internalize",
            id=identity.digest(),  # the same run after a kill is the same run there
            name=folder.name,
            config=dict(identity.config),
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            # its own lines would tear the live view apart; WANDB_SILENT=false brings them back
            settings={"silent": os.environ.get("WANDB_SILENT", "true").lower() not in ("false", "0")},
        )
        self._session.define_metric("*", step_metric="step")  # curves over training steps, not over rows

    def stepped(self, stage: Stage) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Row, stage: Stage) -> None:
        self._session.log({**numbers(row), "step": stage.step})

    def end(self, state: RunState, summary: Row) -> None:
        if self._session is not None:
            self._session.summary.update({"state": str(state), **summary})
            self._session.finish(exit_code=0 if state == RunState.DONE else 1)


DATABASE = "mlflow.sqlite"


class MLflow:
    """Writes OUT/mlflow.sqlite; look with `mlflow ui --backend-store-uri sqlite:///runs/mlflow.sqlite`."""

    def __init__(self) -> None:
        from mlflow.tracking import MlflowClient

        self._make_client: Any = MlflowClient
        self._client: Any = None
        self._id = ""

    def begin(self, folder: Path, stage: Stage) -> None:
        database = f"sqlite:///{(folder.parent / DATABASE).resolve().as_posix()}"
        self._client = self._make_client(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI", database))
        identity = Run(folder).identity()
        experiment = self._experiment()
        known = self._client.search_runs([experiment], f"tags.identity = '{identity.digest()}'")
        if known:
            self._id = known[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        made = self._client.create_run(experiment, run_name=folder.name, tags={"identity": identity.digest()})
        self._id = made.info.run_id
        for name, value in flat(identity.config, lists_as_text=False).items():
            self._client.log_param(self._id, name, value)

    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name("internalize")
        return found.experiment_id if found else self._client.create_experiment("internalize")

    def stepped(self, stage: Stage) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Row, stage: Stage) -> None:
        for name, value in numbers(row).items():
            self._client.log_metric(self._id, name, value, step=stage.step)

    def end(self, state: RunState, summary: Row) -> None:
        if self._id:
            for name, value in results_of(summary).items():
                self._client.log_metric(self._id, name, value)
            status = {RunState.DONE: "FINISHED", RunState.FAILED: "FAILED"}.get(state, "KILLED")
            self._client.set_terminated(self._id, status=status)


def _settings(folder: Path) -> dict[str, bool | int | float | str]:
    """The run's config as TensorBoard takes it: flat, and what is no number as text."""
    found = flat(Run(folder).identity().config, lists_as_text=False)
    return {
        name: value if isinstance(value, bool | int | float) else str(value) for name, value in found.items()
    }


TRACKERS: dict[TrackerName, Callable[[], Observer]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}
"""Name of the tracker, which is that of its extra too → its class; its library is imported when one is made."""
