"""Many configs: a file or a call says which, processes here or a cluster carry them out, each once."""

from internalize.sweeps.collection import Collected, collect
from internalize.sweeps.run import SweepOutcome, run_sweep
from internalize.sweeps.sweep import BadSweep, Case, Sweep, read_sweep, sweep_of

__all__ = [
    "BadSweep",
    "Case",
    "Collected",
    "Sweep",
    "SweepOutcome",
    "collect",
    "read_sweep",
    "run_sweep",
    "sweep_of",
]
