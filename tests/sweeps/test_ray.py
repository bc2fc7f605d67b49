"""Sweeps on Ray: whatever is lost on the way, the bytes of a serial local sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.contract import Event, Stepped, Written
from internalize.errors import BadInput, RunFailed, RunWarning
from internalize.runs.provenance import usable_cores
from internalize.runtime.execution import Execution
from internalize.sweeps import run_sweep, sweep_of
from internalize.sweeps.node import PIECE, HomeFolder, Mirror
from internalize.sweeps.run import RayOptions
from tests.sweeps.tiny import BASE, all_bytes, one_after_the_other, tiny_sweep, wait_for_a_stage, write_sweep

pytest.importorskip("ray", reason="Ray is an extra: pip install 'internalize[ray]'")

TASK = """
from internalize import semiautomaton
switch = semiautomaton("switch", [[0, 1], [1, 0]])
"""
LONG = {"iterations": 2_400, "log_every": 100}


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.slow
def test_a_cluster_of_our_own_with_a_users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes get the module by content: here the workers' folder does not hold it. Results are sent home."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TASK)
    sweep = sweep_of("mine", "chain", {**BASE, "task": "mine:switch"}, grid={"optimizer.lr": [1e-3, 1e30]})
    good = sweep_of("good", "chain", {**BASE, "task": "mine:switch", "optimizer.lr": 1e-3})
    expected = one_after_the_other(good, tmp_path / "apart")
    outcome = run_sweep(sweep, out="runs", backend="ray", workers=2, retries=0, results="fetched")
    assert [ended.state for ended in outcome.outcomes] == ["done", "failed"]
    assert "nan" in outcome.failed[0].error
    (done,) = outcome.done
    assert done.run is not None
    assert {done.run.path.name: expected[done.run.path.name]} == expected
    assert list((tmp_path / "runs").glob(".*")) == []


def test_a_cluster_that_others_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    from internalize.sweeps.ray import ray_backend, require_token

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    require_token(["127.0.0.1", "::1", "localhost"])
    for address in ("10.0.0.5", "0.0.0.0", "node-7"):
        with pytest.raises(BadInput, match="without a token"):
            require_token(["127.0.0.1", address])
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    require_token(["10.0.0.5"])
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(BadInput, match="RAY_AUTH_MODE is 'disabled'"):
        ray_backend(Execution(), None, RayOptions())


# Runs that fit nowhere -------------------------------------------------------------------------------------

PLAIN, SMALL, LARGE = {"CPU": 8.0}, {"CPU": 2.0, "GPU": 1.0}, {"CPU": 4.0, "GPU": 4.0}


@pytest.mark.parametrize(
    ("nodes", "cpus", "gpus", "room", "shortage"),
    [
        ([PLAIN, SMALL], 1, 0, 10, None),
        ([PLAIN, SMALL], 3, 0, 2, None),  # 8 // 3 + 2 // 3, not 10 // 3
        ([SMALL] * 3, 3, 0, 0, "cpus: a run asks for 3, and no node has more than 2"),
        ([PLAIN, SMALL, LARGE], 1, 0.25, 6, None),  # by its processors 2 on the small one, 4 on the large one
        ([PLAIN] * 2, 1, 1, 0, "gpus: a run asks for 1, and no node has more than 0"),
        ([SMALL] * 2, 1, 2, 0, "gpus: a run asks for 2, and no node has more than 1"),
        ([PLAIN, SMALL], 4, 1, 0, "cpus: a run asks for 4 with --gpus 1, and no node has both"),
        ([{}], 1, 0, 0, "cpus: a run asks for 1, and no node has more than 0"),
        ([], 1, 0, 0, "cpus: a run asks for 1, and no node has more than 0"),
    ],
)
def test_a_run_needs_a_node_that_has_all_it_asks_for(
    nodes: list[dict[str, float]], cpus: float, gpus: float, room: int, shortage: str | None
) -> None:
    options = RayOptions(gpus=gpus)
    assert options.room(nodes, cpus) == room
    problem = options.shortage(nodes, cpus)
    assert (None if problem is None else str(problem)) == shortage


@pytest.mark.filterwarnings("ignore")
def test_a_run_too_large_for_this_machine_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    file = write_sweep(tmp_path / "s.json", seeds=1)
    words = ["sweep", str(file), "--out", str(tmp_path / "runs"), "--no-estimate", "--quiet"]
    assert main([*words, "--backend", "ray", "--cpus", "4096"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("internalize:")]
    assert line.startswith(
        f"internalize: cpus: a run asks for 4096, and no node has more than {usable_cores()}"
    )
    assert not ray.is_initialized()


# On a cluster of several nodes -----------------------------------------------------------------------------

NOBODY_ELSE = {"node_ip_address": "127.0.0.1"}
"""A cluster that others reach would need a token."""


class Nodes:
    """Ray's own test cluster: a head without places for runs, and nodes with one each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        store = {"object_store_memory": 80 * 2**20, "include_dashboard": False, **NOBODY_ELSE}
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **store})
        self.nodes: list[Any] = []

    def add(self, count: int, cpus: int = 1) -> None:
        for _ in range(count):
            node = self.cluster.add_node(num_cpus=cpus, object_store_memory=80 * 2**20, **NOBODY_ELSE)
            self.nodes.append(node)
        self.cluster.wait_for_nodes()

    def training(self) -> dict[int, Any]:
        """Process of a task that runs → its node."""
        raylets = {node.all_processes["raylet"][0].process.pid: node for node in self.nodes}
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if parent in raylets and command.startswith(b"ray::attempt"):
                found[int(folder.name)] = raylets[parent]
        return found

    def remove(self, node: Any) -> None:
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    import ray

    monkeypatch.setenv("RAY_worker_niceness", "0")  # else other tests on the same cores come first
    made = Nodes()
    try:
        made.add(3)
        yield made
    finally:
        ray.shutdown()
        made.cluster.shutdown()


class Saboteur:
    """Does its deed once two runs are in the midst of a stage after the first."""

    def __init__(self, deed: Callable[[], None]) -> None:
        self.deed, self.done = deed, False
        self.inside: set[int] = set()

    def begin(self, names: Sequence[str]) -> None: ...

    def end(self) -> None: ...

    def event(self, index: int, event: Event) -> None:
        if isinstance(event, Stepped | Written) and event.stage.index >= 2:
            self.inside.add(index)
        if len(self.inside) >= 2 and not self.done:
            self.done = True
            self.deed()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_has_no_room_yet_is_waited_for(nodes: Nodes, tmp_path: Path) -> None:
    class Growth(Saboteur):
        def begin(self, names: Sequence[str]) -> None:
            self.deed()

    grow = Growth(lambda: nodes.add(1, cpus=2))
    sweep, where = tiny_sweep(seeds=1), {"address": nodes.cluster.address, "cpus": 2}
    with pytest.warns(RunWarning, match="2, and no node has more than 1: the runs wait until a node joins"):
        outcome = run_sweep(sweep, out=tmp_path, backend="ray", observer=grow, **where)
    assert [ended.state for ended in outcome.outcomes] == ["done", "done"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("results", ["shared", "fetched"])
def test_a_lost_node_and_a_killed_worker_change_nothing(results: str, nodes: Nodes, tmp_path: Path) -> None:
    sweep, out = tiny_sweep(**LONG), tmp_path / "runs"

    def havoc() -> None:
        busy = nodes.training()
        first, second = list(busy)[:2]
        os.kill(first, signal.SIGKILL)
        nodes.remove(busy[second])

    saboteur = Saboteur(havoc)
    address = nodes.cluster.address
    outcome = run_sweep(
        sweep, out=out, backend="ray", observer=saboteur, address=address, results=results, retries=0
    )
    assert saboteur.done
    assert [(ended.state, ended.error) for ended in outcome.outcomes] == [("done", "")] * len(sweep.cases)
    assert all_bytes(out) == one_after_the_other(sweep, tmp_path / "apart")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("results", "number"),
    [("shared", signal.SIGKILL), ("fetched", signal.SIGKILL), ("shared", signal.SIGTERM)],
)
def test_a_stopped_driver_changes_nothing(results: str, number: int, nodes: Nodes, tmp_path: Path) -> None:
    file, out = write_sweep(tmp_path / "s.json", **LONG), tmp_path / "runs"
    words = ["sweep", str(file), "--out", str(out), "--backend", "ray", "--address", nodes.cluster.address]
    command = [sys.executable, "-m", "internalize.cli", *words, "--ray.results", results, "--no-estimate"]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for_a_stage(out, runs=2)
    driver.send_signal(number)
    error = driver.communicate(timeout=300)[1]
    if number == signal.SIGTERM:
        assert driver.returncode == 143, error
        assert "the same command goes on" in error
    again = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    assert again.returncode == 0, again.stderr
    assert all_bytes(out) == one_after_the_other(tiny_sweep(**LONG), tmp_path / "apart")


def test_a_node_given_up_for_lost_is_not_listened_to(tmp_path: Path) -> None:
    """It may still be at work when another one has taken the run over."""
    home = HomeFolder(tmp_path / "home")
    lost, new = (Mirror(tmp_path / name / "run", home) for name in ("lost", "new"))
    lost.fetch()
    (lost.folder / "checkpoints").mkdir(parents=True)
    (lost.folder / "checkpoints" / "1.safetensors").write_bytes(b"a" * (PIECE + 1))
    (lost.folder / "status.json").write_text("{}")
    lost.send()
    new.fetch()
    assert (new.folder / "checkpoints" / "1.safetensors").read_bytes() == b"a" * (PIECE + 1)
    (lost.folder / "status.json").write_text("late")
    with pytest.raises(RunFailed, match="elsewhere"):
        lost.send()
    (new.folder / "checkpoints" / "1.safetensors").unlink()
    (new.folder / "checkpoints" / "2.safetensors").write_bytes(b"")
    new.send()
    assert home.files("run") == ["checkpoints/2.safetensors", "status.json"]
    assert (home.out / "run" / "status.json").read_text() == "{}"
