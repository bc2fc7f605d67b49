"""Files that were too large to be copied into a run: where they are now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from internalize.configs.named import Source, is_object_name
from internalize.errors import BadInput
from internalize.runs.folder import Run


class MissingFiles(BadInput):
    """A file of a run is not there any more, and the run has no copy."""


def outside_files(run: Run) -> dict[str, Path]:
    """Name as in the config → path. Whoever opens a run may stand in another folder than who began it.

    A relative name is looked for in the folder where the run was begun, then here, then in the folders above
    the run. Of several files the one with the recorded content is taken; the caller looks at it in any case.
    """
    hashes, found = run.identity().sources, {}
    for name in sorted(run.outside()):
        if is_object_name(name):  # of code there is always a copy
            continue
        places = dict.fromkeys(folder / name for folder in _folders(run))
        there = [path for path in places if path.exists()]
        if not there:
            here = "" if Path(name).is_absolute() else ", neither here nor where it was begun"
            raise MissingFiles(
                "run", f"{run.path.name} needs {name}, which is not there{here}, and has no copy"
            )
        found[name] = _unchanged(name, there, hashes.get(name))
    return found


def _folders(run: Run) -> list[Path]:
    begun = run.provenance().get("folder")
    recorded = [Path(begun)] if isinstance(begun, str) and begun else []
    return [*recorded, Path.cwd(), *run.path.absolute().parents]


def _unchanged(name: str, places: Sequence[Path], wanted: str | None) -> Path:
    """Only plain files are read here: a folder may be large."""
    if len(places) > 1:
        for path in places:
            if path.is_file() and Source(name, path).digest() == wanted:
                return path
    return places[0]
