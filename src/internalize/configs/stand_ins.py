"""What stands in for torch and other heavy libraries while a command is only asked for its help.

The options of a command are in the file that carries it out, which imports what it computes with. Help
computes nothing, and torch alone takes more than a second to import. So for this once classes are derived from
`Nothing`, and all modules that have met it are forgotten afterwards. A module that needs more than that while
it is imported fails here, and is then imported as always.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HEAVY = {"torch", "numba", "llvmlite", "scipy", "transformers", "matplotlib", "safetensors", "jaxtyping"}


class _Anything(ABCMeta):
    """Whatever is asked of `Nothing` is `Nothing` again; as a decorator it leaves what it is given."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __getitem__(cls, key: Any) -> Any:
        return Nothing

    def __or__(cls, other: Any) -> Any:
        return Nothing

    __ror__ = __mul__ = __rmul__ = __truediv__ = __or__  # unions of types; numbers reckoned with at the top

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __call__(cls, *given: Any, **options: Any) -> Any:
        if cls is not Nothing:  # a class of ours that is derived from it
            return super().__call__(*given, **options)
        decorates = len(given) == 1 and not options and callable(given[0])
        return given[0] if decorates else Nothing


class Nothing(metaclass=_Anything):
    """In the place of every class, function and number of a library that is not there."""


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        heavy = fullname.partition(".")[0] in HEAVY
        return ModuleSpec(fullname, self, is_package=True) if heavy else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


@contextmanager
def standing_in() -> Iterator[None]:
    """Within, heavy libraries are empty. What fails for this reason ends the block, and no more."""
    if any(name in sys.modules for name in HEAVY):  # they are there already: nothing is to be saved
        yield
        return
    finder, before = _Finder(), set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        with suppress(Exception):
            yield
    finally:
        sys.meta_path.remove(finder)
        _forget(
            [name for name in set(sys.modules) - before if name.partition(".")[0] in HEAVY | {"internalize"}]
        )


def _forget(names: Sequence[str]) -> None:
    """As if they had never been imported: also their package no longer has them."""
    for name in names:
        del sys.modules[name]
    for name in names:
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(last, None)
