"""The cases of a figure as data: a base config, axes, seeds; at three tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from internalize.configs.codec import to_json
from internalize.runs.exporting import flat
from internalize.runtime.kinds import ExperimentConfig
from internalize.sweeps import Case, Sweep, sweep_of

Tier = Literal["smoke", "toy", "laptop", "paper"]
TIERS: tuple[Tier, ...] = get_args(Tier)


@dataclass(frozen=True)
class Grid:
    """Every value of every axis with every entry of the zipped ones, over the base, for every seed."""

    base: ExperimentConfig
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    zipped: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Axes that go together: the first values of all of them, then the second ones, …"""
    seeds: Sequence[int] = (0,)
    later: bool = False
    """Planned, and not carried out unless asked for: too long for now, or waiting for something else."""

    def cases(self, name: str, seeds: Sequence[int] | None = None) -> tuple[Case, ...]:
        """seeds: others than the grid's own."""
        return sweep_of(
            name,
            self.base.kind,
            to_json(self.base),
            grid=self.axes,
            zipped=self.zipped or None,
            seeds=list(self.seeds if seeds is None else seeds),
        ).cases


Tiers = Mapping[Tier, Sequence[Grid]]


def sweep_from(name: str, grids: Sequence[Grid], later: bool = False) -> Sweep:
    """One sweep of all grids, those for later too if wanted; a run that two of them ask for is there once."""
    known: dict[Any, Case] = {}
    for grid in grids:
        for case in grid.cases(name) if later or not grid.later else ():
            known.setdefault(case.config, case)
    return Sweep(name, tuple(known.values()))


def shapes_of(grids: Sequence[Grid], later: bool = False) -> dict[ExperimentConfig, tuple[int, ...]]:
    """Every config with its first seed, and all its seeds: quicker than going through all cases."""
    found: dict[Any, tuple[int, ...]] = {}
    for grid in (grid for grid in grids if later or not grid.later):
        for case in grid.cases("", grid.seeds[:1]):
            known = found.get(case.config, ())
            found[case.config] = (*known, *(seed for seed in grid.seeds if seed not in known))
    return found


def planned_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """The cases as rows without results."""
    return [
        {"kind": case.config.kind, **flat(to_json(case.config), lists_as_text=False)} for case in sweep.cases
    ]
