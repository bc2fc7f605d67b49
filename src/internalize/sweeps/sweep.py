"""Which runs a sweep has: a base config, axes and seeds, checked as a whole before anything runs.

The axes are cases, zipped lists and a grid: combined, and refused where two of them set the same field.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

from internalize.configs.codec import from_json, to_json
from internalize.configs.files import read_data
from internalize.configs.named import Untrusted, is_object_name, load_object, own_files
from internalize.contract import Json
from internalize.errors import BadInput, closest, closest_file, require
from internalize.kinds import find_kind
from internalize.runs.table import dotted_fields, flat
from internalize.runtime.kind import Kind, Prepared, prepare_by

Fields = dict[str, Json]
MOST_RUNS = 100_000
MOST_FIELDS = 1_000
"""Beyond these a sweep is a slip: each run is prepared, and each field compared with the others."""
KEYS = ("name", "kind", "preset", "base", "grid", "zip", "cases", "seeds")
"""What a sweep file may say."""


@dataclass(frozen=True)
class Case:
    """One run to be."""

    prepared: Prepared
    fields: Mapping[str, Json]
    """What tells it from its siblings: every field that any of them sets, by its dotted name, and the seed."""

    @property
    def config(self) -> Any:
        return self.prepared.config

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.fields.items())


@dataclass(frozen=True)
class Sweep:
    """All runs of a sweep, in order."""

    name: str
    cases: tuple[Case, ...]

    def require_runs(self) -> None:
        """For whoever carries it out, reads it or plans it."""
        require(len(self.cases) > 0, "sweep", f"{self.name} has no runs")


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
    with own_files():  # whoever calls this names the files in a program of their own
        return _sweep(name, kind, base, Axes(cases, zipped, grid), seeds)


def _sweep(name: str, kind: str, base: Mapping[str, Any], axes: Axes, seeds: int | Sequence[int]) -> Sweep:
    found_kind = find_kind(kind)
    leaves("base", base)
    base = to_json(dict(base), settled=False)
    found, problems = [], _Problems()
    untrusted: dict[Path, None] = {}
    all_seeds = seeds_of(seeds, base.get("seed", 0))
    runs = axes.count() * len(all_seeds)
    require(runs <= MOST_RUNS, "sweep", f"must have at most {MOST_RUNS:,} runs, got {runs:,}")
    for fields, seed in itertools.product(axes.combinations(), all_seeds):
        own = {**flat(fields, lists_as_text=False), "seed": seed}
        try:
            data = _from_preset(found_kind, _filled_in(base, {**fields, "seed": seed}))
            config = from_json(found_kind.config, data)
            found.append(Case(prepare_by(found_kind, config), own))
        except Untrusted as problem:
            untrusted |= dict.fromkeys(problem.files)
        except BadInput as problem:
            problems.add(problem, own)
    if untrusted:
        raise Untrusted("sweep", list(untrusted))
    problems.raise_if_any()
    _refuse_twins(found)
    return Sweep(name, tuple(_named_alike(found)))


def find_sweep(name: Path | str) -> Sweep:
    """The sweep of a file, or one made in Python: `file.py:NAME` or `module:NAME`.

    Of a figure, or of whatever else has a method `sweep`, the runs of one tier: `file.py:FIGURE@TIER`.
    Python files, also those that a YAML file names, are executed only if they are trusted, or inside
    `own_files`, where the sweep is to be carried out.
    """
    text, tier = _with_tier(str(name))
    bare = text.endswith(".py")
    require(not bare, "sweep", f"{text} is Python: name the sweep in it, as {text}:NAME (made by sweep_of)")
    if not is_object_name(text):
        return read_sweep(text)
    try:
        made, _ = load_object(text, "sweep", {})
    except BadInput as problem:
        if isinstance(problem.__cause__, BadSweep):
            raise problem.__cause__ from None
        raise
    kind = type(made).__name__
    if tier is not None:
        require(hasattr(made, "sweep"), "sweep", f"{text} has no tiers: it is a {kind}, no figure")
        made = made.sweep(tier)
    tiers = ", ".join(f"@{tier}" for tier in getattr(made, "tiers", ()))
    hint = f": name one of its tiers behind it, {tiers}" if tiers else ""
    require(isinstance(made, Sweep), "sweep", f"{text} is no sweep, made by sweep_of, but a {kind}{hint}")
    found: Sweep = made
    found.require_runs()
    return found


def require_there(name: str) -> None:
    """Refuse a name that is a file's and leads nowhere."""
    text, _ = _with_tier(name)
    missing = not is_object_name(text) and not Path(text).exists()
    require(not missing, "sweep", f"there is no file {text}{closest_file(Path(text))}")


def _with_tier(text: str) -> tuple[str, str | None]:
    """`file.py:FIGURE@paper` as its two parts; a file's name may have an @ in it, too."""
    name, at, tier = text.rpartition("@")
    return (name, tier) if at and is_object_name(name) else (text, None)


def read_sweep(path: Path | str) -> Sweep:
    """The sweep that a YAML or JSON file describes; of the Python files that it names see `find_sweep`."""
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
    base = data.get("base") or {}
    if "preset" in data:
        require("preset" not in base, "base.preset", "is set twice: preset is a key of the file, too")
        base = {"preset": data["preset"], **base}
    return _sweep(
        str(data.get("name", path.stem)),
        str(data.get("kind", "chain")),
        base,
        Axes(data.get("cases"), data.get("zip"), data.get("grid")),
        data.get("seeds", 1),
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


# The axes -------------------------------------------------------------------------------------------------


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

    def count(self) -> int:
        """How many combinations there are."""
        columns = (_values("grid", name, values) for name, values in (self.grid or {}).items())
        cases = 1 if self.cases is None else len(self.cases)
        return cases * len(_zip(self.zipped or {})) * math.prod(len(column) for column in columns)

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
    require(len(fields) <= MOST_FIELDS, where, f"must set at most {MOST_FIELDS} fields, got {len(fields):,}")
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
        require(1 <= seeds <= MOST_RUNS, "seeds", f"must lie in 1…{MOST_RUNS:,}, got {seeds}")
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


# Filling in ----------------------------------------------------------------------------------------------


def _named_alike(cases: Sequence[Case]) -> Iterator[Case]:
    """Each with every field that any of them sets: where a case does not set it, its config's value."""
    names = dict.fromkeys(name for case in cases for name in case.fields if name != "seed")
    for case in cases:
        config = dotted_fields(case.config)
        fields = {name: case.fields.get(name, config.get(name)) for name in (*names, "seed")}
        yield Case(case.prepared, fields)


def _filled_in(base: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The base's fields and, over them, those of a case."""
    data: dict[str, Any] = {}
    for name, value in (*base.items(), *fields.items()):
        _put(data, name.split("."), deepcopy(value), name)
    return data


def _from_preset(kind: Kind, data: dict[str, Any]) -> dict[str, Any]:
    """The fields over those of the preset that they name, as on the command line."""
    if "preset" not in data or "preset" in {field.name for field in fields_of(kind.config)}:
        return data
    preset = getattr(kind, "preset", None)
    if preset is None:
        raise BadInput("preset", f"runs of {kind.name} have no presets: leave it out")
    own = {name: value for name, value in data.items() if name != "preset"}
    return _filled_in(to_json(preset(data["preset"], own)), own)


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
        twin = known.setdefault(case.prepared, case)
        require(twin is case, "cases", f"{case} and {twin} are the same run")
