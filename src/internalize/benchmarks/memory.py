"""Peak resident memory of an engine, measured in a process of its own that does two iterations of stage 1.

python -m internalize.benchmarks.memory "depth 1, width 64, C_2" ours 1
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

Engine = Literal["ours", "hf"]
KILOBYTES_A_MEGABYTE = 1024


def peak_memory(case_name: str, engine: Engine, threads: int) -> float:
    """Megabytes, imports and compiled code included."""
    command = [sys.executable, "-m", __name__, case_name, engine, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main(case_name: str, engine: str, threads: str) -> None:
    import torch

    from internalize.benchmarks.cases import CASES
    from internalize.benchmarks.engines import hugging_face, ours

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
