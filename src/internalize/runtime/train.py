"""From a prepared config to a finished run: the folder, its owner, the machine, and then the one loop."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from internalize.configs.named import Source
from internalize.contract import Observer, Row, RunState
from internalize.display.live import RunView
from internalize.errors import Interrupted, RunFailed, RunWarning, require
from internalize.runs.folder import Run
from internalize.runs.manifest import changed_files
from internalize.runs.provenance import circumstances, folder_begun_in, now, provenance
from internalize.runs.storage import naming_disk_trouble, own
from internalize.runs.trackers import find_trackers
from internalize.runtime.execution import Execution, resolve_device, surroundings, threads
from internalize.runtime.kind import Prepared, Streams
from internalize.runtime.loop import StopNow, compute, execute, listening

if TYPE_CHECKING:
    import torch


def train_prepared(prepared: Prepared, execution: Execution, observers: Sequence[Observer] = ()) -> Run:
    """Carry an experiment out, or go on with it, or return at once if it is finished."""
    observers = [*observers, *find_trackers(execution.tracker)]
    device = resolve_device(execution.device)
    if not prepared.folder(execution.out).exists():  # refuse before a folder is made
        prepared.kind.forecast(prepared, device).require_memory(device)
    run = Run.create(execution.out, prepared.label, prepared.identity)
    with naming_disk_trouble(run.path), own(run.path):
        if execution.fresh:
            run.clear()
        run.refuse_links()
        with surroundings(run, execution) as device:
            run.begin(prepared.identity, list(prepared.sources), lambda: _beginning(device))
            _require_copies(run)
            _carry_out(prepared, run, device, execution, observers)
    return run


def _beginning(device: torch.device) -> dict[str, Any]:
    """The folder too: `data.jsonl` in a run's config is a file in it."""
    return {**provenance(device), "folder": folder_begun_in()}


def compute_prepared(prepared: Prepared, execution: Execution) -> Row:
    """Carry an experiment out without a folder: the row that is kept of it."""
    device = resolve_device(execution.device)
    prepared.kind.forecast(prepared, device).require_memory(device)
    with threads(execution.threads), listening(aloud=False) as stop:
        try:
            summary, last = compute(prepared.build(device), Streams(prepared.config.seed, device), stop)
        except StopNow:
            assert stop.signal is not None
            raise Interrupted(stop.signal, None) from None
    return {"summary": summary, "last": last}


def resume_prepared(
    prepared: Prepared, run: Run, execution: Execution, observers: Sequence[Observer] = ()
) -> Run:
    """Go on with an interrupted run where it stands, prepared from its own copies of the user's files."""
    observers = [*observers, *find_trackers(execution.tracker)]
    with naming_disk_trouble(run.path), own(run.path), surroundings(run, execution) as device:
        _refuse_damage(run)
        run.refuse_links()
        _carry_out(prepared, run, device, execution, observers)
    return run


def _require_copies(run: Run) -> None:
    """A user's file may have changed since the config was checked: the run must hold what it computes."""
    hashes = run.identity().sources
    for name, path in run.copies().items():
        same = path.is_file() and Source(name, path).digest() == hashes.get(name)
        require(same, "run", f"the run's copy of {name} is missing or has changed: {path}")


def _refuse_damage(run: Run) -> None:
    """There is nothing to go on with in a finished run, but whoever asks wants it whole."""
    damage = changed_files(run.path) if run.is_done else {}
    for name, reason in damage.items():
        raise RunFailed(
            f"{run.path / name} {reason}, though the run is done; what can be made anew: "
            f"internalize runs verify {shlex.quote(str(run.path))}"
        )


def _carry_out(
    prepared: Prepared,
    run: Run,
    device: torch.device,
    execution: Execution,
    observers: Sequence[Observer],
) -> None:
    """Only the run's owner comes here."""
    status = run.status()
    if status["state"] == RunState.DONE:
        return
    if status["state"] == RunState.FAILED and status.get("for_good", True):  # else a sweep gave it up
        raise RunFailed(
            f"{run.path} has failed before: {status.get('message')}. It would fail again in the same way; "
            f"to start over all the same: internalize train … --fresh"
        )
    run.tidy()
    _note_differences(run, device)
    watched = any(isinstance(observer, RunView) for observer in observers)
    results, config = prepared.kind.results, prepared.config
    with listening(aloud=watched) as stop:
        execute(
            prepared.build(device),
            run,
            Streams(config.seed, device),
            execution,
            stop,
            observers,
            results.about(config),
            results.numbers,
        )


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
