"""What a run *is*: kind, config and the content of the user's files, as one hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        readable = re.sub(r"[^A-Za-z0-9.+=-]+", "_", label).strip("._")[:60]
        return f"{readable}-{self.digest()}"
