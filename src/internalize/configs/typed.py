"""Configs that are made in Python, held to the types that they would have from JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from internalize.configs.codec import convert_fields, type_hints
from internalize.errors import BadInput, require

Config = TypeVar("Config")


def typed(path: str = "") -> Callable[[type[Config]], type[Config]]:
    """For a dataclass of fields that a user sets: looks at their types before its own `__post_init__` does.

    So that a comparison there never meets text where it wants a number. Stands below `@dataclass`.
    path: what comes before the field's name where the dataclass is part of another.
    """

    def decorate(cls: type[Config]) -> type[Config]:
        check = getattr(cls, "__post_init__", None)

        def __post_init__(self: Config) -> None:  # noqa: N807
            for name, value in _converted(self, path).items():
                object.__setattr__(self, name, value)
            if check is not None:
                check(self)

        cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
        return cls

    return decorate


def checked(config: Config) -> Config:
    """The same config as its JSON would give it back: 4.0 is 4, a dict becomes its dataclass."""
    made = is_dataclass(config) and not isinstance(config, type)
    require(made, "config", "must be the config of an experiment, for example ChainConfig(task='C2')")
    return type(config)(**_converted(config, ""))


def _converted(config: Any, path: str) -> dict[str, Any]:
    """The config's values, each of its field's type; a wrong one is refused by the field's name."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    for name, hint in type_hints(type(config)).items():
        if hint in (str, str | None) and name in values:
            _refuse_objects(f"{path}.{name}" if path else name, values[name])
    return convert_fields(type(config), values, path)


def _refuse_objects(field: str, value: Any) -> None:
    if value is None or isinstance(value, str | int | float):
        return
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    raise BadInput(field, f"must be text, got {what}: name your own object as module:attribute or file.py:name")
