"""From a config to a finished run: what the command line and Python users call."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from internalize.configs.codec import to_json
from internalize.configs.named import Copies, Source
from internalize.configs.trust import others_files, own_files
from internalize.configs.typed import checked
from internalize.display.terminal import RunView
from internalize.errors import BadInput, RunFailed, RunWarning, require
from internalize.experiments.execution import Execution, resolve_device
from internalize.experiments.interruption import listening
from internalize.experiments.kinds import ExperimentConfig, config_from_json
from internalize.experiments.loop import Observer, execute
from internalize.experiments.protocol import Experiment
from internalize.experiments.streams import Streams
from internalize.runs.code import require_trusted_code
from internalize.runs.cores import usable_cores
from internalize.runs.disk import told_plainly
from internalize.runs.folder import SOURCES_INDEX, Run
from internalize.runs.identity import Identity
from internalize.runs.lock import own
from internalize.runs.provenance import circumstances, now, provenance
from internalize.runs.trackers import find_trackers


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
    config = checked(config)  # refuse before a folder is made, here and below
    execution = replace(execution or Execution(), **fields)
    observers = [*observers, *find_trackers(execution.tracker)]
    device = resolve_device(execution.device)
    with own_files():  # named for a training: trusted from now on
        sources = config.check(copies or {})
    identity = identity_of(config, sources)
    if not (execution.out / identity.folder_name(config.label())).exists():
        from internalize.experiments.capacity import require_capacity  # it knows every kind

        require_capacity(config, device, copies or {})
    run = Run.create(execution.out, config.label(), identity)
    with told_plainly(run.path), own(run.path):
        if execution.fresh:
            run.clear()
        with surroundings(run, execution) as device:
            run.begin(identity, sources, lambda: provenance(device))
            _carry_out(config, run, device, execution, observers)
    return run


def resume(run: Run, execution: Execution, observers: Sequence[Observer] = ()) -> Run:
    """Go on with an interrupted run where it stands, from its own copies of the user's files."""
    observers = [*observers, *find_trackers(execution.tracker)]
    config = load_config(run)
    with others_files():
        config.check(run.copies())
    with told_plainly(run.path), own(run.path), surroundings(run, execution) as device:
        _carry_out(config, run, device, execution, observers)
    return run


@contextmanager
def surroundings(run: Run, execution: Execution) -> Iterator[torch.device]:
    """The device and the threads to compute with: as the user wants, or as the run had them before."""
    before = run.provenance()
    device: str = execution.device
    count = execution.threads or before.get("threads", 1)
    if device == "auto" and "device" in before:
        device = torch.device(before["device"]).type
        try:
            resolve_device(device)
        except BadInput:  # the difference is noted, with all others, when the run goes on
            device = "auto"
    with threads(count):
        yield resolve_device(device)


def _carry_out(
    config: ExperimentConfig,
    run: Run,
    device: torch.device,
    execution: Execution,
    observers: Sequence[Observer],
) -> None:
    """Only the run's owner comes here."""
    status = run.status()
    if status["state"] == "done":
        return
    if status["state"] == "failed" and status.get("for_good", True):  # else a sweep gave it up
        raise RunFailed(
            f"{run.path} has failed before: {status.get('message')}. It would fail again in the same way; "
            f"to start over all the same: internalize train … --fresh"
        )
    run.tidy()
    _note_differences(run, device)
    watched = any(isinstance(observer, RunView) for observer in observers)
    with listening(aloud=watched) as stop, others_files():  # somebody may have planted copies in the folder
        experiment = config.build(device, run.copies())
        execute(experiment, run, Streams(config.seed, device), execution, stop, observers)


def _note_differences(run: Run, device: torch.device) -> None:
    """Say and record it if the run goes on under circumstances in which its last bits may change."""
    record = run.provenance()
    different = {
        name: value for name, value in circumstances(device).items() if record.get(name, value) != value
    }
    if not different:
        return
    changes = ", ".join(f"{name} {record[name]} (now {value})" for name, value in different.items())
    warnings.warn(
        f"{run.path} was begun with {changes}: it goes on, but its last bits may differ from those of a run "
        f"without a break",
        RunWarning,
        stacklevel=2,
    )
    run.add_to_provenance(resumed=[*record.get("resumed", []), {"at": now(), **different}])


def identity_of(config: ExperimentConfig, sources: Sequence[Source]) -> Identity:
    return Identity(config.kind, to_json(config), {source.name: source.digest() for source in sources})


def run_folder(config: ExperimentConfig, out: Path, copies: Copies | None = None) -> Path:
    """Where the run of this config is or will be below `out`."""
    config = checked(config)
    return out / identity_of(config, config.check(copies or {})).folder_name(config.label())


def load_config(run: Run) -> ExperimentConfig:
    """The config that the run was made with, for whoever will carry it out or open it.

    Refused if its copies of the user's files have changed, or if it brings Python files that the user has not
    allowed: all of them are named at once.
    """
    identity, copies = run.identity(), run.copies()
    for name in {**identity.sources, **copies}:
        path = copies.get(name, run.path / SOURCES_INDEX)
        same = name in copies and path.is_file() and Source(name, path).digest() == identity.sources.get(name)
        require(same, "run", f"the run's copy of {name} is missing or has changed: {path}")
    require_trusted_code(run)
    return config_from_json(identity.kind, identity.config)


def load_experiment(run: Run, device: str = "auto") -> tuple[ExperimentConfig, Experiment[Any]]:
    """The run's config and experiment, for whoever reads finished runs."""
    config = load_config(run)
    with others_files():
        return config, config.build(resolve_device(device), run.copies())


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Compute with so many processor threads while the block runs; one if not given."""
    wanted, cores = count or 1, usable_cores()
    if wanted > cores:
        _warn_of_waiting(wanted, cores)
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache  # said once, however often a command computes
def _warn_of_waiting(wanted: int, cores: int) -> None:
    """No refusal: a run that was made with more threads than cores is repeated to the bit only with as many."""
    text = f"{wanted} threads share {cores} usable core(s) and wait for each other: this will be slow"
    warnings.warn(text, RunWarning, stacklevel=2)
