"""The runs of a sweep as Ray tasks. The only file that imports Ray.

A task is one attempt at a run. What it needs travels with it: the config as JSON, the user's files by content
and, to a cluster, this package. What it says on its way goes through an actor on the driver's node. Ray itself
begins a task anew when its worker or node is lost; the run then goes on from its last checkpoint.
"""

from __future__ import annotations

import ipaddress
import os
import time
import uuid
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, TaskCancelledError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from internalize.configs.codec import to_json
from internalize.configs.named import Source
from internalize.contract import End, Ended, Event
from internalize.errors import BadInput, RunWarning, require
from internalize.runs.provenance import usable_cores
from internalize.runs.storage import Owned, own
from internalize.runtime.execution import Execution
from internalize.runtime.kind import Prepared
from internalize.sweeps.node import Board, SentFile, attempt_here
from internalize.sweeps.run import RayOptions

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory for a cluster of our own: only files on their way need any."""
MOST_AT_ONCE = 400
"""Tasks in Ray's hands, so that thousands of runs do not all wait there."""
PATIENCE = 60.0
"""Seconds to wait for a node to say whether it sees the folder of runs."""
WITH_TOKENS = ("token", "k8s")
"""Ways in which Ray asks whoever comes who they are: its RAY_AUTH_MODE."""


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


def attempt(index: int, job: dict[str, Any], board: Any) -> Ended:
    """Begin or continue a run on this node; returns the event with which it ended."""
    files = {
        name: SentFile(digest, file, ray.get(content))
        for name, (digest, file, content) in job["sources"].items()
    }
    return attempt_here(job, files, _FarHome(board), lambda event: board.tell.remote(index, event))


def sees(path: str) -> bool:
    return Path(path).exists()


# Beside the driver ---------------------------------------------------------------------------------------


class RayBackend:
    """Runs in the hands of Ray; see `Backend`."""

    def __init__(
        self, execution: Execution, workers: int | None, options: RayOptions, owns_cluster: bool
    ) -> None:
        self.execution, self.workers, self.options = execution, workers, options
        self._cpus = _cpus(execution, options)
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
            num_cpus=self._cpus,
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
            self._slots = max(2, min(MOST_AT_ONCE, 2 * self.options.room(_resources(), self._cpus)))
            self._slots_until = time.monotonic() + 5.0
        return self._slots

    def submit(self, index: int, prepared: Prepared, again: bool) -> None:
        folder = prepared.folder(self.execution.out)
        if self._token is None and not self._lock(index, folder):
            return
        job = {
            "kind": prepared.place,
            "config": to_json(prepared.config),
            "execution": to_json(self.execution),
            "again": again,
            "out": str(self.execution.out),
            "folder": folder.name,
            "token": self._token,
            "sources": {source.name: self._file(source) for source in prepared.sources if source.kept},
        }
        self._running[self._task.remote(index, job, self._board)] = index

    def _lock(self, index: int, folder: Path) -> bool:
        """Where nodes do not see the folder, the driver owns it for them."""
        folder.mkdir(parents=True, exist_ok=True)
        holding = ExitStack()
        try:
            holding.enter_context(own(folder))
        except Owned as problem:
            self._instant.append((index, Ended(End.BUSY, str(problem))))
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
            time.sleep(0 if found else timeout)
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


def _end_of(task: Any) -> Ended:
    try:
        ended: Ended = ray.get(task)
        return ended
    except TaskCancelledError:
        return Ended(End.INTERRUPTED, "stopped", 130)
    except BadInput as problem:
        return Ended(End.FAILED, str(problem), 2)
    except RayError as problem:  # of the cluster: what goes wrong in a run is an event, which the task returns
        text = " ".join(str(problem).split())
        return Ended(End.LOST, f"{type(problem).__name__}: {text[:300]}", 1)


def ray_backend(execution: Execution, workers: int | None, options: RayOptions) -> RayBackend:
    """Join a cluster, or start one that fits this machine."""
    execution = Execution(**{**vars(execution), "out": execution.out.resolve()})
    begun_before = ray.is_initialized()
    if not begun_before:
        _connect(options)
    _require_room(execution, options, may_grow=begun_before or options.address is not None)
    return RayBackend(execution, workers, options, owns_cluster=not begun_before)


def _cpus(execution: Execution, options: RayOptions) -> float:
    return options.cpus or execution.threads or 1


def _resources() -> list[dict[str, float]]:
    """What each node that is alive has in all, in use or not."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _require_room(execution: Execution, options: RayOptions, may_grow: bool) -> None:
    """Ray lets a task wait for ever that fits nowhere: say so beforehand."""
    shortage = options.shortage(_resources(), _cpus(execution, options))
    if shortage is None:
        return
    if may_grow:
        text = f"{shortage}: the runs wait until a node joins that has as much"
        warnings.warn(text, RunWarning, stacklevel=2)
        return
    ray.shutdown()
    raise BadInput(shortage.field, f"{shortage.message} (a cluster of our own is this machine; see --address)")


def _connect(options: RayOptions) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if options.address is None:
        mode = os.environ.get("RAY_AUTH_MODE", "token").lower()
        text = f"RAY_AUTH_MODE is {mode!r}: whoever reaches this machine could run code on it; unset it"
        require(mode in WITH_TOKENS, "backend", text)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            address="local",
            num_cpus=usable_cores(),
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
    try:
        require_token([str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]])
    except BadInput:
        ray.shutdown()
        raise


def require_token(addresses: Sequence[str]) -> None:
    """Refuse a cluster that listens beyond this machine and asks nobody for a token: see Ray's token-auth."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() in WITH_TOKENS:
        return
    for address in addresses:
        require(
            is_loopback(address),
            "address",
            f"the cluster listens at {address} without a token: whoever reaches it could run code here. Start "
            f"it with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, and set both before this command",
        )


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
