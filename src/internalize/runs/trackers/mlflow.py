"""MLflow: a database beside the runs unless MLFLOW_TRACKING_URI names a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from internalize.contract import Row, RunState, Stage
from internalize.runs.folder import Run
from internalize.runs.trackers import numbers

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
        for name, value in _flat(identity.config).items():
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
            status = {RunState.DONE: "FINISHED", RunState.FAILED: "FAILED"}.get(state, "KILLED")
            self._client.set_terminated(self._id, status=status)


def _flat(config: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested fields by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{path}{name}.")
        else:
            flat[f"{path}{name}"] = value
    return flat
