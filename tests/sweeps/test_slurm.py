"""The script for Slurm, as it is, with stand-ins for what an allocation offers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from internalize.runs.index import Store
from tests.sweeps.tiny import (
    EXAMPLES,
    all_bytes,
    one_after_the_other,
    tiny_sweep,
    wait_for_a_stage,
    write_sweep,
)

pytest.importorskip("ray", reason="Ray is an extra: pip install 'internalize[ray]'")

COMMANDS = {
    "scontrol": "echo here",
    "srun": 'while [[ "$1" == --* ]]; do shift; done; exec "$@"',
    "hostname": "echo 127.0.0.1",
    "internalize": f'exec {sys.executable} -m internalize.cli "$@"',
    "ray": '[[ "$*" == start\\ --address* ]] && set -- "$@" --node-ip-address=127.0.0.1; '
    f'exec {Path(sys.executable).parent / "ray"} "$@"',
}
"""What these do in an allocation whose nodes are all this machine: each says that it is at 127.0.0.1, since
where the machine has an outer address too, a second node would take that one, and not find the first."""
LONG = {"iterations": 4_800, "log_every": 100}


@contextmanager
def submitted(folder: Path, *words: str, **commands: str) -> Iterator[subprocess.Popen[str]]:
    """The script on two nodes with one place each; whatever happens, nothing of it is left behind."""
    for name, body in {**COMMANDS, **commands}.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    allocation = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "here", "SLURM_JOB_NUM_NODES": "2"}
    places = {"SLURM_CPUS_PER_TASK": "1", "PATH": f"{folder}:{os.environ['PATH']}"}
    places["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"  # with 0, as tests have it, Ray starts no second node
    process = subprocess.Popen(
        ["bash", str(EXAMPLES / "slurm.sh"), *words],
        env={**os.environ, **allocation, **places},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_an_allocation_that_ends_too_soon_and_another(tmp_path: Path) -> None:
    """Slurm's signal stops the sweep with checkpoints; submitted again, it ends as a serial sweep would."""
    file, out = write_sweep(tmp_path / "s.json", seeds=1, **LONG), tmp_path / "runs"
    words = [str(file), "--out", str(out), "--no-estimate"]
    with submitted(tmp_path, *words) as first:
        wait_for_a_stage(out, runs=2)
        first.send_signal(signal.SIGTERM)
        error = first.communicate(timeout=120)[1]
        assert first.returncode == 143, error
        assert "the same command goes on" in error
        assert {entry.state for entry in Store(out).entries()} == {"interrupted"}, "one on each node"
    with submitted(tmp_path, *words) as again:
        error = again.communicate(timeout=300)[1]
        assert again.returncode == 0, error
    assert all_bytes(out) == one_after_the_other(tiny_sweep(seeds=1, **LONG), tmp_path / "apart")


def test_a_cluster_that_does_not_start_is_not_waited_for(tmp_path: Path) -> None:
    broken = 'if [ "$1" = start ]; then echo no port free >&2; else echo nobody there >&2; fi; exit 1'
    with submitted(tmp_path, "s.json", ray=broken) as script:
        error = script.communicate(timeout=60)[1]
    assert script.returncode == 1
    assert error.splitlines()[-1].startswith("Ray does not answer at 127.0.0.1:")
    assert "nobody there" in error
