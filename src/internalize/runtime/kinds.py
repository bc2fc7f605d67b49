"""The kinds of experiment, by name, and what the config of each offers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Protocol

import torch

from internalize.configs.codec import from_json
from internalize.configs.named import Copies, Source
from internalize.errors import BadInput
from internalize.runtime.experiment import Experiment

KINDS = {
    "chain": "internalize.kinds.chain.config:ChainConfig",
    "parity": "internalize.kinds.parity.config:ParityConfig",
    "selfplay": "internalize.kinds.selfplay.config:SelfPlayConfig",
    "hints": "internalize.kinds.hints.config:HintsConfig",
}
"""kind → its config class. A new kind is one more line here."""


class ExperimentConfig(Protocol):
    """The frozen config of a kind: the identity of its runs."""

    kind: ClassVar[str]
    headline: ClassVar[dict[str, str]]
    """Which entries of a row a live view shows: key → heading."""

    @property
    def seed(self) -> int: ...

    @property
    def samples_per_step(self) -> int:
        """Training samples that one step uses, for the rate that a view shows."""

    def check(self, copies: Copies) -> list[Source]:
        """Refuse what does not fit together; returns the user's files that the config names."""

    def label(self) -> str:
        """The readable part of the run's folder name."""

    def build(self, device: torch.device, copies: Copies) -> Experiment[Any]: ...


def config_class(kind: str) -> type[ExperimentConfig]:
    if kind not in KINDS:
        raise BadInput("kind", f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    found: type[ExperimentConfig] = getattr(import_module(module), name)
    return found


def config_from_json(kind: str, data: Mapping[str, Any]) -> ExperimentConfig:
    return from_json(config_class(kind), dict(data))
