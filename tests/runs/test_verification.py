"""Damage to any file of a finished run is noticed, and what can be made anew is made to the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main

TRAIN = [
    *("train", "--task", "C2", "--horizon", "2", "--iterations", "4", "--batch", "4", "--out", "runs"),
    *("--model.depth", "1", "--model.width", "8", "--model.heads", "2", "--quiet", "--keep-stages", "all"),
    *("--evaluation.samples", "8", "--evaluation.final-samples", "8"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(out)
        assert main(TRAIN) == 0
    (run,) = (path for path in (out / "runs").iterdir() if path.is_dir())
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, Path("runs") / finished.name))


def verify(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["runs", "verify", "--out", "runs", "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


def test_a_good_run_is_good_also_after_pruning(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys) == (0, {"runs": 1, "made": [], "damaged": []})
    for part in ("checkpoints", "stages"):
        assert main(["runs", "prune", "--out", "runs", "--what", part, "--yes"]) == 0
        assert not (run / part).exists()
    assert verify(capsys)[0] == 0


def test_every_changed_byte_is_noticed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In each file, whatever it is: in the midst, at the end, and all of it gone."""
    listed = json.loads((run / "manifest.json").read_text())["files"]
    assert {"config.json", "status.json", "metrics.jsonl", "model/model.safetensors"} <= set(listed)
    for name in [*listed, "manifest.json"]:
        good = (run / name).read_bytes()
        middle = len(good) // 2
        flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
        for content in (flipped, good[:-2], b"", good + good):
            (run / name).write_bytes(content)
            code, found = verify(capsys, str(run))
            assert code == 1
            assert name in {damage["file"] for damage in found["damaged"]}
        (run / name).write_bytes(good)
    assert verify(capsys)[0] == 0


@pytest.mark.filterwarnings("always")  # the command line tells them itself
def test_a_changed_result_is_not_read_as_a_result(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = (run / "status.json").read_text()
    changed = status.replace('"id_accuracy": 0', '"id_accuracy": 1').replace('"seconds": ', '"seconds": 1')
    assert changed != status
    (run / "status.json").write_text(changed)
    assert main(["runs", "--out", "runs", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["state"], row["accuracy"], row["summary"]) == ("damaged", None, {})
    assert main(["runs", "compare", str(run), str(run)]) == 2
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event": "evaluation", "id_accuracy": 1.0}\n')
    assert main(["runs", "show", str(run)]) == 2
    assert "runs verify" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["config.json", ".run.json", "metrics.jsonl"])
def test_what_is_known_elsewhere_is_made_anew(run: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / file).read_bytes()
    (run / file).write_bytes(before[:-7])
    code, found = verify(capsys, "--rebuild")
    assert (code, found["damaged"]) == (0, [])
    assert (run / file).read_bytes() == before


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("file", ["status.json", "model/model.safetensors", "manifest.json"])
def test_results_and_model_come_again_from_the_checkpoint(
    run: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = (run / "model/model.safetensors").read_bytes()
    summary = json.loads((run / "status.json").read_text())
    (run / file).write_bytes(b"damaged")
    if file.startswith("model"):
        assert main(["resume", str(run)]) == 1
        assert "runs verify" in capsys.readouterr().err
        assert main(["doctor", "--out", "runs"]) == 1
        assert file in capsys.readouterr().out
    code, found = verify(capsys, "--rebuild")
    assert code == 0
    assert "internalize resume" in found["made"][0]
    assert main(["resume", str(run), "--quiet"]) == 0
    assert verify(capsys)[0] == 0
    assert (run / "model/model.safetensors").read_bytes() == model
    assert json.loads((run / "status.json").read_text())["summary"] == summary["summary"]


def test_an_older_run_is_checked_without_a_manifest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "manifest.json").unlink()
    assert verify(capsys)[0] == 0
    weights = bytearray((run / "model/model.safetensors").read_bytes())
    weights[-1] ^= 1
    (run / "model/model.safetensors").write_bytes(weights)
    code, found = verify(capsys)
    assert (code, found["damaged"][0]["file"]) == (1, "model/model.safetensors")


def test_a_run_that_lost_its_config_is_still_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is listed, trained over by nobody, and whole again after verify --rebuild; its model is no run."""
    before = {path: path.read_bytes() for path in run.rglob("*.json*")}
    (run / "config.json").unlink()
    assert main(["runs", "--out", "runs", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (Path(row["path"]).name, row["state"]) == (run.name, "damaged")
    assert main(TRAIN) == 2
    assert "has lost its config.json: internalize runs verify" in capsys.readouterr().err
    assert verify(capsys, "--rebuild") == (
        0,
        {"runs": 1, "made": [f"made anew: {run}/config.json"], "damaged": []},
    )
    assert {path: path.read_bytes() for path in run.rglob("*.json*")} == before


def test_a_finished_run_without_a_manifest_gets_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").unlink()
    assert verify(capsys, "--rebuild") == (
        0,
        {"runs": 1, "made": [f"made anew: {run}/manifest.json"], "damaged": []},
    )
    assert json.loads((run / "manifest.json").read_text()) == before


def test_a_pattern_finds_runs_by_their_names_and_by_their_paths(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = Path(shutil.copytree(run, Path("runs/sweep/case") / run.name))
    for pattern, found in (("C2-*", 2), ("*case*", 1), ("runs/*/*/C2*", 1), ("**2-T2*", 2), (f"{deep}*", 1)):
        assert verify(capsys, pattern) == (0, {"runs": found, "made": [], "damaged": []})
    for pattern in ("C3-*", "**x", "a**/b", "["):
        assert main(["runs", "verify", pattern]) == 2
        assert f"runs: no run matches {pattern}" in capsys.readouterr().err
