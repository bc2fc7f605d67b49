"""A config whose files are not where it says, because its run is opened from another folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from internalize.configs.named import Copies, Source, is_object_name
from internalize.kinds.text.config import TextConfig


def located(config: TextConfig, copies: Copies) -> TextConfig:
    """The config with the names of its files as they are found now."""

    def place(name: str) -> str:
        return str(copies[name]) if name in _moved(copies) else name

    return replace(
        config,
        data=place(config.data),
        eval=tuple(f"{name}={place(file)}" for name, file in config.eval_files().items()),
        model=place(config.model),
        tokenizer=None if config.tokenizer is None else place(config.tokenizer),
    )


def as_written(sources: Sequence[Source], copies: Copies) -> tuple[Source, ...]:
    """The files under the names that the config gives them, which are part of a run's identity."""
    names: dict[str, list[str]] = {}
    for name in _moved(copies):
        names.setdefault(str(copies[name]), []).append(name)
    return tuple(
        replace(source, name=name) for source in sources for name in names.get(source.name, [source.name])
    )


def _moved(copies: Copies) -> list[str]:
    """All but objects of Python, whose copies are found by name."""
    return [name for name in copies if not is_object_name(name)]
