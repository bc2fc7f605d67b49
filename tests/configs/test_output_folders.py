"""Folders that cannot be made are refused in one line, whoever asks, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from internalize.configs import files as folders
from internalize.configs.file_names import require_file
from internalize.configs.files import make_folder, require_writable
from internalize.errors import BadInput


def test_a_folder_is_made_with_all_above_it_or_left_as_it_is(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    assert require_writable(wanted) == wanted
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        assert make_folder(wanted) == wanted
        assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]


def test_where_nobody_makes_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in /proc: permissions say yes, the system says no."""
    inner = os.mkdir

    def refused(path: object, *more: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "mkdir", refused)
    for ask in (require_writable, make_folder):
        with pytest.raises(BadInput) as problem:
            ask(tmp_path / "x", "drawings")
        assert problem.value.field == "drawings"
        assert problem.value.message.startswith(f"cannot write to {tmp_path / 'x'}: no folder can be made in ")
    monkeypatch.setattr(os, "mkdir", inner)
    monkeypatch.setattr(folders, "require_writable", lambda folder, field: folder)  # it changed since then
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"^out: cannot write to .*/file/x: Not a directory"):
        make_folder(tmp_path / "file" / "x")


def test_names_that_are_too_long_are_refused_before_any_time_is_spent(tmp_path: Path) -> None:
    for path in (tmp_path / "there" / ("y" * 256), tmp_path / ("y/" * 2_100)):
        with pytest.raises(BadInput, match=r"a name may have 255 bytes, a path 4,095"):
            require_writable(path, "drawings")
        with pytest.raises(BadInput, match=r"a name may have 255 bytes, a path 4,095"):
            require_file(path, "csv")
    assert require_writable(tmp_path / ("y" * 255)) == tmp_path / ("y" * 255)


def test_a_file_needs_a_folder_and_a_name_of_its_own(tmp_path: Path) -> None:
    require_file(tmp_path / "t.csv", "csv")
    with pytest.raises(BadInput, match="Is a directory"):
        require_file(tmp_path, "csv")
    with pytest.raises(BadInput, match="there is no folder"):
        require_file(tmp_path / "no" / "t.csv", "csv")
    assert list(tmp_path.iterdir()) == []
