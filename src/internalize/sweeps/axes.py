"""The cases, zipped lists, grid and seeds of a sweep: combined, and refused where two set the same field."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from internalize.configs.codec import Json, to_json
from internalize.errors import require

Fields = dict[str, Json]


@dataclass(frozen=True)
class Axes:
    """What a sweep varies besides the seed. Whatever is None is not there."""

    cases: Sequence[Mapping[str, Any]] | None = None
    zipped: Mapping[str, Sequence[Any]] | None = None
    grid: Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        cases = self.cases
        good = isinstance(cases, Sequence | None) and all(isinstance(case, Mapping) for case in cases or ())
        require(good, "cases", f"must be a list of mappings of fields, got {cases!r}")
        require(cases is None or len(cases) > 0, "cases", "must name at least one case, got an empty list")
        self._refuse_clashes()

    def combinations(self) -> Iterator[Fields]:
        """The last axis of the grid turns fastest."""
        names = list(self.grid or {})
        for case in [{}] if self.cases is None else self.cases:
            for entry in _zip(self.zipped or {}):
                columns = (_values("grid", name, (self.grid or {})[name]) for name in names)
                for values in itertools.product(*columns):
                    yield to_json({**case, **entry, **dict(zip(names, values, strict=True))})

    def _refuse_clashes(self) -> None:
        """A field may be set by one of them only, also where one sets a group that holds it."""
        owner: dict[str, str] = {}
        for axis, names in self._settings():
            for name in names:
                require(name != "seed", f"{axis}.seed", "seeds have an entry of their own: seeds")
                other = next((known for known in owner if _overlap(known, name)), None)
                also = "" if other == name else f" as {other}"
                require(
                    other is None, f"{axis}.{name}", f"{owner.get(other or '')} sets this field already{also}"
                )
            owner |= dict.fromkeys(names, axis)

    def _settings(self) -> Iterator[tuple[str, list[str]]]:
        """The cases, then every zipped list, then every line of the grid: with the fields that it sets."""
        yield "cases", _fields_in(leaves("cases", case) for case in self.cases or ())
        for axis, columns in (("zip", self.zipped or {}), ("grid", self.grid or {})):
            for name, column in columns.items():
                yield axis, _fields_in(leaves(axis, {name: value}) for value in _values(axis, name, column))


def leaves(where: str, fields: Mapping[str, Any]) -> list[str]:
    """The dotted names of all that the fields set; refused if they set something twice, nested and dotted."""
    found: list[str] = []
    for name, value in fields.items():
        group = isinstance(value, Mapping)
        new = [f"{name}.{leaf}" for leaf in leaves(where, value)] if group else [str(name)]
        for leaf in new:
            clash = next((known for known in found if _overlap(known, leaf)), None)
            require(clash is None, f"{where}.{leaf}", f"is set twice: {clash} is there, too")
        found += new
    return found


def seeds_of(seeds: Any, first: Any) -> list[int]:
    """first: where a number of seeds begins."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        require(seeds >= 1, "seeds", f"must be at least 1, got {seeds}")
        require(isinstance(first, int), "base.seed", f"must be a whole number, got {first!r}")
        return list(range(first, first + seeds))
    good = isinstance(seeds, Sequence) and not isinstance(seeds, str) and len(seeds) > 0
    good = good and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds)
    require(good, "seeds", f"must be a number of seeds or a list of them, got {seeds!r}")
    require(len(set(seeds)) == len(seeds), "seeds", f"must all be different, got {list(seeds)!r}")
    return list(seeds)


def _zip(axes: Mapping[str, Sequence[Any]]) -> list[Fields]:
    columns = {name: _values("zip", name, values) for name, values in axes.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
    require(len(set(lengths.values())) <= 1, "zip", f"all axes must have as many values: {told}")
    if not columns:
        return [{}]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _values(axis: str, name: str, values: Any) -> list[Any]:
    good = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
    require(good, f"{axis}.{name}", f"must be a list of values, got {values!r}")
    return list(values)


def _fields_in(several: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(several)))


def _overlap(first: str, second: str) -> bool:
    """Whether they are the same field, or one is a group that holds the other."""
    return first == second or first.startswith(f"{second}.") or second.startswith(f"{first}.")
