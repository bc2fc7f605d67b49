"""The processor cores that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores of the machine, or as many of them as were left to this process (taskset, a cluster's job)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
