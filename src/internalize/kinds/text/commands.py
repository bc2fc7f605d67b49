"""`internalize text`: a language model on one's own rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from internalize.kinds.commands import run_experiment
from internalize.kinds.text.config import TextConfig
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import SideBySide


@dataclass(frozen=True)
class TextArguments:
    """Teach a language model to answer with a chain of words, then take the words away.

    For example: internalize text --data train.jsonl --eval id=test.jsonl --model config.json --tokenizer words
    """

    config: Annotated[TextConfig, tyro.conf.arg(name="")] = field(default_factory=TextConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)


def text_command(arguments: TextArguments) -> int | None:
    return run_experiment(arguments.config, arguments.execution, arguments.many)
