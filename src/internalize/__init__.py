"""A laboratory for learning through internalization."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internalize.curricula import Curriculum, ScheduleConfig
    from internalize.experiments.chain import ChainConfig
    from internalize.experiments.chain.config import EvaluationConfig, OptimizerConfig
    from internalize.experiments.execution import Execution
    from internalize.experiments.training import train
    from internalize.models.gpt2 import ModelConfig
    from internalize.runs.folder import Run
    from internalize.tasks import Semiautomaton, parse_task
    from internalize.tasks.semiautomaton import semiautomaton

# name → module, imported when first asked for: `import internalize` itself is instant
_PUBLIC = {
    "ChainConfig": "internalize.experiments.chain.config",
    "Curriculum": "internalize.curricula",
    "EvaluationConfig": "internalize.experiments.chain.config",
    "Execution": "internalize.experiments.execution",
    "ModelConfig": "internalize.models.gpt2",
    "OptimizerConfig": "internalize.experiments.chain.config",
    "Run": "internalize.runs.folder",
    "ScheduleConfig": "internalize.curricula",
    "Semiautomaton": "internalize.tasks",
    "parse_task": "internalize.tasks",
    "semiautomaton": "internalize.tasks.semiautomaton",
    "train": "internalize.experiments.training",
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
    "parse_task",
    "semiautomaton",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'internalize' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
