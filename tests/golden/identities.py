"""What runs *are*, written down once: configs with their full JSON, label, hashes of files, and identity.

The file `identities.json` is never made anew: whoever has runs on disk finds them again by these very hashes.
A new feature gets an entry of its own, printed by

    python -m tests.golden.identities NAME KIND '{"task": "C7"}'

and put at the end of the file by hand. Names of files are relative to this folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, TypedDict

# All that is needed of the package, in one place: the hashes outlive the modules.
from internalize.configs.codec import to_json
from internalize.configs.named import own_files
from internalize.kinds import config_from_json, prepare

HERE = Path(__file__).parent
FILE = HERE / "identities.json"


class Entry(TypedDict):
    """A config and all that its runs are recognised by."""

    name: str
    kind: str
    fields: dict[str, Any]
    """Only what a user gives."""
    full: dict[str, Any]
    """What is written to the run's folder."""
    label: str
    sources: dict[str, str]
    """Name of a user's file as written in the config → hash of its content."""
    digest: str
    folder: str
    """The name of the run's folder, by which a second training finds the first."""


def entry_of(name: str, kind: str, fields: dict[str, Any]) -> Entry:
    """The entry of a config as the package has it today; user's files are found from the current folder."""
    with own_files():
        config = config_from_json(kind, fields)
        identity = prepare(config).identity
    return {
        "name": name,
        "kind": kind,
        "fields": fields,
        "full": to_json(config),
        "label": config.label(),
        "sources": dict(identity.sources),
        "digest": identity.digest(),
        "folder": identity.folder_name(config.label()),
    }


def stored() -> list[Entry]:
    """The entries of the file."""
    entries: list[Entry] = json.loads(FILE.read_text(encoding="utf-8"))
    return entries


def main(words: list[str]) -> None:
    name, kind, fields = words
    os.chdir(HERE)
    print(json.dumps(entry_of(name, kind, json.loads(fields)), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
