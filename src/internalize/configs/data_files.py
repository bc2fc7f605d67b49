"""JSON and YAML files that a user writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from internalize.errors import BadInput, require

LARGEST_JSON = 100 * 2**20
LARGEST_YAML = 2**18
"""Seconds to read already; the fast reader of YAML crashes on deeply nested text."""


def read_data(path: Path, field: str) -> Any:
    """What the file holds; a problem is one line that names the file. A name in .json is JSON, else YAML."""
    where = f"{field} ({path.name})"
    is_json = path.suffix.lower() == ".json"
    try:
        size = path.stat().st_size
        require(path.is_file(), field, f"{path} is not a file")
        require(size > 0, where, "the file is empty")
        most = LARGEST_JSON if is_json else LARGEST_YAML
        hint = "" if is_json else " (of JSON more)"
        require(size <= most, where, f"the file has {size:,} bytes, at most {most:,} are read{hint}")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(field, f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(field, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(where, "the file is not UTF-8 text") from None
    if is_json:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(where, f"the file is not JSON: {error}") from None
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(where, f"the file is not YAML: {' '.join(str(error).split())}") from None
