"""`internalize resume` with fields of the config: allowed where they change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from internalize.configs.codec import changed_fields, to_json
from internalize.configs.command_line import parse
from internalize.errors import BadInput
from internalize.runs.folder import Run
from internalize.runtime.kinds import ExperimentConfig


def refuse_changes(run: Run, config: ExperimentConfig, words: Sequence[str]) -> None:
    """Refuse words of the command line that would make the run another one, naming the field."""
    if not words:
        return
    wanted = parse(type(config), list(words), "internalize resume", default=config)
    for name in changed_fields(to_json(config), to_json(wanted)):
        raise BadInput(
            name,
            f"cannot change on resume: {run.path} was made with another value, and another value is another "
            f"run; use internalize train",
        )
