"""The copy that is attacked is the laboratory again after each attack, whatever was done to it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.hostile.laboratory import GOLDEN, Copy


def contents(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Every entry with its permissions, and the bytes of a file or the aim of a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inner = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None  # noqa: PTH115
        found[str(path.relative_to(folder))] = path.lstat().st_mode, inner
    return found


def test_a_copy_is_made_whole_again(tmp_path: Path) -> None:
    original = shutil.copytree(GOLDEN, tmp_path / "original", ignore=shutil.ignore_patterns("__pycache__"))
    (original / "link").symlink_to("nowhere")
    copy = Copy(original, tmp_path / "copy")
    good = contents(original)
    first, second, third, *_, last = sorted(path for path in original.iterdir() if path.is_dir())
    here = copy.restore()
    assert contents(here) == good
    times = (here / first.name / "config.json").stat()
    text = (here / first.name / "config.json").read_text()
    (here / first.name / "config.json").write_text(text.replace("C", "D"))  # as long, and of the same time
    os.utime(here / first.name / "config.json", ns=(times.st_atime_ns, times.st_mtime_ns))
    shutil.rmtree(here / second.name)
    (here / second.name).symlink_to(third.name)
    (here / third.name / "status.json").unlink()
    (here / third.name / "status.json").mkdir()
    (here / "new" / "inner").mkdir(parents=True)
    os.mkfifo(here / "new" / "fifo")
    (here / last.name).chmod(0o700)
    (here / "link").unlink()
    assert contents(copy.restore()) == good
    shutil.rmtree(here)
    assert contents(copy.restore()) == good
    assert contents(original) == good
