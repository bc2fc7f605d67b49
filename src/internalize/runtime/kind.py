"""What a kind of experiment offers: how it prepares a config, foretells a run, and what its results are called.

A kind is closed: the runtime, lists, plans and views ask it, and know none by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from internalize.configs.codec import checked, to_json
from internalize.configs.named import Copies, Source, find_source, is_object_name, load_object
from internalize.contract import Json, Row, Stage
from internalize.errors import BadInput, require
from internalize.runs.folder import Identity

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from internalize.measure.predictor import Predictor
    from internalize.runtime.execution import KeepStages
    from internalize.runtime.forecast import Forecast


class ExperimentConfig(Protocol):
    """The frozen dataclass of a kind: the identity of its runs. Its fields are the command line."""

    kind: ClassVar[str]
    """The kind's name, as it stands in the identity. A user's kind gets it when it is loaded."""

    @property
    def seed(self) -> int: ...


Columns = Mapping[str, Callable[[Mapping[str, Any]], str]]
"""Head of a column → its cell for the results of one run."""


def nothing_known(summary: Mapping[str, Any]) -> float | None:
    return None


def entry(*names: str) -> Callable[[Mapping[str, Any]], float | None]:
    """The first of these entries of a summary that is there."""
    return lambda summary: next((summary[name] for name in names if name in summary), None)


def one_sample(config: Any) -> int:
    return 1


@dataclass(frozen=True)
class Results:
    """What lists, tables and views say of the runs of a kind."""

    label: Callable[[Any], str]
    """The readable part of a run's folder name, from its config."""
    subject: Callable[[Any], str]
    """What is learned, from the config: a task, a circuit, a game."""
    unit: str
    """What a step is called, in the plural."""
    headline: Mapping[str, str] = field(default_factory=lambda: {"loss": "loss"})
    """Which entries of a row a live view shows: key → heading."""
    accuracy: Callable[[Mapping[str, Any]], float | None] = nothing_known
    """How often the answer given at once is right, from the summary of a finished run."""
    ood_accuracy: Callable[[Mapping[str, Any]], float | None] = nothing_known
    """The same out of distribution, where a kind has such a thing."""
    columns: Columns = field(default_factory=dict)
    """What is said of each of several seeds."""
    rates: tuple[str, ...] = ()
    """Results that are yes or no, of which several seeds have rates."""
    answers: Callable[[], Callable[[Path], Sequence[Sequence[str]]]] | None = None
    """Makes a reader of a run's folder: a few answers of its newest model, for the page that watches it."""
    chance: Callable[[Any], float | None] = nothing_known
    """From the experiment: how often always giving the commonest answer would be right."""
    samples_per_step: Callable[[Any], int] = one_sample
    """Training samples of one step, from the config, for the speed that a view shows."""

    def about(self, config: Any) -> Row:
        """What a run's status says from the beginning."""
        return {"subject": self.subject(config), "unit": self.unit}

    def numbers(self, summary: Row) -> Row:
        """What it says besides at the end."""
        return {"accuracy": self.accuracy(summary), "ood_accuracy": self.ood_accuracy(summary)}


class Kind(Protocol):
    """A kind of experiment. Adding one touches its own folder, and a line in the list of kinds."""

    name: str
    config: type[Any]
    """A frozen dataclass with a field `seed`."""
    results: Results

    def prepare(self, config: Any, copies: Copies) -> Prepared:
        """All checks, once: find what the config names, refuse what does not fit together. See `prepared`."""

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        """timed: also measure how long it will take, by a few steps in memory."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A config that was checked, on its way from a command to the loop."""

    kind: Kind
    config: Any
    place: str
    """`module:attribute` of the kind, by which another process finds it."""
    sources: tuple[Source, ...]
    """The user's files behind the config, and behind the kind."""
    copies: Copies
    """Where these are, if not where the config says."""
    identity: Identity
    label: str
    pace: str
    """What configs have in common whose operations take the same time each."""
    builder: Callable[[torch.device], Experiment[Any]]
    _built: dict[torch.device, Experiment[Any]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prepared) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity.digest())

    def folder(self, out: Path) -> Path:
        """Where the run is or will be below `out`."""
        return out / self.identity.folder_name(self.label)

    def folder_of_seed(self, seed: int, out: Path) -> Path:
        """Where the run of the same config with another seed is or will be: nothing is checked again."""
        config = replace(self.config, seed=seed)
        identity = Identity(self.identity.kind, to_json(config), self.identity.sources)
        return out / identity.folder_name(self.kind.results.label(config))

    def build(self, device: torch.device) -> Experiment[Any]:
        """The experiment, the same one for whoever asks: built once, for the forecast and for the loop."""
        if device not in self._built:
            self._built[device] = self.builder(device)
        return self._built[device]

    def release(self) -> None:
        """Forget the experiment, which may hold much memory."""
        self._built.clear()


def prepared(
    kind: Kind,
    config: Any,
    copies: Copies,
    build: Callable[[torch.device], Experiment[Any]],
    sources: Sequence[Source] = (),
    place: str = "",
    same_pace: Sequence[str] = (),
) -> Prepared:
    """For `Kind.prepare`, once the config is checked.

    sources: the user's files that the config names.
    place: `module:attribute` of a kind of this package; a user's is known by how it was named.
    same_pace: fields that do not change how long an operation takes, besides the seed.
    """
    name: str | None = getattr(type(config), "kind", None)
    if name is None:
        raise BadInput("kind", f"load {kind.name} by its name: find_kind('file.py:ATTRIBUTE')")
    if is_object_name(name):
        sources, place = (find_source(name, "kind", copies), *sources), name
    digests = {source.name: source.digest() for source in sources}
    data = to_json(config)
    pace = {key: value for key, value in data.items() if key not in ("seed", *same_pace)}
    return Prepared(
        kind,
        config,
        place,
        tuple(sources),
        copies,
        Identity(name, data, digests),
        kind.results.label(config),
        json.dumps([name, pace], sort_keys=True),
        build,
    )


def prepare_by(kind: Kind, config: Any, copies: Copies | None = None) -> Prepared:
    """Hold the config to its fields' types, then let the kind check it."""
    return kind.prepare(checked(config), copies or {})


# Kinds by name ---------------------------------------------------------------------------------------------

_OWN: dict[tuple[str, str], Kind] = {}
"""Users' kinds that this process has loaded, by name and content: configs of one file are of one class."""


def load_kind(place: str, copies: Copies | None = None) -> Kind:
    """The kind at `module:attribute`: of this package by import, a user's from its file alone."""
    copies = copies or {}
    module, _, attribute = place.rpartition(":")
    if module.partition(".")[0] == __name__.partition(".")[0]:
        found: Kind = getattr(import_module(module), attribute)
        return found
    key = (place, find_source(place, "kind", copies).digest())
    if key not in _OWN:
        made, _ = load_object(place, "kind", copies)
        _require_kind(place, made)
        made.config.kind = place  # the class is of this process alone, made from the user's file just now
        _OWN[key] = made
    return _OWN[key]


def _require_kind(place: str, made: Any) -> None:
    wanted = ("name", "config", "prepare", "forecast", "results")
    missing = [name for name in wanted if not hasattr(made, name)]
    require(not missing, "kind", f"{place} is no kind of experiment: it has no {', '.join(missing)}")
    fields = getattr(made.config, "__dataclass_fields__", {})
    require("seed" in fields, "kind", f"{place}: its config must be a frozen dataclass with a field seed")


class State(Protocol):
    """All that a training is at a moment: tensors and JSON scalars, so that any state can be saved."""

    def tensors(self) -> dict[str, Tensor]:
        """All finite: the loop takes anything else for a training that has diverged, and does not save it."""

    def scalars(self) -> dict[str, Json]: ...


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part of a saved state, by their names within it."""
    prefix = f"{part}/"
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Finish:
    """What a finished experiment leaves behind."""

    summary: Row
    """The results: what `--json` prints and the index of runs keeps."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """The final model, for the folder `model/`."""
    model_files: Mapping[str, str] = field(default_factory=dict)
    """Further text files of the folder `model/`, name → content."""


S = TypeVar("S", bound=State)


class Experiment(Protocol[S]):
    """A kind of experiment, built from a frozen config. The loop calls nothing else."""

    def init(self, streams: Streams) -> S:
        """The state before the first step."""

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Json]) -> S:
        """The state that gave these tensors and scalars."""

    def advance(self, state: S, streams: Streams) -> tuple[S, Row | None]:
        """Some iterations (well under a second where possible), a phase, or a round.

        May change the state in place. The row, where one is due, depends on the state alone: not on how the
        iterations were cut into calls.
        """

    def stage(self, state: S) -> Stage: ...

    def done(self, state: S) -> bool: ...

    def evaluation_due(self, state: S) -> bool: ...

    def evaluate(self, state: S, streams: Streams) -> Row:
        """Measure the model as it is. Of the state only a ledger of costs may take note of it."""

    def snapshot(self, state: S) -> dict[str, Tensor]:
        """The weights worth keeping at the end of a stage."""

    def finish(self, state: S, streams: Streams) -> Finish:
        """The final measurements and the model."""

    def predictor(self, state: S, budget: int | None) -> Predictor:
        """The model as a predictor that may spend `budget` (None: as much as it wants)."""


def cpu() -> torch.device:
    import torch

    return torch.device("cpu")


@dataclass(frozen=True)
class Streams:
    """`streams(name, step)` is a fresh generator, a function of (seed, name, step) alone.

    There is nothing to save, nothing global and no order in which streams must be used: whoever needs random
    numbers asks for a stream of its own name, at its own step.
    """

    seed: int
    device: torch.device = field(default_factory=cpu)

    def __call__(self, name: str, step: int = 0) -> torch.Generator:
        import torch

        key = hashlib.blake2b(f"{self.seed}/{name}/{step}".encode(), digest_size=8).digest()
        # torch takes seeds up to 2^63 on every device
        return torch.Generator(self.device).manual_seed(int.from_bytes(key, "big") >> 1)

    @property
    def on_processor(self) -> Streams:
        """The same streams for what is always computed there: a GPU's generators give other numbers."""
        return Streams(self.seed)
