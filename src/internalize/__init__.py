"""A laboratory for learning through internalization."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internalize.analysis.open_run import open_run
    from internalize.curricula import Curriculum, ScheduleConfig
    from internalize.errors import BadInput
    from internalize.kinds.chain import ChainConfig
    from internalize.kinds.chain.config import EvaluationConfig, OptimizerConfig
    from internalize.kinds.entrance import train
    from internalize.kinds.hints.config import HintsConfig
    from internalize.kinds.parity.config import ParityConfig
    from internalize.kinds.selfplay.config import SelfPlayConfig
    from internalize.kinds.text.config import TextConfig
    from internalize.kinds.text.rows import write_rows
    from internalize.models.config import ModelConfig
    from internalize.runs.folder import Run
    from internalize.runtime.execution import Execution
    from internalize.runtime.kind import Kind
    from internalize.tasks import Semiautomaton, parse_task
    from internalize.tasks.semiautomaton import semiautomaton

    __version__: str

# name → module, imported when first asked for: `import internalize` itself is instant
_PUBLIC = {
    "BadInput": "internalize.errors",
    "ChainConfig": "internalize.kinds.chain.config",
    "Curriculum": "internalize.curricula",
    "EvaluationConfig": "internalize.kinds.chain.config",
    "Execution": "internalize.runtime.execution",
    "HintsConfig": "internalize.kinds.hints.config",
    "Kind": "internalize.runtime.kind",
    "ModelConfig": "internalize.models.config",
    "OptimizerConfig": "internalize.kinds.chain.config",
    "ParityConfig": "internalize.kinds.parity.config",
    "Run": "internalize.runs.folder",
    "ScheduleConfig": "internalize.curricula",
    "SelfPlayConfig": "internalize.kinds.selfplay.config",
    "Semiautomaton": "internalize.tasks",
    "TextConfig": "internalize.kinds.text.config",
    "open_run": "internalize.analysis.open_run",
    "parse_task": "internalize.tasks",
    "semiautomaton": "internalize.tasks.semiautomaton",
    "train": "internalize.kinds.entrance",
    "write_rows": "internalize.kinds.text.rows",
}

__all__ = [
    "BadInput",
    "ChainConfig",
    "Curriculum",
    "EvaluationConfig",
    "Execution",
    "HintsConfig",
    "Kind",
    "ModelConfig",
    "OptimizerConfig",
    "ParityConfig",
    "Run",
    "ScheduleConfig",
    "SelfPlayConfig",
    "Semiautomaton",
    "TextConfig",
    "__version__",
    "open_run",
    "parse_task",
    "semiautomaton",
    "train",
    "write_rows",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from internalize.runs.provenance import package_version

        return package_version()
    if name not in _PUBLIC:
        raise AttributeError(f"module 'internalize' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """What notebooks complete: all of it, though nothing is imported yet."""
    return sorted(__all__)
