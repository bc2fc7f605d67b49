"""`internalize doctor` as its users call it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.runs import doctor

Output = pytest.CaptureFixture[str]


def test_doctor_finds_what_is_wrong(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["doctor", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = {finding["name"] for finding in found["findings"]}
    assert found["healthy"] is True
    assert names >= {
        "python",
        "torch",
        "devices",
        "threads",
        "folder",
        "kernels",
        "disk",
        "extra wandb",
        "runs",
    }
    assert not list(tmp_path.glob(".doctor*"))

    make_runs(tmp_path, 1)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (folder / "config.json").write_text("[]")
    monkeypatch.setattr(doctor, "LITTLE_DISK", 2**80)
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    monkeypatch.setitem(sys.modules, "numba", None)
    assert main(["doctor", "--out", str(tmp_path)]) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wrong: ")]
    assert [line.split(":")[1].strip() for line in wrong] == ["numba", "threads", "disk", "runs"]


def test_doctor_knows_every_extra_that_users_install() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        name: tuple(re.split(r"[<>=]", package)[0] for package in packages)
        for name, packages in extras.items()
        if name not in ("test", "check")
    }
    assert wanted == doctor.EXTRAS


def test_doctor_tells_what_is_there_from_what_is_not(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"here": ("pytest",), "half": ("pytest", "no-such-package")})
    assert main(["doctor", "--out", str(tmp_path)]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [(mark, text) for mark, name, text in lines if name == "extra"] == [
        ("✓", f"here   pytest {pytest.__version__}"),
        ("–", "half   not installed (pip install 'internalize[half]')"),
    ]
    assert [text for _, name, text in lines if name == "rich"] == [version("rich")]


def test_doctor_does_not_blame_the_disk_for_a_wrong_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file" / "x", Path("/proc/x")):
        found = {finding.name: finding.problem for finding in doctor.examine(wrong)}
        assert f"cannot write to {wrong}" in str(found["folder"])
        assert "disk" not in found


def test_doctor_sees_a_folder_it_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "write_atomically", refused)
    finding = next(finding for finding in doctor.examine(tmp_path) if finding.name == "folder")
    assert "Permission denied" in str(finding.problem)
