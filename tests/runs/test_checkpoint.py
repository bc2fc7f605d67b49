"""Saving that fails at any step, and files that are damaged in any way: there is always a good checkpoint."""

from __future__ import annotations

import errno
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from internalize.errors import BadInput, RunWarning
from internalize.runs import storage as atomic
from internalize.runs.checkpoint import Checkpoint, checkpoints, load_newest, save_checkpoint
from internalize.runs.storage import Journal, read_rows, remove_leftovers

IDENTITY = "0123456789ab"


def checkpoint(step: int) -> Checkpoint:
    tensors = {"model/w": torch.full((3, 5), float(step)), "steps": torch.tensor(step), "none": torch.zeros(0)}
    return Checkpoint(step, tensors, {"progress": {"iteration": step}}, b'{"loss": 1}\n' * step)


def save(folder: Path, step: int) -> Path:
    return save_checkpoint(folder, IDENTITY, checkpoint(step))


def newest(folder: Path) -> Checkpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        found = load_newest(folder, IDENTITY)
    assert found is not None
    return found


def assert_is(found: Checkpoint, step: int) -> None:
    expected = checkpoint(step)
    assert (found.step, found.scalars, found.metrics) == (step, expected.scalars, expected.metrics)
    assert found.tensors.keys() == expected.tensors.keys()
    assert all(torch.equal(tensor, expected.tensors[name]) for name, tensor in found.tensors.items())


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("step", ["write", "flush", "move", "sync_folder"])
def test_a_failure_at_any_step_of_saving_leaves_a_good_checkpoint(
    step: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    inner: Callable[..., Any] = getattr(atomic, step)

    def failing(*arguments: Any) -> None:
        if when == "half" and step == "write":
            arguments[0].write(arguments[1][:100])
        if when == "after":
            inner(*arguments)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, step, failing)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, 2)
    monkeypatch.undo()
    moved = (step, when) == ("move", "after") or step == "sync_folder"
    found = load_newest(tmp_path, IDENTITY)  # no warning: nothing damaged was left in its place
    assert found is not None
    assert_is(found, 2 if moved else 1)
    assert not list(tmp_path.glob(".*"))
    save(tmp_path, 3)
    assert_is(newest(tmp_path), 3)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=st.data())
def test_damage_is_noticed_and_the_one_before_is_used(damage: st.DataObject, tmp_path: Path) -> None:
    """A flipped bit, a cut, a hole, other bytes, or nothing left at all."""
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    content = bytearray(path.read_bytes())
    place = damage.draw(st.integers(0, len(content) - 1))
    kind = damage.draw(st.sampled_from(["flip", "cut", "zero", "empty", "missing"]))
    if kind == "flip":
        content[place] ^= 1 << damage.draw(st.integers(0, 7))
    elif kind == "zero":
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    elif kind in ("cut", "empty"):
        del content[0 if kind == "empty" else place :]
    if kind == "missing":
        path.unlink()
    else:
        path.write_bytes(content)
    found = newest(tmp_path)
    # bytes that nothing is read from (the label "pt") may change without harm: then it is still what was saved
    assert_is(found, 2 if found.step == 2 else 1)
    assert found.step == 1 or kind in ("flip", "zero")


def test_a_flipped_bit_in_the_weights_is_noticed(tmp_path: Path) -> None:
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.warns(RunWarning, match="passed over: .*000002.safetensors does not match its checksum"):
        found = load_newest(tmp_path, IDENTITY)
    assert found is not None
    assert_is(found, 1)


def test_the_last_two_good_ones_are_kept(tmp_path: Path) -> None:
    for step in (1, 5, 9, 12):
        save(tmp_path, step)
    assert [int(path.stem) for path in checkpoints(tmp_path)] == [12, 9]
    # the newest is damaged: training went on from 9, and what it saves now must not push 9 out
    (tmp_path / "000000000012.safetensors").write_bytes(b"")
    save(tmp_path, 10)
    assert [int(path.stem) for path in checkpoints(tmp_path)] == [10, 9]


def test_the_same_state_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    contents = {save(tmp_path / name, 7).read_bytes() for name in "abababab"}
    assert len(contents) == 1


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(BadInput, match="belongs to another run"):
        load_newest(tmp_path, "ffffffffffff")


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.mark,)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    mark = tmp_path / "exploded"
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists(), "the bomb works"
    mark.unlink()
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    save(folder, 1)
    for name in ("000000000009.safetensors", "000000000009.pt", "000000000009.pkl", "pytorch_model.bin"):
        (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    assert_is(newest(folder), 1)
    assert not mark.exists()


def test_only_half_written_files_are_tidied_away(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    leftovers = [tmp_path / ".status.json.17.tmp", tmp_path / "stages" / ".0001.safetensors.17.tmp"]
    others = [tmp_path / ".lock", tmp_path / "notes.tmp", tmp_path / "stages" / "0001.safetensors"]
    for path in [*leftovers, *others]:
        path.touch()
    assert set(remove_leftovers(tmp_path)) == set(leftovers)
    assert all(path.exists() for path in others)


def test_a_journal_holds_whole_rows_only(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    journal = Journal(path)
    journal.append({"step": 1})
    kept = journal.sync()
    journal.append({"step": 2, "name": "δ"})
    path.write_bytes(path.read_bytes()[:-3])  # as a kill would leave it
    assert read_rows(path) == [{"step": 1}]
    again = Journal(path, kept)
    again.append({"step": 2, "name": "δ"})
    assert read_rows(path) == [{"step": 1}, {"step": 2, "name": "δ"}]
    path.write_bytes(b"garbage\n" + path.read_bytes())
    with pytest.warns(RunWarning, match="lines that cannot be read"):
        assert len(read_rows(path)) == 2
    Journal(path, kept)  # whatever happened to the file, the checkpoint knows better
    assert path.read_bytes() == kept
    with pytest.raises(ValueError, match="JSON"):
        again.append({"loss": float("nan")})
