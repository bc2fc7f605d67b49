"""A laboratory for learning through internalization."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internalize.curricula import Curriculum, ScheduleConfig
    from internalize.kinds.chain import ChainConfig
    from internalize.kinds.chain.config import EvaluationConfig, OptimizerConfig
    from internalize.kinds.entrance import train
    from internalize.kinds.text.config import TextConfig
    from internalize.kinds.text.rows import write_rows
    from internalize.models.gpt2 import ModelConfig
    from internalize.runs.folder import Run
    from internalize.runtime.execution import Execution
    from internalize.tasks import Semiautomaton, parse_task
    from internalize.tasks.semiautomaton import semiautomaton

# name → module, imported when first asked for: `import internalize` itself is instant
_PUBLIC = {
    "ChainConfig": "internalize.kinds.chain.config",
    "Curriculum": "internalize.curricula",
    "EvaluationConfig": "internalize.kinds.chain.config",
    "Execution": "internalize.runtime.execution",
    "ModelConfig": "internalize.models.gpt2",
    "OptimizerConfig": "internalize.kinds.chain.config",
    "Run": "internalize.runs.folder",
    "ScheduleConfig": "internalize.curricula",
    "Semiautomaton": "internalize.tasks",
    "TextConfig": "internalize.kinds.text.config",
    "parse_task": "internalize.tasks",
    "semiautomaton": "internalize.tasks.semiautomaton",
    "train": "internalize.kinds.entrance",
    "write_rows": "internalize.kinds.text.rows",
}

__all__ = [
    "ChainConfig",
    "Curriculum",
    "EvaluationConfig",
    "Execution",
    "ModelConfig",
    "OptimizerConfig",
    "Run",
    "ScheduleConfig",
    "Semiautomaton",
    "TextConfig",
    "parse_task",
    "semiautomaton",
    "train",
    "write_rows",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'internalize' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
