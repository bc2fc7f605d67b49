"""Which runs a sweep has: a base config, axes and seeds, checked as a whole before anything runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from internalize.configs.codec import Json, to_json
from internalize.configs.data_files import read_data
from internalize.errors import BadInput, closest, require
from internalize.experiments.kinds import ExperimentConfig, config_class, config_from_json
from internalize.runs.exporting import flat

KEYS = ("name", "kind", "base", "grid", "zip", "cases", "seeds")
"""What a sweep file may say."""
Fields = dict[str, Json]


@dataclass(frozen=True)
class Case:
    """One run to be."""

    config: ExperimentConfig
    fields: Mapping[str, Json]
    """What tells it from its siblings: dotted name of an axis → value, and the seed."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.fields.items())


@dataclass(frozen=True)
class Sweep:
    """All runs of a sweep, in order."""

    name: str
    cases: tuple[Case, ...]


class BadSweep(BadInput):
    """A sweep of which something cannot run. Every problem is one line that names the field and the case."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        field, _, message = problems[0].partition(": ")
        super().__init__(field, f"{message}{more}")
        self.problems = tuple(problems)


def sweep_of(
    name: str,
    kind: str,
    base: Mapping[str, Any],
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    zipped: Mapping[str, Sequence[Any]] | None = None,
    cases: Sequence[Mapping[str, Any]] | None = None,
    seeds: int | Sequence[int] = 1,
) -> Sweep:
    """Every case with every entry of the zipped axes, every point of the grid and every seed.

    base: config fields, nested or dotted. The names of axes and cases are dotted (`model.depth`), or those of a
    group of fields, with a mapping as value.
    seeds: a number of seeds, from the base's seed (or 0) up, or the seeds themselves.
    """
    config_class(kind)
    base = to_json(dict(base))
    _refuse_clashes({"cases": _names_in(cases or []), "zip": list(zipped or {}), "grid": list(grid or {})})
    found, problems = [], _Problems()
    for fields, seed in itertools.product(
        _combinations(cases, zipped, grid), _seeds(seeds, base.get("seed", 0))
    ):
        described = {**flat(fields, lists_as_text=False), "seed": seed}
        try:
            config = config_from_json(kind, _filled_in(base, {**fields, "seed": seed}))
            config.check({})
        except BadInput as problem:
            problems.add(problem, described)
        else:
            found.append(Case(config, described))
    problems.raise_if_any()
    _refuse_twins(found)
    return Sweep(name, tuple(found))


def read_sweep(path: Path | str) -> Sweep:
    """The sweep that a YAML or JSON file describes."""
    path = Path(path)
    data = _read(path)
    for key in data:
        require(
            key in KEYS, str(key), f"unknown in {path}{closest(str(key), list(KEYS))}; known: {', '.join(KEYS)}"
        )
    for key, shape, word in (
        ("base", dict, "fields"),
        ("grid", dict, "name: values"),
        ("zip", dict, "name: values"),
    ):
        require(
            isinstance(data.get(key, {}), shape), key, f"must be a mapping of {word}, got {data.get(key)!r}"
        )
    return sweep_of(
        str(data.get("name", path.stem)),
        str(data.get("kind", "chain")),
        data.get("base") or {},
        grid=data.get("grid"),
        zipped=data.get("zip"),
        cases=data.get("cases"),
        seeds=data.get("seeds", 1),
    )


def _read(path: Path) -> dict[str, Any]:
    data = read_data(path, "sweep")
    require(isinstance(data, dict), "sweep", f"{path} must hold a mapping with the keys {', '.join(KEYS)}")
    return {key: _numbers(value) for key, value in data.items()}


def _numbers(value: Any) -> Any:
    """`1e-3` is a number to people and JSON, but text to YAML, which wants a point: `1.0e-3`."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if isinstance(value, str) and re.fullmatch(r"[+-]?\d+[eE][+-]?\d+", value) else value


# Combining -----------------------------------------------------------------------------------------------


def _combinations(
    cases: Sequence[Mapping[str, Any]] | None,
    zipped: Mapping[str, Sequence[Any]] | None,
    grid: Mapping[str, Sequence[Any]] | None,
) -> Iterator[Fields]:
    """The last axis of the grid turns fastest."""
    for case in [{}] if cases is None else cases:
        for entry in _zip(zipped or {}):
            names = list(grid or {})
            for values in itertools.product(*(_values("grid", name, (grid or {})[name]) for name in names)):
                yield to_json({**case, **entry, **dict(zip(names, values, strict=True))})


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


def _seeds(seeds: Any, first: Any) -> list[int]:
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        require(seeds >= 1, "seeds", f"must be at least 1, got {seeds}")
        require(isinstance(first, int), "base.seed", f"must be a whole number, got {first!r}")
        return list(range(first, first + seeds))
    good = isinstance(seeds, Sequence) and not isinstance(seeds, str) and len(seeds) > 0
    good = good and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds)
    require(good, "seeds", f"must be a number of seeds or a list of them, got {seeds!r}")
    require(len(set(seeds)) == len(seeds), "seeds", f"must all be different, got {list(seeds)!r}")
    return list(seeds)


def _names_in(cases: Any) -> list[str]:
    good = isinstance(cases, Sequence) and all(isinstance(case, Mapping) for case in cases)
    require(good, "cases", f"must be a list of mappings of fields, got {cases!r}")
    return list(dict.fromkeys(name for case in cases for name in case))


def _refuse_clashes(names: Mapping[str, list[str]]) -> None:
    owner: dict[str, str] = {}
    for axis, own in names.items():
        for name in own:
            require(name != "seed", f"{axis}.seed", "seeds have an entry of their own: seeds")
            require(name not in owner, f"{axis}.{name}", f"{owner.get(name)} sets this field already")
            owner[name] = axis


def _filled_in(base: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The base's fields and, over them, those of a case."""
    data: dict[str, Any] = {}
    for name, value in (*base.items(), *fields.items()):
        _put(data, name.split("."), deepcopy(value), name)
    return data


def _put(data: dict[str, Any], path: Sequence[str], value: Any, name: str) -> None:
    if len(path) > 1:
        inner = data.setdefault(path[0], {})
        require(isinstance(inner, dict), name, f"{path[0]} is no group of fields, but {inner!r}")
        _put(inner, path[1:], value, name)
    elif isinstance(value, dict) and isinstance(data.get(path[0]), dict):
        for key, item in value.items():
            _put(data[path[0]], key.split("."), item, f"{name}.{key}")
    else:
        data[path[0]] = value


# Refusing ------------------------------------------------------------------------------------------------


class _Problems:
    """What is wrong, each thing once, with the first case that has it."""

    def __init__(self) -> None:
        self._cases: dict[str, list[Fields]] = {}

    def add(self, problem: BadInput, fields: Fields) -> None:
        self._cases.setdefault(str(problem), []).append(fields)

    def raise_if_any(self) -> None:
        lines = []
        for problem, cases in self._cases.items():
            first = " ".join(f"{name}={value}" for name, value in cases[0].items())
            others = f", {len(cases)} cases in all" if len(cases) > 1 else ""
            lines.append(f"{' '.join(problem.split())} (in {first}{others})")
        if lines:
            raise BadSweep(lines)


def _refuse_twins(cases: Sequence[Case]) -> None:
    """Two equal configs are one run: counted twice it would make every interval too short."""
    known: dict[Any, Case] = {}
    for case in cases:
        twin = known.setdefault(case.config, case)
        require(twin is case, "cases", f"{case} and {twin} are the same run")
