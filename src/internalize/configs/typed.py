"""Configs that are made in Python, held to the types that they would have from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, make_dataclass
from typing import Any, TypeVar, get_type_hints

from internalize.configs.codec import from_json, to_json
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
            for name, value in _converted(type(self), _values(self), path).items():
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
    cls = type(config)
    parts = {field.name for field in fields(_without_checks(cls)) if is_dataclass(field.type)}
    values = {name: to_json(value) if name in parts else value for name, value in _values(config).items()}
    return cls(**_converted(cls, values, ""))


def _values(config: Any) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in fields(config)}


def _converted(cls: type[Any], values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The values, each of its field's type; a wrong one is refused by the field's name."""
    plain = _without_checks(cls)
    for field in fields(plain):
        if field.type in (str, str | None):
            _refuse_objects(f"{path}.{field.name}" if path else field.name, values[field.name])
    return _values(from_json(plain, dict(values), path))


_PLAIN: dict[type[Any], type[Any]] = {}


def _without_checks(cls: type[Any]) -> type[Any]:
    """A dataclass of the same fields that takes whatever it is given. Made once: names of types are slow."""
    if cls not in _PLAIN:
        hints = get_type_hints(cls)
        _PLAIN[cls] = make_dataclass(cls.__name__, [(field.name, hints[field.name]) for field in fields(cls)])
    return _PLAIN[cls]


def _refuse_objects(field: str, value: Any) -> None:
    if value is None or isinstance(value, str | int | float):
        return
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    raise BadInput(field, f"must be text, got {what}: name your own object as module:attribute or file.py:name")
