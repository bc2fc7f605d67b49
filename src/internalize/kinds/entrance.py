"""Where configs and run folders enter the runtime: each finds its kind here, and nowhere below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from internalize.configs.codec import changed_fields, from_json, to_json
from internalize.configs.command_line import parse, value_in
from internalize.configs.files import read_data, require_writable
from internalize.configs.named import Copies, Source, TrustOption, is_object_name, others_files, own_files
from internalize.contract import Observer
from internalize.errors import BadInput, require
from internalize.kinds import KINDS, config_from_json, find_kind, prepare
from internalize.runs.folder import SOURCES_INDEX, Run
from internalize.runs.location import find_folder
from internalize.runs.outside import outside_files
from internalize.runs.provenance import require_trusted_code
from internalize.runs.table import Table
from internalize.runtime.execution import (
    Execution,
    announce,
    observers_for,
    report,
    resolve_device,
    say_if_done,
)
from internalize.runtime.fleet.seeds import SideBySide, report_side_by_side
from internalize.runtime.kind import Experiment, ExperimentConfig, Prepared
from internalize.runtime.train import resume_prepared, train_prepared

if TYPE_CHECKING:
    from torch import Tensor, nn

    from internalize.measure.predictor import Predictor


def train(
    config: ExperimentConfig,
    execution: Execution | None = None,
    observers: Sequence[Observer] = (),
    copies: Copies | None = None,
    **fields: Any,
) -> Run:
    """Carry an experiment out, or go on with it, or return at once if it is finished.

    copies: where the user's files are if not where the config says (on another machine).
    fields: entries of `Execution`, for example out="runs" or device="cpu".
    """
    with own_files():  # named for a training: trusted from now on
        prepared = prepare(config, copies)
    return train_prepared(prepared, replace(execution or Execution(), **fields), observers)


def resume(run: Run, execution: Execution, observers: Sequence[Observer] = ()) -> Run:
    """Go on with an interrupted run where it stands, from its own copies of the user's files."""
    return resume_prepared(prepare_run(run), run, execution, observers)


def run_folder(config: ExperimentConfig, out: Path, copies: Copies | None = None) -> Path:
    """Where the run of this config is or will be below `out`."""
    return prepare(config, copies).folder(out)


def load_config(run: Run) -> Any:
    """The config that the run was made with, for whoever will carry it out or open it.

    Refused if its copies of the user's files have changed, or if it brings Python files that the user has not
    allowed: all of them are named at once.
    """
    identity, copies = run.identity(), run.copies()
    outside = {name for name in run.outside() if not is_object_name(name)}  # of code there is always a copy
    for name in {**identity.sources, **copies}.keys() - outside:
        path = copies.get(name, run.path / SOURCES_INDEX)
        same = name in copies and path.is_file() and Source(name, path).digest() == identity.sources.get(name)
        require(same, "run", f"the run's copy of {name} is missing or has changed: {path}")
    require_trusted_code(run)
    with others_files():
        return config_from_json(identity.kind, dict(identity.config), copies)


def prepare_run(run: Run) -> Prepared:
    """The run's own config, prepared with its own copies of the user's files.

    Files that were too large to be copied must still be where they were, or beside the run, as they were.
    """
    config, copies = load_config(run), {**run.copies(), **outside_files(run)}
    with others_files():
        prepared = prepare(config, copies)
    recorded = run.identity().sources
    for name, digest in prepared.identity.sources.items():
        same = recorded.get(name, digest) == digest
        require(same, "run", f"{name} has changed since {run.path} was made from it, and the run has no copy")
    return prepared


def load_experiment(run: Run, device: str = "auto") -> tuple[Any, Experiment[Any]]:
    """The run's config and experiment, for whoever reads finished runs."""
    prepared = prepare_run(run)
    with others_files():
        return prepared.config, prepared.build(resolve_device(device))


def refuse_changes(run: Run, config: ExperimentConfig, words: Sequence[str]) -> None:
    """Refuse words of the command line that would make the run another one, naming the field."""
    if not words:
        return
    wanted = parse(type(config), list(words), "internalize resume", default=config)
    for name in changed_fields(to_json(config), to_json(wanted)):
        raise BadInput(
            name,
            f"cannot change on resume: {run.path} was made with another value, and another value is another "
            f"run; use internalize train",
        )


# Runs opened to be asked ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """Which weights are looked at: those at the end of a stage, in a run that is finished or not."""

    stage: int
    stages: int
    """All that the curriculum has."""
    status: str
    """done, interrupted, running or failed."""

    def __str__(self) -> str:
        text = f"stage {self.stage} of {self.stages}"
        return text if self.status == "done" else f"{text}, run {self.status}"

    def to_json(self) -> dict[str, int | str]:
        return {"stage": self.stage, "stages": self.stages, "status": self.status}


class OpenRun:
    """A run of any kind: what it is and how it went."""

    def __init__(self, run: Run, config: Any, experiment: Any) -> None:
        self.run = run
        self.config = config
        self.experiment = experiment

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.run.path)!r}, {self.status})"

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def title(self) -> str:
        return self.run.path.name

    @property
    def status(self) -> str:
        """new, running, interrupted, failed or done. A run that was killed is interrupted, whatever it says."""
        return str(self.run.state())

    @property
    def metrics(self) -> Table:
        """All rows of the training; `run.metrics.where(event="evaluation")` are those of one sort."""
        return self.run.metrics()

    def summary(self) -> dict[str, Any]:
        """The results of a finished run."""
        return self.run.summary()

    @property
    def stages(self) -> list[int]:
        """The stages whose weights can be loaded."""
        return self.run.stages()

    def predictor(self, budget: int | None = None, stage: int | None = None) -> Predictor:
        raise self._unable("be asked")

    def model(self, stage: int | None = None) -> nn.Module:
        raise self._unable("be looked into")

    def answer(self, inputs: Any, budget: int | None = None, stage: int | None = None) -> Any:
        """What it says to one input of somebody's: a text or, where inputs are symbols, a list of them too."""
        raise self._unable("answer symbols")

    def attention(self, inputs: Any, stage: int | None = None) -> list[Tensor]:
        raise self._unable("be looked into")

    def hidden_states(self, inputs: Any, stage: int | None = None) -> list[Tensor]:
        raise self._unable("be looked into")

    def activations(self, inputs: Any, stage: int | None = None) -> dict[str, Tensor]:
        raise self._unable("be looked into")

    def _unable(self, what: str) -> BadInput:
        kind = self.run.identity().kind
        return BadInput("run", f"{self.title} is a run of the kind {kind}: it cannot {what}")


class OpenStages(OpenRun):
    """A run with a curriculum, whose weights can be loaded as they were at the end of every stage."""

    @property
    def all_stages(self) -> int:
        """That the curriculum has."""
        return int(self.experiment.curriculum.stages)

    @cached_property
    def stages(self) -> list[int]:
        """The stages whose weights can be loaded; the last one even if only the final model was kept."""
        kept = self.run.stages()
        if (self.run.path / "model" / "model.safetensors").is_file():
            last, most = int(self.run.summary().get("stage") or 0), self.all_stages
            wanted = f"must have a stage from 1 to {most} in its summary"
            require(1 <= last <= most, "run", f"{self.run.path / 'status.json'} {wanted}")
            kept = sorted({*kept, last})
        require(bool(kept), "run", f"{self.run.path} has no saved weights (it is {self.status})")
        return kept

    def moment(self, stage: int | None = None) -> Moment:
        """None: the final weights, or the last that were kept of an unfinished run."""
        stage = self.stages[-1] if stage is None else stage
        require(stage in self.stages, "stage", f"kept are the stages {self.stages}, not {stage}")
        return Moment(stage, self.all_stages, self.status)


def own_opened(kind: str) -> type[OpenRun] | None:
    """The class by which a kind of this package opens its own runs, where it has one."""
    place = getattr(find_kind(kind), "opened", None) if kind in KINDS else None
    if place is None:
        return None
    module, _, name = place.partition(":")
    found: type[OpenRun] = getattr(import_module(module), name)
    return found


# Commands --------------------------------------------------------------------------------------------------


ConfigOption = Annotated[str | None, tyro.conf.arg(name="config", metavar="FILE")]


def config_in(words: Sequence[str], config: type[Any], kind: str) -> Any:
    """The config that the words name by --config, from which their other fields depart; None if they do not.

    A JSON or YAML file of its fields, or a run, or a run's config.json.
    """
    named = value_in(words, "--config")
    if named is None:
        return None
    path = Path(named)
    if not path.is_file():
        try:
            path = find_folder(path, "config") / "config.json"
        except BadInput as error:
            raise BadInput("config", f"there is no file {named}, and no run of that name") from error
    data = read_data(path, "config")
    if isinstance(data, dict) and {"kind", "config"} <= data.keys():
        same = data["kind"] == kind
        require(same, "config", f"{path} is a config of the kind {data['kind']}, not of {kind}")
        data = data["config"]
    try:
        return from_json(config, data)
    except BadInput as error:
        raise BadInput(f"config ({path.name})", str(error)) from None


@dataclass(frozen=True)
class ExperimentArguments:
    """Train any kind of experiment, a user's own among them: `internalize experiment mine.py:KIND --field …`.

    The fields of its config are options: `internalize experiment mine.py:KIND --help` lists them. Whatever
    commands, sweeps and figures do with runs they do with these, too.
    """

    kind: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="KIND")]
    """chain, hints, parity, selfplay, text, or your own: file.py:NAME or module:NAME."""


def arguments_for(words: list[str]) -> tuple[type[Any], list[str]]:
    """The arguments of the kind that the first word names, and the words for them."""
    if not words or words[0].startswith("-"):
        return ExperimentArguments, words
    with own_files():
        config = find_kind(words[0]).config
    parts: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("config", Annotated[config, tyro.conf.arg(name="")]),
        ("execution", Annotated[Execution, tyro.conf.arg(name="")], field(default_factory=Execution)),
        ("many", Annotated[SideBySide, tyro.conf.arg(name="")], field(default_factory=SideBySide)),
    ]
    parts.append(("config_file", ConfigOption, None))
    made = make_dataclass(config.__name__, parts, namespace={"__doc__": config.__doc__}, frozen=True)

    def defaults(rest: Sequence[str]) -> Any:
        found = config_in(rest, config, words[0])
        return None if found is None else made(found)

    made.defaults = defaults  # type: ignore[attr-defined]
    return made, words[1:]


def experiment_command(arguments: Any) -> int | None:
    known = ", ".join(KINDS)
    require(not isinstance(arguments, ExperimentArguments), "kind", f"name one of {known}, or file.py:NAME")
    return run_experiment(arguments.config, arguments.execution, arguments.many)


def run_experiment(config: Any, execution: Execution, many: SideBySide) -> int | None:
    """Announce, train and report one run, or several seeds of it."""
    alone = many.is_one_run()
    require_writable(execution.out)
    with own_files():
        prepared = prepare(config)
    if not execution.quiet:
        announce(prepared, execution)
    if alone:
        report(train_prepared(prepared, execution, observers_for(prepared, execution)), execution)
        return None
    outcomes = many.train(prepared, execution)
    results = prepared.kind.results
    return report_side_by_side(outcomes, execution, results.columns, results.rates)


@dataclass(frozen=True)
class ResumeArguments(TrustOption):
    """Go on with an interrupted run."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run: its folder, a unique part of its name, the beginning of its hash, or latest."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    rest: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Whatever else was given: fields of the run's config, which must be as they are."""


def resume_command(arguments: ResumeArguments) -> None:
    execution = arguments.execution
    require(not execution.fresh, "fresh", "belongs to train: resume goes on with what is there")
    run = Run.open(arguments.run)
    refuse_changes(run, load_config(run), arguments.rest)
    prepared = prepare_run(run)
    if not execution.quiet:
        say_if_done(prepared, run.path, "nothing is left to train")
    report(resume_prepared(prepared, run, execution, observers_for(prepared, execution)), execution)
