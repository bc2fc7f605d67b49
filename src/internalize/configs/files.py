"""JSON and YAML files that a user writes."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import math
import os
import re
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, Literal, TextIO, cast

from internalize.configs.file_names import TOO_LONG, is_too_long
from internalize.errors import BadInput, closest_file, require

LARGEST_JSON = 100 * 2**20
LARGEST_YAML = 2**18
"""Seconds to read already; the fast reader of YAML crashes on deeply nested text."""
DEEPEST_YAML, LONGEST_INT = 50, 100
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
        raise BadInput(field, f"there is no file {path}{closest_file(path)}") from None
    except OSError as error:
        raise BadInput(field, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(where, "the file is not UTF-8 text") from None


def _from_json(text: str, where: str) -> Any:
    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _refuse_twice((name for name, _ in pairs), where)
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=object_of)
        require_whole_letters(text, value, where)
        return value
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"the file is not JSON: {error}") from None


def require_whole_letters(text: str, value: Any, where: str) -> None:
    r"""Refuse JSON in which `\ud800` spells half of a letter: no file and no library takes it as text."""
    try:
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadInput(where, "a text in it holds half of a letter (\\ud800 … \\udfff)") from None


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
            endless = node is not None and node.tag.endswith(":int") and len(node.value) > LONGEST_INT
            require(not endless, where, f"has a number of more than {LONGEST_INT} digits")
            require(not alias or id(node) in sizes, where, "an alias stands within what it names")
            self.depth -= 1
            if node is not None and id(node) not in sizes:  # an alias gives the very node that it names
                sizes[id(node)] = 1 + sum(sizes.get(id(child), 1) for child in _children(node))
                few = sizes[id(node)] <= MOST_NODES
                require(few, where, f"more than {MOST_NODES:,} values, by its aliases")
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


LARGEST = 2**63 - 1
"""The largest whole number that tensors hold."""
LONGEST_TEXT = 100_000
"""Characters of one argument."""


def require_plain(value: Any, field: str = "") -> None:
    """Refuse, by the name of its field, a number beyond 64 bits, nan, and text that is no UTF-8."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            require_plain(getattr(value, part.name), _named(field, part))
    elif isinstance(value, tuple | list | Mapping):
        for entry in value.values() if isinstance(value, Mapping) else value:
            require_plain(entry, field)
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        bits = value.bit_length()
        require(abs(value) <= LARGEST, field, f"must be less than 2^63, got a number of {bits} bits")
    elif isinstance(value, float):
        require(not math.isnan(value), field, "must be a number, got nan")
    elif isinstance(value, str | PurePath):
        _require_text(str(value), field)


def _require_text(text: str, field: str) -> None:
    require(len(text) <= LONGEST_TEXT, field, f"is too long: {len(text):,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="backslashreplace").decode()
        require(False, field, f"must be UTF-8 text, got {shown[:200]}")
    require("\0" not in text, field, "must not hold a zero character")


def _named(before: str, part: dataclasses.Field[Any]) -> str:
    """As a user writes it: model.depth, final-samples; groups that have no name of their own are left out."""
    own = "" if part.name in UNNAMED else part.name.replace("_", "-")
    return ".".join(name for name in (before, own) if name)


UNNAMED = ("config", "execution", "many", "which", "ray")
"""Fields that hold a group of options."""


STANDARD_OUTPUT = Path("-")
"""What a user writes for it in place of a file."""
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys; tabs and the ends of lines are left."""


def write_output(path: Path, content: bytes | str) -> None:
    """Write the whole content to what the path means: links are followed, `-` is standard output.

    A plain file is there whole or not at all, with the permissions that it had. `OSError` names the file.
    """
    data = content.encode() if isinstance(content, str) else content
    with naming_the_file(path):
        _write(path, data)


@contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Of a disk that is full the system says in the midst of writing, and then not where."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write(path: Path, data: bytes) -> None:
    if is_standard_output(path):
        _print(data)
        return
    try:
        there = path.stat()
    except FileNotFoundError:
        _replace(path.resolve(), data, None)  # where a link leads, also to a file that is not there yet
        return
    if (number := _descriptor(path)) is not None:  # whoever opened it may append to a plain file
        _write_through(os.dup(number), data)
    elif stat.S_ISREG(there.st_mode) and path.resolve().exists():  # what /dev/fd/3 leads to may have no name
        _replace(path.resolve(), data, there)
    else:
        _write_through(path, data)


def is_standard_output(path: Path) -> bool:
    """Whether it is written `-`, or leads to the very place where standard output goes, such as /dev/stdout."""
    if path == STANDARD_OUTPUT:
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or an output that is none
        return False


def _descriptor(path: Path) -> int | None:
    """The open stream that is meant by a name such as /dev/stderr or /dev/fd/3; None for other names."""
    place = path.absolute()
    while place.is_symlink():
        if os.path.realpath(place.parent) == f"/proc/{os.getpid()}/fd":
            return int(place.name)
        place = place.parent / place.readlink()
    return None


def _print(data: bytes) -> None:
    """On a terminal, what it would obey is spelled out; a pipe gets the very bytes."""
    if sys.stdout.isatty():
        text = data.decode(errors="replace")
        data = OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text).encode()
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if isinstance(binary, io.IOBase):
        binary.write(data)
        binary.flush()
    else:  # a notebook's
        sys.stdout.write(data.decode(errors="replace"))


def _replace(target: Path, data: bytes, before: os.stat_result | None) -> None:
    """Beside the file, then into its place; where the folder does not allow that, into the file itself."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    except PermissionError:
        _write_through(target, data)
        return
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            with suppress(OSError):  # who writes for somebody else, as root can, does not take the file away
                os.chown(temporary, before.st_uid, before.st_gid)
        temporary.chmod(stat.S_IMODE(before.st_mode) if before is not None else 0o666 & ~_umask())
        try:
            temporary.replace(target)
        except OSError:  # not ours to replace, or mounted by itself into a container
            if before is None:
                raise
            _write_through(target, data)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_through(place: Path | int, data: bytes) -> None:
    with open(place, "wb") as file:  # noqa: PTH123
        file.write(data)


def _umask() -> int:
    os.umask(mask := os.umask(0o077))  # there is no way to look at it but to set it
    return mask


def require_writable(folder: Path, field: str = "out") -> Path:
    """Refuse a folder that could not be made or written to, before any time is spent. Leaves nothing."""
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if os.path.lexists(path))
    require(there.is_dir(), field, f"cannot write to {folder}: {there} is not a folder")
    require(os.access(there, os.W_OK | os.X_OK), field, f"cannot write to {folder}: {there} is write-protected")
    require(not is_too_long(whole), field, f"cannot write to {str(folder)[:60]}…: {TOO_LONG}")
    try:  # permissions are not all: nobody makes folders in /proc or on a read-only disk
        tempfile.TemporaryDirectory(prefix=".writable-", dir=there).cleanup()
    except OSError as error:
        why = f"no folder can be made in {there} ({error.strerror})"
        raise BadInput(field, f"cannot write to {folder}: {why}") from None
    return folder


def make_folder(folder: Path, field: str = "out") -> Path:
    """Make the folder, with those above it, unless it is there."""
    try:
        require_writable(folder, field).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(field, f"cannot write to {folder}: {error.strerror}") from None
    return folder


class Dropping:
    """A text stream that swallows what it cannot write; for everything else it is the stream behind it."""

    def __init__(self, stream: TextIO, tolerable: Callable[[OSError], bool]) -> None:
        """tolerable: whether an error is to be swallowed."""
        self._stream, self._tolerable = stream, tolerable

    def write(self, text: str) -> int:
        return self._try(lambda: self._stream.write(text), len(text))

    def writelines(self, lines: list[str]) -> None:
        self._try(lambda: self._stream.writelines(lines), None)

    def flush(self) -> None:
        self._try(self._stream.flush, None)

    def _try(self, deed: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return deed()
        except ValueError:  # closed
            return otherwise
        except OSError as error:
            if not self._tolerable(error):
                raise
            lead_nowhere(self._stream)
            return otherwise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def lead_nowhere(stream: TextIO) -> None:
    """Let the stream's descriptor lead to nothing: else Python fails at its end, when it empties the stream."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def dropping_remarks() -> AbstractContextManager[None]:
    """Whatever cannot be written to the error stream is dropped while the block runs."""
    _open_missing()
    return _dropping("stderr", lambda error: True)


def dropping_results() -> AbstractContextManager[None]:
    """The same for standard output, where it is but another place for remarks."""
    return _dropping("stdout", lambda error: True)


def outliving_the_reader() -> AbstractContextManager[None]:
    """The block goes on when the reader of standard output has gone; a full disk there is still an error."""
    return _dropping("stdout", lambda error: error.errno == errno.EPIPE)


@contextmanager
def _dropping(name: Literal["stdout", "stderr"], tolerable: Callable[[OSError], bool]) -> Iterator[None]:
    before = getattr(sys, name)
    setattr(sys, name, cast(TextIO, Dropping(before, tolerable)))
    try:
        yield
    finally:
        setattr(sys, name, before)


def _open_missing() -> None:
    """A stream that was closed before the start (`2>&-`) leads to nothing.

    Its number must not stay free: the next file that is opened would get it, and with it what others print.
    """
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, mostly this very one
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
