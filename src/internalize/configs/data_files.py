"""JSON and YAML files that a user writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from internalize.errors import BadInput, require

LARGEST_JSON = 100 * 2**20
LARGEST_YAML = 2**18
"""Seconds to read already; the fast reader of YAML crashes on deeply nested text."""
DEEPEST_YAML = 50
MOST_NODES = 100_000
"""Values in a YAML file, each counted as often as aliases (`*name`) repeat it: ten lines of aliases of aliases
would else be more values than there is memory for."""


def read_data(path: Path, field: str) -> Any:
    """What the file holds; a problem is one line that names the file. A name in .json is JSON, else YAML."""
    where = f"{field} ({path.name})"
    if path.suffix.lower() == ".json":
        return _from_json(read_text(path, field, LARGEST_JSON), where)
    return _from_yaml(read_text(path, field, LARGEST_YAML, " (of JSON more)"), where)


def read_text(path: Path, field: str, most: int = LARGEST_YAML, hint: str = "") -> str:
    """The text of a file of at most so many bytes."""
    where = f"{field} ({path.name})"
    try:
        size = path.stat().st_size
        require(path.is_file(), field, f"{path} is not a file")
        require(size > 0, where, "the file is empty")
        require(size <= most, where, f"the file has {size:,} bytes, at most {most:,} are read{hint}")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(field, f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(field, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(where, "the file is not UTF-8 text") from None


def _from_json(text: str, where: str) -> Any:
    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _refuse_twice((name for name, _ in pairs), where)
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=object_of)
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"the file is not JSON: {error}") from None


def _from_yaml(text: str, where: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes each key once. What `<<` brings in may be set anew, as YAML has it: that comes later.

        Counts what it composes, an alias as all that it stands for, before anything is made of it.
        """

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
            self.depth += 1
            require(self.depth <= DEEPEST_YAML, where, f"nested more than {DEEPEST_YAML} deep")
            alias = self.check_event(yaml.AliasEvent)
            node = super().compose_node(parent, index)
            require(not alias or id(node) in sizes, where, "an alias stands within what it names")
            self.depth -= 1
            if node is not None and id(node) not in sizes:  # an alias gives the very node that it names
                sizes[id(node)] = 1 + sum(sizes.get(id(child), 1) for child in _children(node))
                require(
                    sizes[id(node)] <= MOST_NODES, where, f"more than {MOST_NODES:,} values, by its aliases"
                )
            return node

        def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
            node: yaml.MappingNode = super().compose_mapping_node(anchor)
            _refuse_twice((key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)), where)
            return node

    sizes: dict[int, int] = {}
    """Of the nodes that are complete, by identity: all of them live until the document is read."""
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(where, f"the file is not YAML: {' '.join(str(error).split())}") from None


def _children(node: Any) -> Iterable[Any]:
    """Of a mapping its keys and values, of a sequence its entries, of a text none."""
    if isinstance(node.value, str):
        return ()
    return (part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,)))


def _refuse_twice(keys: Iterable[str], where: str) -> None:
    """Of two values for one key a reader would keep the last and drop the other without a word."""
    for key, times in Counter(keys).items():
        require(times == 1, where, f"the key {key!r} is there {times} times in one mapping")
