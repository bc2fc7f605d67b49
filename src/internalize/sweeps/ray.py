"""The runs of a sweep as Ray tasks. The only file that imports Ray.

A task is one attempt at a run. What it needs travels with it: the config as JSON, the user's files by content
and, to a cluster, this package. What it says on its way goes through an actor on the driver's node. Ray itself
begins a task anew when its worker or node is lost; the run then goes on from its last checkpoint.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, TaskCancelledError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from internalize.configs.codec import to_json
from internalize.configs.named import Source
from internalize.errors import BadInput
from internalize.experiments.driving import Event
from internalize.experiments.execution import Execution
from internalize.experiments.kinds import ExperimentConfig
from internalize.experiments.training import run_folder
from internalize.experiments.worker import Reporter, carry_out
from internalize.runs.lock import Owned, own
from internalize.sweeps.mirroring import HomeFolder, Mirror
from internalize.sweeps.options import RayOptions

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory for a cluster of our own: only files on their way need any."""
MOST_AT_ONCE = 400
"""Tasks in Ray's hands, so that thousands of runs do not all wait there."""
PATIENCE = 60.0
"""Seconds to wait for a node to say whether it sees the folder of runs."""


class Board(HomeFolder):
    """An actor beside the driver: what the runs say, and the way home for their files."""

    def __init__(self, out: str, driver: int) -> None:
        """driver: its process; the board is on the same machine."""
        super().__init__(Path(out))
        self._driver = driver
        self._said: list[tuple[int, Event]] = []

    def _require(self, run: str, number: int) -> None:
        """When the driver is dead, another one may have the folder already."""
        os.kill(self._driver, 0)
        super()._require(run, number)

    def tell(self, index: int, event: Event) -> None:
        self._said.append((index, event))

    def take(self) -> list[tuple[int, Event]]:
        said, self._said = self._said, []
        return said


class _FarHome:
    """The board as seen from a node."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def enter(self, run: str) -> int:
        return int(ray.get(self._board.enter.remote(run)))

    def files(self, run: str) -> list[str]:
        return list(ray.get(self._board.files.remote(run)))

    def read(self, run: str, path: str, offset: int) -> bytes:
        return bytes(ray.get(self._board.read.remote(run, path, offset)))

    def write(self, run: str, number: int, path: str, piece: bytes, first: bool, last: bool) -> None:
        ray.get(self._board.write.remote(run, number, path, piece, first, last))

    def keep_only(self, run: str, number: int, folder: str, names: list[str]) -> None:
        ray.get(self._board.keep_only.remote(run, number, folder, names))


# On a node -----------------------------------------------------------------------------------------------


def attempt(index: int, job: dict[str, Any], board: Any) -> dict[str, Any]:
    """Begin or continue a run on this node; returns the event with which it ended."""
    last: list[dict[str, Any]] = []

    def tell(event: dict[str, Any]) -> None:
        last[:] = [event]
        if event["event"] in ("begin", "stepped", "row"):
            board.tell.remote(index, {key: value for key, value in event.items() if key != "run"})

    with tempfile.TemporaryDirectory(prefix="internalize-sources-") as folder:
        copies = {name: _write_copy(Path(folder), file) for name, file in job["sources"].items()}
        if job["token"] is None:
            _mirrored(job, Reporter(tell), board, copies)
        else:
            _require_shared(job)
            carry_out(job, Reporter(tell), copies=copies)
    end = last[-1]
    if "run" in end:
        end["run"] = str(Path(job["out"]) / job["folder"])
    return end


def _mirrored(job: dict[str, Any], reporter: Reporter, board: Any, copies: Mapping[str, Path]) -> None:
    """Train in a folder of this node, with the folder at home kept up to date."""
    with tempfile.TemporaryDirectory(prefix="internalize-runs-") as scratch:
        mirror = Mirror(Path(scratch) / job["folder"], _FarHome(board))
        mirror.fetch()
        job["execution"]["out"] = scratch
        carry_out(job, reporter, [mirror], copies)
        mirror.send()


def _require_shared(job: Mapping[str, Any]) -> None:
    if not Path(job["out"], job["token"]).exists():
        raise BadInput("results", f"the node {os.uname().nodename} does not see {job['out']}: use fetched")


def _write_copy(folder: Path, file: tuple[str, str, Any]) -> Path:
    """file: (hash, name, reference to the content)."""
    digest, name, content = file
    path = folder / digest / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(ray.get(content))
    return path


def sees(path: str) -> bool:
    return Path(path).exists()


# Beside the driver ---------------------------------------------------------------------------------------


class RayBackend:
    """Runs in the hands of Ray; see `Backend`."""

    def __init__(
        self, execution: Execution, workers: int | None, options: RayOptions, owns_cluster: bool
    ) -> None:
        self.execution, self.workers, self.options = execution, workers, options
        self._owns_cluster = owns_cluster
        self._running: dict[Any, int] = {}
        self._instant: list[tuple[int, Event]] = []
        self._files: dict[str, Any] = {}
        self._locks: dict[int, ExitStack] = {}
        self._slots, self._slots_until = 1, 0.0
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Several at a time: a large file on its way must not keep the news waiting.
        actor = ray.remote(Board).options(num_cpus=0, scheduling_strategy=here, max_concurrency=8)
        self._board = actor.remote(str(execution.out), os.getpid())
        self._token = self._agree_on_results()
        self._task = ray.remote(attempt).options(
            num_cpus=options.cpus or execution.threads or 1,
            num_gpus=options.gpus,
            max_retries=options.lost,
            scheduling_strategy="SPREAD",
        )

    def _agree_on_results(self) -> str | None:
        """The name of a file that all nodes see in the folder of runs; None if results are fetched."""
        if self.options.results == "fetched":
            return None
        token = f".sweep-{uuid.uuid4().hex[:12]}"
        self.execution.out.mkdir(parents=True, exist_ok=True)
        (self.execution.out / token).touch()
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        if self.options.results == "shared" or len(nodes) == 1 or self._all_see(token, nodes):
            return token
        (self.execution.out / token).unlink()
        return None

    def _all_see(self, token: str, nodes: Sequence[str]) -> bool:
        look = ray.remote(sees)
        answers = [
            look.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
            ).remote(str(self.execution.out / token))
            for node in nodes
        ]
        try:
            return all(ray.get(answers, timeout=PATIENCE))
        except RayError:  # a node that does not answer is none to rely on
            return False

    def free(self) -> int:
        return (self.workers or self._fitting()) - len(self._running)

    def _fitting(self) -> int:
        """Twice as many runs as fit the cluster now: the next ones are at hand when a place is free."""
        if time.monotonic() > self._slots_until:
            there = ray.cluster_resources()
            fits = there.get("CPU", 0.0) / (self.options.cpus or self.execution.threads or 1)
            if self.options.gpus:
                fits = min(fits, there.get("GPU", 0.0) / self.options.gpus)
            self._slots = max(2, min(MOST_AT_ONCE, 2 * int(fits)))
            self._slots_until = time.monotonic() + 5.0
        return self._slots

    def submit(self, index: int, config: ExperimentConfig, again: bool) -> None:
        folder = run_folder(config, self.execution.out)
        if self._token is None and not self._lock(index, folder):
            return
        job = {
            "kind": config.kind,
            "config": to_json(config),
            "execution": to_json(self.execution),
            "again": again,
            "out": str(self.execution.out),
            "folder": folder.name,
            "token": self._token,
            "sources": {source.name: self._file(source) for source in config.check({})},
        }
        self._running[self._task.remote(index, job, self._board)] = index

    def _lock(self, index: int, folder: Path) -> bool:
        """Where nodes do not see the folder, the driver owns it for them."""
        folder.mkdir(parents=True, exist_ok=True)
        holding = ExitStack()
        try:
            holding.enter_context(own(folder))
        except Owned as problem:
            self._instant.append((index, {"event": "busy", "error": str(problem)}))
            return False
        self._locks[index] = holding
        return True

    def _file(self, source: Source) -> tuple[str, str, Any]:
        digest = source.digest()
        if digest not in self._files:
            self._files[digest] = ray.put(source.path.read_bytes())
        return digest, source.path.name, self._files[digest]

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        found, self._instant = self._instant, []
        if not self._running:
            return found
        ray.wait(list(self._running), timeout=0 if found else timeout)
        ended, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        with suppress(RayError):
            going = set(self._running.values())
            found += [(index, event) for index, event in ray.get(self._board.take.remote()) if index in going]
        for task in ended:
            index = self._running.pop(task)
            found.append((index, _end_of(task)))
            if index in self._locks:
                self._locks.pop(index).close()
        return found

    def stop(self) -> None:
        for task in self._running:
            ray.cancel(task, force=False)

    def close(self) -> None:
        for lock in self._locks.values():
            lock.close()
        if self._token is not None:
            (self.execution.out / self._token).unlink(missing_ok=True)
        with suppress(RayError):
            ray.kill(self._board)
        if self._owns_cluster:
            ray.shutdown()


def _end_of(task: Any) -> Event:
    try:
        return dict(ray.get(task))
    except TaskCancelledError:
        return {"event": "interrupted", "error": "stopped", "exit_code": 130}
    except BadInput as problem:
        return {"event": "failed", "error": str(problem), "exit_code": 2}
    except RayError as problem:
        text = " ".join(str(problem).split())
        return {"event": "failed", "error": f"{type(problem).__name__}: {text[:300]}", "exit_code": 1}


def ray_backend(execution: Execution, workers: int | None, options: RayOptions) -> RayBackend:
    """Join a cluster, or start one that fits this machine."""
    execution = Execution(**{**vars(execution), "out": execution.out.resolve()})
    begun_before = ray.is_initialized()
    if not begun_before:
        _connect(options)
    return RayBackend(execution, workers, options, owns_cluster=not begun_before)


def _connect(options: RayOptions) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if options.address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            address="local",
            num_cpus=os.cpu_count(),
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            **quiet,
        )
        return
    package = Path(__file__).resolve().parents[1]
    try:
        ray.init(address=options.address, runtime_env={"py_modules": [str(package)]}, **quiet)
    except (ConnectionError, RayError, ValueError, RuntimeError) as problem:
        raise BadInput(
            "address", f"cannot join {options.address}: {' '.join(str(problem).split())[:300]}"
        ) from None
