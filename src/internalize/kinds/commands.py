"""`internalize experiment` and `internalize resume`: runs of any kind, by its name."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from internalize.configs.folders import require_writable
from internalize.configs.trust import TrustOption, own_files
from internalize.errors import require
from internalize.kinds import KINDS, find_kind, prepare
from internalize.kinds.entrance import load_config, prepare_run, refuse_changes
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import SideBySide, report_side_by_side
from internalize.runtime.report import announce, observers_for, report
from internalize.runtime.train import resume_prepared, train_prepared


@dataclass(frozen=True)
class ExperimentArguments:
    """Train any kind of experiment, a user's own among them: `internalize experiment mine.py:KIND --field …`.

    The fields of its config are options: `internalize experiment mine.py:KIND --help` lists them. Whatever
    commands, sweeps and figures do with runs they do with these, too.
    """

    kind: Annotated[str, tyro.conf.Positional]
    """chain, hints, parity, selfplay, or your own: file.py:NAME or module:NAME."""


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
    made = make_dataclass(config.__name__, parts, namespace={"__doc__": config.__doc__}, frozen=True)
    return made, words[1:]


def experiment_command(arguments: Any) -> int | None:
    known = ", ".join(KINDS)
    require(not isinstance(arguments, ExperimentArguments), "kind", f"name one of {known}, or file.py:NAME")
    return run_experiment(arguments.config, arguments.execution, arguments.many)


def run_experiment(config: Any, execution: Execution, many: SideBySide) -> int | None:
    """Announce, train and report one run, or several seeds of it."""
    require_writable(execution.out)
    with own_files():
        prepared = prepare(config)
    if not execution.quiet:
        announce(prepared, execution)
    if many.seeds is None:
        report(train_prepared(prepared, execution, observers_for(prepared, execution)), execution)
        return None
    outcomes = many.train(prepared, execution)
    results = prepared.kind.results
    return report_side_by_side(outcomes, execution, results.columns, results.rates)


@dataclass(frozen=True)
class ResumeArguments(TrustOption):
    """Go on with an interrupted run."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder, or the beginning of its hash."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    rest: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Whatever else was given: fields of the run's config, which must be as they are."""


def resume_command(arguments: ResumeArguments) -> None:
    execution = arguments.execution
    require(not execution.fresh, "fresh", "belongs to train: resume goes on with what is there")
    run = Run.open(arguments.run)
    refuse_changes(run, load_config(run), arguments.rest)
    prepared = prepare_run(run)
    report(resume_prepared(prepared, run, execution, observers_for(prepared, execution)), execution)
