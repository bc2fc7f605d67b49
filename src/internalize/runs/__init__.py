"""Run folders, checkpoints and locks. This room knows tensors and rows, not tasks."""

from internalize.runs.folder import Run
from internalize.runs.table import Table

__all__ = ["Run", "Table"]
