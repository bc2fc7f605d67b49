"""Shapes in signatures, `Float[Tensor, "batch width"]`, checked in every call while tests run, and only then.

The package imports jaxtyping for the type checker alone, so that a user neither needs it nor waits for it. Here
a finder of modules evaluates these annotations after a module was loaded, and wraps the functions that have
some.
A call whose shapes were checked before is not checked again: training takes thousands of equal steps.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

import jaxtyping
from beartype import beartype
from torch import Tensor

ROOMS = ("models", "measure", "sequences", "constructions")
NOT_THERE = "internalize.models.kernels"  # compiled by numba, which has types of its own
SHAPED = re.compile(r"\b\w+\[Tensor, ")
NAMES = {name: getattr(jaxtyping, name) for name in ("Bool", "Float", "Float64", "Int", "Shaped")}


def in_a_room(module: str) -> bool:
    return module.startswith("internalize.") and module.split(".")[1] in ROOMS


class ShapeFinder(MetaPathFinder):
    """Finds the modules of the rooms whose shapes are checked."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not in_a_room(name) or name.startswith(NOT_THERE):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = ShapeLoader(spec.loader)
        return spec


class ShapeLoader(Loader):
    """Loads as another loader does, then wraps what has shapes."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        wrap_all(module, vars(module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def check_shapes() -> None:
    """From now on, in every module that is not imported yet."""
    early = [name for name in sys.modules if in_a_room(name)]
    assert not early, f"imported too early to be checked: {early}"
    sys.meta_path.insert(0, ShapeFinder())


def wrap_all(owner: Any, namespace: dict[str, Any]) -> None:
    """Wrap the functions and methods that the module or class itself defines."""
    module = namespace["__name__"]
    for name, found in list(vars(owner).items()):
        if getattr(found, "__module__", None) != module:
            continue
        if isinstance(found, FunctionType) and has_shapes(found):
            setattr(owner, name, checked(found, namespace))
        elif inspect.isclass(found) and owner is not found:
            wrap_all(found, namespace)
            if is_dataclass(found) and "__init__" in vars(found) and has_shapes(found.__init__):
                found.__init__ = checked(found.__init__, namespace)  # type: ignore[method-assign]


def has_shapes(function: Any) -> bool:
    return any(isinstance(a, str) and SHAPED.search(a) for a in function.__annotations__.values())


def checked(function: Any, namespace: dict[str, Any]) -> Callable[..., Any]:
    """The function, whose shapes are checked at every call that differs from all before."""
    slow = jaxtyping.jaxtyped(only_shapes(function, namespace), typechecker=beartype)
    seen: set[Any] = set()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        key = (*map(describe, args), *((name, describe(value)) for name, value in kwargs.items()))
        if key in seen:
            return function(*args, **kwargs)
        result = slow(*args, **kwargs)
        seen.add(key)
        return result

    return call


def describe(value: Any) -> Any:
    """What of an argument decides about shapes."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, tuple) and all(isinstance(entry, int) for entry in value):
        return value
    return id(value)


def only_shapes(function: Any, namespace: dict[str, Any]) -> FunctionType:
    """The same function with its shapes as its only annotations: other types are mypy's concern."""
    annotations = {
        name: eval(text, namespace | NAMES)
        for name, text in function.__annotations__.items()
        if isinstance(text, str) and SHAPED.search(text) and "Callable" not in text
    }

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    parameters = [
        p.replace(annotation=annotations.get(p.name, inspect.Parameter.empty))
        for p in inspect.signature(function).parameters.values()
    ]
    returned = annotations.get("return", inspect.Signature.empty)
    wrapped = wraps(function)(call)
    wrapped.__annotations__ = annotations
    wrapped.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]
