"""A run folder: all that is known of one run, in files that anybody can read.

config.json       identity: kind, config, hashes of the user's files
.run.json         the marker by which a folder is known as a run, with the hash of its identity
provenance.json   versions, revision, machine; the identity once more, so that a changed config is noticed
metrics.jsonl     deterministic rows        timing.jsonl   seconds and rates
checkpoints/      the last two states       stages/        weights at stage ends
model/            the final model           sources/       copies of the user's files
status.json       running, interrupted, failed or done; the summary when done
manifest.json     of a finished run: the digest of every file, by which damage is noticed
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.codec import changed_fields
from internalize.configs.named import Source
from internalize.contract import RunState
from internalize.errors import BadInput, require
from internalize.runs.location import MARKER, find_folder, has_lost_its_config, is_run_folder, no_run, safe_part
from internalize.runs.manifest import MANIFEST, read_checked, require_unchanged
from internalize.runs.measurements import MeasuredRow, require_measurements
from internalize.runs.storage import (
    LOCK,
    NUMBER,
    OWNER,
    Shape,
    Unreadable,
    living_state,
    read_json,
    read_plain,
    read_rows,
    reason_of,
    remove_leftovers,
    require_shape,
    sync_folder,
    write_atomically,
    write_json,
)
from internalize.runs.table import Table

if TYPE_CHECKING:  # torch takes seconds to import, and listing runs needs none of it
    from torch import Tensor

FORMAT = 1
"""The version of everything in a run folder; a folder of another one is refused."""


@dataclass(frozen=True)
class Identity:
    """The identity fields of a run, as they stand in its config.json."""

    kind: str
    config: Mapping[str, Any]
    sources: Mapping[str, str]
    """Name of a user's file as written in the config → hash of its content."""

    def digest(self) -> str:
        """A hash of everything that decides what is computed."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "config": dict(self.config),
            "sources": dict(self.sources),
        }

    def folder_name(self, label: str) -> str:
        """Something a person can read, then the hash; safe on every file system."""
        return f"{safe_part(label)}-{self.digest()}"


SOURCES_INDEX = "sources.json"
OUTSIDE = ""
"""In that index: the file was not copied."""
ABOUT = ("subject", "unit")
"""What a run's status says at all times: what is learned, and what a step is called."""
FOR_READERS = ("analysis",)
"""Parts of a run folder in which no training writes."""
IDENTITY_SHAPE: Shape = {"kind": (str,), "config": (dict,), "sources": (dict,)}
PROVENANCE_SHAPE: Shape = {"created": (str,), "resumed": (list,), "internalize": (str,), "identity": (dict,)}
STATUS_SHAPE: Shape = {
    "state": (str,),
    "subject": (str, type(None)),
    "unit": (str,),
    "accuracy": (*NUMBER, type(None)),
    "ood_accuracy": (*NUMBER, type(None)),
    "seconds": NUMBER,
    "message": (str,),
    "summary": (dict,),
}
"""What the files of a run must look like, as far as whoever lists and compares runs relies on it."""
STATES = ("new", "running", "interrupted", "failed", "done")
"""What a status may say."""


class Run:
    """A run folder in hand. Reading needs no lock; whoever trains holds `storage.own(run.path)`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.status()['state']})"

    @classmethod
    def create(cls, out: Path, label: str, identity: Identity) -> Run:
        """The folder of this identity below `out`, made if need be. What is there already stays."""
        run = cls(out / identity.folder_name(label))
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            if not os.access(run.path, os.W_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise BadInput("out", f"cannot write to {out}: {error.strerror}") from None
        return run

    @classmethod
    def open(cls, path: Path | str, field: str = "run") -> Run:
        """The run that a user means by a folder, a part of a name, a hash or `latest`; see `at`."""
        return cls.at(find_folder(path, field), field)

    @classmethod
    def at(cls, path: Path, field: str = "run") -> Run:
        """The run in this very folder and in no other; refused if its config was changed."""
        if not is_run_folder(path):
            raise no_run(path, field)
        run = cls(path)
        stored = run._stored_identity()
        known = stored.get("format") == FORMAT
        require(known, field, f"{path} has format {stored.get('format')!r}, this version reads {FORMAT}")
        run._require_identity(stored, field)
        run._refuse_changes(stored)
        return run

    # What it is ------------------------------------------------------------------------------------------

    def begin(
        self, identity: Identity, sources: list[Source], provenance: Callable[[], dict[str, Any]]
    ) -> None:
        """Write what the run is, unless it says so already; refuse if it says something else."""
        if (self.path / "config.json").exists():
            self._refuse_changes(identity.to_json())
            self._refuse_differences(self._stored_identity(), identity.to_json())
            return
        mend = f"{self.path} has lost its config.json: internalize runs verify {self.path} --rebuild"
        require(not has_lost_its_config(self.path), "out", mend)
        self._copy_sources(sources)
        self.mark(identity)
        write_json(self.path / "provenance.json", {**provenance(), "identity": identity.to_json()})
        write_json(self.path / "config.json", identity.to_json())

    def mark(self, identity: Identity) -> None:
        """Say that this folder is a run, and which: only what says so is ever deleted."""
        write_json(self.path / MARKER, {"format": FORMAT, "run": identity.digest()})

    def identity(self) -> Identity:
        stored = self._stored_identity()
        self._require_identity(stored)
        return Identity(stored["kind"], stored["config"], stored["sources"])

    def _require_identity(self, stored: dict[str, Any], field: str = "run") -> None:
        try:
            require_shape(stored, IDENTITY_SHAPE, needed=tuple(IDENTITY_SHAPE))
        except Unreadable as error:
            raise BadInput(field, f"{self.path / 'config.json'} {error}") from None

    def digest(self) -> str:
        """The hash of what the run computes. The folder's name may say it too, but folders get renamed."""
        return self.identity().digest()

    def _stored_identity(self) -> dict[str, Any]:
        try:
            stored = read_checked(self.path, "config.json")
        except (ValueError, OSError) as error:
            raise BadInput("run", f"{self.path / 'config.json'} cannot be read: {reason_of(error)}") from None
        require(isinstance(stored, dict), "run", f"{self.path / 'config.json'} is not an object")
        return dict(stored)

    def _refuse_changes(self, stored: dict[str, Any]) -> None:
        """Refuse an identity other than the one recorded when the run began."""
        if (recorded := self.provenance().get("identity")) is not None:
            self._refuse_differences(recorded, stored)

    def _refuse_differences(self, made_with: dict[str, Any], given: dict[str, Any]) -> None:
        for name in changed_fields(made_with, given):
            old, new = (_look_up(identity, name) for identity in (made_with, given))
            said = f"{self.path} was made with {old!r}, which is not {new!r}"
            raise BadInput(name.removeprefix("config."), said)

    def provenance(self) -> dict[str, Any]:
        """Versions, revision and machine; empty if that file is lost or damaged."""
        try:
            return require_shape(self._read_object("provenance.json"), PROVENANCE_SHAPE)
        except Unreadable:
            return {}

    def add_to_provenance(self, **more: Any) -> None:
        write_json(self.path / "provenance.json", {**self.provenance(), **more})

    def _copy_sources(self, sources: list[Source]) -> None:
        """Keep the user's files with the run, each under its own hash since names may repeat.

        Of those that are too large to be kept the index says that there is no copy.
        """
        if not sources:
            return
        index = {}
        for source in sources:
            if not source.kept:
                index[source.name] = OUTSIDE
                continue
            copy = Path("sources") / source.digest()[:12] / source.path.name
            (self.path / copy).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / copy, source.path.read_bytes())
            index[source.name] = copy.as_posix()
        write_json(self.path / SOURCES_INDEX, index)

    def copies(self) -> dict[str, Path]:
        """The run's own copies of the user's files: name as in the config → path, never outside the folder."""
        index, places = self.path / SOURCES_INDEX, self._sources()
        return {name: self._inside(place, index) for name, place in places.items() if place != OUTSIDE}

    def outside(self) -> set[str]:
        """Names of files that the run knows by their hash alone, because they were too large to be copied."""
        return {name for name, place in self._sources().items() if place == OUTSIDE}

    def _sources(self) -> dict[str, Any]:
        index = self.path / SOURCES_INDEX
        if not index.exists():
            return {}
        try:
            places = require_shape(read_json(index), {})
        except (OSError, ValueError) as error:
            raise BadInput("run", f"{index} cannot be read: {reason_of(error)}") from None
        return {str(name): place for name, place in places.items()}

    def _inside(self, place: Any, index: Path) -> Path:
        """What a folder's own files call a part of it: links and .. may lead anywhere."""
        relative, path = Path(str(place)), self.path / str(place)
        inside = not relative.is_absolute() and ".." not in relative.parts
        # not `resolve`, which fails where links lead in a circle
        inside = inside and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path))
        require(inside, "run", f"{index} names a file that is not in the run's folder: {place}")
        return path

    # How it went -----------------------------------------------------------------------------------------

    def set_status(self, state: str, **more: Any) -> None:
        """What the run is about stays as it was said at the beginning."""
        (self.path / MANIFEST).unlink(missing_ok=True)  # it speaks of the files as they were
        before = self._read_object("status.json")
        about = {name: before[name] for name in ABOUT if name in before}
        write_json(self.path / "status.json", {"state": str(state), **about, **more})

    def status(self) -> dict[str, Any]:
        """At least `state`: new, running, interrupted, failed or done; `subject` and `unit` of newer runs.

        A run that was killed still says that it is running: `state` tells. Where the file is not what a run
        writes, the state is damaged, and `message` says why; a training goes on from its checkpoints then.
        """
        try:
            said = require_shape(read_checked(self.path, "status.json"), STATUS_SHAPE, needed=["state"])
            if said["state"] not in STATES:
                raise Unreadable(f"has state = {said['state'][:60]!r}")
            if said["state"] == RunState.DONE:
                require_shape(said, STATUS_SHAPE, needed=["summary", "seconds"])
                require_measurements(said["summary"])
        except FileNotFoundError:
            return {"state": RunState.NEW.value}
        except (OSError, Unreadable) as error:
            message = f"{self.path / 'status.json'} {reason_of(error)}"
            return {"state": RunState.DAMAGED.value, "message": message}
        return said

    def state(self) -> RunState:
        """How far it really is: who was killed is interrupted, whatever the status says."""
        said = RunState(self.status()["state"])
        return living_state(said, self.path)

    def _read_object(self, name: str) -> dict[str, Any]:
        """The JSON object in a file; empty where the file is missing or damaged."""
        try:
            found = read_json(self.path / name)
        except (OSError, ValueError):
            return {}
        return dict(found) if isinstance(found, dict) else {}

    @property
    def is_done(self) -> bool:
        return bool(self.status()["state"] == RunState.DONE)

    def summary(self) -> dict[str, Any]:
        """The results of a finished run."""
        status = self.status()
        why = f": {status['message']}" if status["state"] == RunState.DAMAGED else ""
        require("summary" in status, "run", f"{self.path} is not finished (it is {status['state']}{why})")
        return dict(status["summary"])

    def metrics(self, event: str | None = None) -> Table:
        """All rows as they are, or those of one event, `train` or `evaluation`, to compute with: looked at."""
        path = self.path / "metrics.jsonl"
        try:
            if (self.path / MANIFEST).exists():
                require_unchanged(self.path, path.name, read_plain(path))
            rows = read_rows(path)
            if event is not None:
                rows = [MeasuredRow(row, path) for row in rows if row.get("event") == event]
        except (OSError, Unreadable) as error:
            why = f"{path} {reason_of(error)}; what can be done: internalize runs verify {self.path}"
            raise BadInput("run", why) from None
        return Table(rows)

    # Weights ---------------------------------------------------------------------------------------------

    def save_stage(self, stage: int, weights: Mapping[str, Tensor]) -> None:
        from internalize.runs.checkpoint import save_tensors

        (self.path / "stages").mkdir(exist_ok=True)
        save_tensors(self._stage_path(stage), weights, {"stage": stage, "identity": self.digest()})

    def stages(self) -> list[int]:
        """The stages whose weights were kept."""
        return sorted(int(path.stem) for path in (self.path / "stages").glob("[0-9]*.safetensors"))

    def weights_path(self, stage: int | None = None) -> Path:
        """The file of the final weights, or of those at a stage's end."""
        if stage is None:
            path = self.path / "model" / "model.safetensors"
            require(path.is_file(), "run", f"{self.path} has no final model (it is {self.status()['state']})")
            return path
        kept = self.stages()
        require(stage in kept, "run", f"{self.path} kept the stages {kept or 'none'}, not {stage}")
        return self._stage_path(stage)

    def weights(self, stage: int | None = None) -> dict[str, Tensor]:
        """The final weights or those at a stage's end; refused if the file is not what was written."""
        from internalize.runs.checkpoint import Damaged, load_tensors

        try:
            return load_tensors(self.weights_path(stage))[0]
        except Damaged as error:
            raise BadInput("run", str(error)) from None

    def save_model(self, weights: Mapping[str, Tensor], files: Mapping[str, str]) -> None:
        """The weights come last: where they are, the folder is whole."""
        from internalize.runs.checkpoint import save_tensors

        folder = self.path / "model"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode())
        save_tensors(folder / "model.safetensors", weights, {"identity": self.digest()})

    def _stage_path(self, stage: int) -> Path:
        return self.path / "stages" / f"{stage:04d}.safetensors"

    # For its owner ---------------------------------------------------------------------------------------

    def refuse_links(self) -> None:
        """A training writes into these folders and deletes in them: nothing outside of the run may be meant."""
        for path in sorted(self.path.iterdir()):
            inside = not path.is_symlink() or path.name in FOR_READERS
            require(inside, "run", f"{path} is a link, and a training writes there: put a copy in its place")

    def tidy(self) -> None:
        """Remove what killed owners left half-written."""
        remove_leftovers(self.path)

    def clear(self) -> None:
        """Forget everything but the lock, to start over."""
        (self.path / MANIFEST).unlink(missing_ok=True)
        # The status goes first and for good: a folder that lost half its files must not say that it is done.
        (self.path / "status.json").unlink(missing_ok=True)
        sync_folder(self.path)
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in (LOCK, OWNER):
                entry.unlink()


def _look_up(identity: Any, name: str) -> Any:
    """The entry with the dotted name, None where there is none."""
    part, _, rest = name.partition(".")
    found = identity.get(part) if isinstance(identity, dict) else None
    return _look_up(found, rest) if rest else found
