"""Configs: frozen, nested dataclasses to JSON and back, from files and from Python.

Unknown keys and wrong types are errors with a name.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from internalize.errors import BadInput, closest, require

Config = TypeVar("Config")
LEFT_OUT_UNLESS_SET: Mapping[str, bool] = {"left_out_unless_set": True}
"""Metadata of a field that came later: None is not written, so that older configs keep their JSON and hash."""
IF_NOT_GIVEN = "if_not_given"
"""Metadata of a field that may be left open (None): the number that is written for it then, from the config."""
OBJECTS = "objects"
"""Metadata of a text field: what to do for whoever gives an object of Python where its name is wanted."""
LARGEST = 2**64
"""No whole number in a config needs to be as large, and most libraries take none that is."""


def to_json(value: Any, settled: bool = True) -> Any:
    """A config as plain JSON: dataclasses become objects, tuples become lists.

    settled: fields that follow from others where they are left open have their numbers, so that a run's name
    and folder say what it computes. Not for a config whose other fields are still to be changed.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(item, settled) for name, item in _written_fields(value, settled)}
    if isinstance(value, list | tuple):
        return [to_json(item, settled) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): to_json(item, settled) for key, item in value.items()}
    return value


def _written_fields(config: Any, settled: bool) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is None and settled and IF_NOT_GIVEN in field.metadata:
            value = field.metadata[IF_NOT_GIVEN](config)
        if value is not None or not field.metadata.get("left_out_unless_set"):
            yield field.name, value


def from_json(cls: type[Config], data: Any, path: str = "") -> Config:
    """Build the dataclass from JSON. Missing keys take the field's default."""
    values = convert_fields(cls, data, path)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if missing and field.name not in values:
            raise BadInput(_within(path, field.name), "is missing")
    return cls(**values)


def convert_fields(cls: type[Any], data: Any, path: str = "") -> dict[str, Any]:
    """The entries of the data, each of the type that the dataclass has for its field; it is not built."""
    if not isinstance(data, dict):
        raise BadInput(path or cls.__name__, f"must be an object of fields, got {data!r}")
    hints, known = type_hints(cls), [field.name for field in dataclasses.fields(cls)]
    for key in data:
        if key not in known:
            said = f"unknown field{closest(str(key), known)}; known: {', '.join(known)}"
            raise BadInput(_within(path, key), said)
    return {name: _convert(hints[name], data[name], _within(path, name)) for name in known if name in data}


_HINTS: dict[type[Any], dict[str, Any]] = {}


def type_hints(cls: type[Any]) -> dict[str, Any]:
    """The types of a dataclass's fields; looked up once, which is slow."""
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]


def _within(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def changed_fields(old: Any, new: Any, path: str = "") -> list[str]:
    """The dotted names of the fields in which two JSON objects differ."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [path]
    names = list(dict.fromkeys([*old, *new]))
    return [
        found
        for name in names
        for found in changed_fields(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    ]


def _convert(hint: Any, value: Any, path: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, path)
    if origin is Literal:
        if value not in arguments:
            choices = ", ".join(str(choice) for choice in arguments)
            raise BadInput(
                path, f"must be one of {choices}{closest(str(value), list(map(str, arguments)))}; got {value!r}"
            )
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, path)
    if origin is dict:
        if not isinstance(value, dict):
            raise BadInput(path, f"must be an object, got {value!r}")
        return {key: _convert(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_json(hint, value, path)  # type: ignore[arg-type]
    return _convert_scalar(hint, value, path)


def _convert_union(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in choices:
        return None
    problem: BadInput | None = None
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _convert(choice, value, path)
        except BadInput as error:
            problem = problem or error
    raise problem or BadInput(path, f"cannot be {value!r}")


def _convert_tuple(arguments: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise BadInput(path, f"must be a list, got {value!r}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_convert(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if len(value) != len(arguments):
        raise BadInput(path, f"must have {len(arguments)} entries, got {len(value)}")
    return tuple(
        _convert(hint, item, f"{path}[{i}]")
        for i, (hint, item) in enumerate(zip(arguments, value, strict=True))
    )


def _convert_scalar(hint: Any, value: Any, path: str) -> Any:
    if hint in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return _convert_number(hint, value, path)
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise BadInput(path, f"must be {names.get(hint, str(hint))}, got {value!r}")


def _convert_number(hint: type[int] | type[float], value: float, path: str) -> float:
    if isinstance(value, int) and abs(value) >= LARGEST:  # perhaps too large for a float, or to be written out
        raise BadInput(path, f"must be less than 2^64, got a number of {value.bit_length()} bits")
    if hint is float:
        return float(value)
    if not float(value).is_integer():
        raise BadInput(path, f"must be a whole number, got {value!r}")
    return _convert_number(int, int(value), path) if isinstance(value, float) else value


# Configs that are made in Python, held to the types that they would have from JSON -----------------------


Values = Mapping[str, Any]


def typed(
    path: str = "", completed: Callable[[Values], Values] | None = None
) -> Callable[[type[Config]], type[Config]]:
    """For a dataclass of fields that a user sets: looks at their types before its own `__post_init__` does.

    So that a comparison there never meets text where it wants a number. Stands below `@dataclass`.
    path: what comes before the field's name where the dataclass is part of another.
    completed: gives the fields their values where these follow from others.
    """

    def decorate(cls: type[Config]) -> type[Config]:
        check = getattr(cls, "__post_init__", None)

        def __post_init__(self: Config) -> None:  # noqa: N807
            values = _converted(self, path)
            for name, value in (completed(values) if completed else values).items():
                object.__setattr__(self, name, value)
            if check is not None:
                check(self)
            for name, value in vars(self).items():  # JSON has no such number: the run could not be read again
                good = not isinstance(value, float) or math.isfinite(value)
                field = name.replace("_", "-")
                require(good, f"{path}.{field}" if path else field, f"must be finite, got {value}")

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
    hints = type_hints(type(config))
    for field in fields(config):
        if hints[field.name] in (str, str | None):
            said = field.metadata.get(OBJECTS, "name your own object as module:attribute or file.py:name")
            _refuse_objects(_within(path, field.name), values[field.name], said)
    return convert_fields(type(config), values, path)


def _refuse_objects(field: str, value: Any, instead: str) -> None:
    if value is None or isinstance(value, str | int | float):
        return
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    raise BadInput(field, f"must be text, got {what}: {instead}")
