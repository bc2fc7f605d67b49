"""Where a result comes from: versions, revision and machine. Recorded beside a run, never hashed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def package_version() -> str:
    try:
        return version("internalize")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"


def provenance(device: torch.device) -> dict[str, Any]:
    """What a reader needs to judge or repeat a run."""
    return {
        "created": now(),
        "revision": _revision(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "",
        **circumstances(device),
    }


def circumstances(device: torch.device) -> dict[str, Any]:
    """All but the run's identity on which the last bits of a result depend."""
    import torch

    return {
        "internalize": package_version(),
        "torch": torch.__version__,
        "processor": _processor(),
        "device": str(device),
        "threads": torch.get_num_threads(),
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _revision() -> str | None:
    """The git revision of the source tree, None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
