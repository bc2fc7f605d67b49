"""How seconds and bytes are measured: interleaved timing, and the peak memory of a process of its own.

What is compared runs in turn, so that a busy machine slows all of it alike. The memory is that of two
iterations of stage 1:

python -m internalize.benchmarks.resources "depth 1, width 64, C_2" ours 1
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import torch

PEAK_SIZE = 2048
SHORTEST = 0.05
"""Seconds of a sample; faster functions are called several times for it."""


def seconds_each(functions: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of a call for each function, called in turn; the first round warms up."""
    calls = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, round(SHORTEST / (time.perf_counter() - start)))
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            samples[name].append((time.perf_counter() - start) / calls[name])
    return {name: statistics.median(values) for name, values in samples.items()}


def matrix_product(dtype: torch.dtype) -> Callable[[], None]:
    """A large product, which shows what the machine can do with torch's threads."""
    a, b = (torch.randn(PEAK_SIZE, PEAK_SIZE).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def run() -> None:
        torch.mm(a, b, out=out)

    return run


MATRIX_PRODUCT_FLOPS = 2.0 * PEAK_SIZE**3


Engine = Literal["ours", "hf"]
KILOBYTES_A_MEGABYTE = 1024


def peak_memory(case_name: str, engine: Engine, threads: int) -> float:
    """Megabytes, imports and compiled code included."""
    command = [sys.executable, "-m", __name__, case_name, engine, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main(case_name: str, engine: str, threads: str) -> None:
    import torch

    from internalize.benchmarks.cases import CASES, hugging_face, ours

    torch.set_num_threads(int(threads))
    case = next(case for case in CASES if case.name == case_name)
    iterate = ours(case, int(threads)) if engine == "ours" else hugging_face(case, "sdpa")
    for _ in range(2):
        iterate(1)
    print(high_water_mark())


def high_water_mark() -> float:
    """Megabytes; from /proc where there is one, for what `getrusage` says of a child includes its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) / KILOBYTES_A_MEGABYTE
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KILOBYTES_A_MEGABYTE


if __name__ == "__main__":
    main(*sys.argv[1:])
