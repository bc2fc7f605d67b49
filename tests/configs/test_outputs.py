"""Output files: plain ones are replaced whole, everything else stays what it is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from internalize.analysis.output import OutputFolder
from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.configs.files import write_output
from internalize.display.plots import new_figure
from internalize.errors import BadInput

PRINTING = "import sys; from pathlib import Path; from internalize.configs.files import write_output; {}"


def in_a_process(statement: str, **how: object) -> None:
    subprocess.run([sys.executable, "-c", PRINTING.format(statement)], check=True, **how)  # type: ignore[call-overload]


@pytest.fixture
def fifo(tmp_path: Path) -> tuple[Path, list[bytes], threading.Thread]:
    """A FIFO, what its reader got, and the reader."""
    path, got = tmp_path / "fifo", list[bytes]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    return path, got, reader


def test_a_plain_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_output(path, "one")
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write_output(path, "two")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two", 0o640)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.csv", "plain"]


@pytest.mark.parametrize("there", [True, False])
def test_links_are_followed_and_stay(tmp_path: Path, there: bool) -> None:
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "target"
    if there:
        target.write_text("old")
    (tmp_path / "middle").symlink_to(target)
    (tmp_path / "link").symlink_to("middle")
    write_output(tmp_path / "link", "new")
    assert target.read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "middle").is_symlink()


@pytest.mark.parametrize("by_link", [True, False])
def test_a_fifo_gets_it_and_stays(
    tmp_path: Path, fifo: tuple[Path, list[bytes], threading.Thread], by_link: bool
) -> None:
    path, got, reader = fifo
    (tmp_path / "link").symlink_to(path)
    write_output(tmp_path / "link" if by_link else path, b"content")
    reader.join(10)
    assert got == [b"content"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_standard_output_by_either_name(tmp_path: Path) -> None:
    """What a shell appends to is not replaced, and what a pipe of its leads to has no name."""
    log = tmp_path / "log"
    log.write_text("before\n")
    (tmp_path / "link").symlink_to("/dev/fd/1")
    with log.open("ab") as file:
        both = f"write_output(Path('-'), 'one\\n'); write_output(Path('{tmp_path / 'link'}'), 'two\\n')"
        in_a_process(both, stdout=file)
    assert log.read_text() == "before\none\ntwo\n"
    reading, writing = os.pipe()
    in_a_process(f"write_output(Path('/dev/fd/{writing}'), b'piped')", pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading, "rb") as end:
        assert end.read() == b"piped"


def test_what_a_shell_appends_to_is_not_replaced(tmp_path: Path) -> None:
    """/dev/stderr and /dev/fd/N name an open stream, not the file behind it."""
    log = tmp_path / "log"
    log.write_text("first\n")
    with log.open("a") as stream:
        in_a_process("write_output(Path('/dev/stderr'), 'second\\n')", stderr=stream)
        stream.write("third\n")
    assert log.read_text() == "first\nsecond\nthird\n"


def test_a_terminal_is_shown_what_it_would_obey() -> None:
    """A pipe gets the very bytes, see above."""
    master, terminal = os.openpty()
    in_a_process("write_output(Path('-'), 'a\\x1b[31mb\\x9bc\\u202ed\\te ü\\n')", stdout=terminal)
    os.close(terminal)
    with os.fdopen(master, "rb") as end:
        assert end.readline().decode().expandtabs(1).strip() == r"a\x1b[31mb\x9bc\u202ed e ü"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_output(tmp_path, "x")
    with pytest.raises(FileNotFoundError):
        write_output(tmp_path / "none" / "x", "x")


def test_inspections_follow_no_link_out_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("dear diary")
    (tmp_path / "RUN" / "analysis").mkdir(parents=True)
    for name in ("found.json", "picture.svg"):
        (tmp_path / "RUN" / "analysis" / name).symlink_to(tmp_path / "diary")
    out = OutputFolder(tmp_path / "RUN" / "analysis", in_run=True)
    out.json("found", {"a": 1})
    out.figure("picture", new_figure()[0])
    assert (tmp_path / "diary").read_text() == "dear diary"
    (tmp_path / "RUN" / "linked").symlink_to(tmp_path)
    with pytest.raises(BadInput, match="is a link out of the run's folder"):
        OutputFolder(tmp_path / "RUN" / "linked", in_run=True).json("found", {})
    OutputFolder(tmp_path / "RUN" / "analysis").json("found", {"a": 2})  # named by the user
    assert '"a": 2' in (tmp_path / "RUN" / "analysis" / "found.json").read_text()


def test_runs_are_exported_through_fifos_links_and_standard_output(
    tmp_path: Path, fifo: tuple[Path, list[bytes], threading.Thread], capsys: pytest.CaptureFixture[str]
) -> None:
    make_runs(tmp_path / "runs", 5)
    command = ["runs", "export", "--out", str(tmp_path / "runs"), "--csv"]
    path, got, reader = fifo
    assert main([*command, str(path)]) == 0
    reader.join(10)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert main([*command, str(tmp_path / "link")]) == 0
    capsys.readouterr()
    assert main([*command, "-"]) == 0
    printed = capsys.readouterr().out
    assert got[0].decode() == (tmp_path / "target").read_text() == printed
    assert len(printed.splitlines()) == 6
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert (tmp_path / "link").is_symlink()
    assert not Path("-").exists()
