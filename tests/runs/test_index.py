"""The index of runs against the folders themselves."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from pathlib import Path

import pytest

from internalize.benchmarks.store import make_runs, measure
from internalize.errors import BadInput
from internalize.runs import index as index_module
from internalize.runs.folder import Run
from internalize.runs.index import INDEX, Filter, Store
from internalize.runs.storage import own, write_json

COUNT = 150


@pytest.fixture
def out(tmp_path: Path) -> Path:
    make_runs(tmp_path / "runs", COUNT)
    return tmp_path / "runs"


def states(store: Store) -> dict[str, str]:
    return {entry.path: entry.state for entry in store.entries()}


def test_filters_find_what_the_folders_say(out: Path) -> None:
    runs = [Run.open(folder) for folder in out.iterdir()]
    wanted = {
        run.path.name
        for run in runs
        if run.identity().config["task"] == "C7" and run.is_done and run.summary()["id_accuracy"] >= 0.3
    }
    found = Store(out).entries(Filter(task="C7", state="done", min_accuracy=0.3))
    assert {entry.path for entry in found} == wanted
    assert 0 < len(wanted) < 30
    entry = found[0]
    run = Run.open(out / entry.path)
    assert (entry.hash, entry.config, entry.summary) == (run.digest(), run.identity().config, run.summary())


def test_only_what_changed_is_read_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(out)
    assert len(store.entries()) == COUNT
    read: list[Path] = []

    class Counting(Run):
        @classmethod
        def at(cls, path: Path, field: str = "run") -> Run:
            read.append(path)
            return super().at(path, field)

    monkeypatch.setattr(index_module, "Run", Counting)
    before = states(store)
    assert read == []
    changed, gone, *_ = sorted(path for path in before if before[path] == "done")
    write_json(out / changed / "status.json", {"state": "failed", "message": "loss is nan"})
    shutil.rmtree(out / gone)
    shutil.copytree(out / changed, out / "group" / "renamed")
    after = states(store)
    assert set(read) == {out / changed, out / "group" / "renamed"}
    assert after == {
        **{p: s for p, s in before.items() if p != gone},
        changed: "failed",
        "group/renamed": "failed",
    }


def test_a_killed_run_is_not_listed_as_running(out: Path) -> None:
    folder = next(out.iterdir())
    write_json(folder / "status.json", {"state": "running"})
    with own(folder):
        assert states(Store(out))[folder.name] == "running"
    assert states(Store(out))[folder.name] == "interrupted"
    assert Store(out).entries(Filter(state="running")) == []


@pytest.mark.parametrize("damage", ["garbage", "old schema", "cut", "no permission"])
def test_the_index_can_be_lost(out: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(out)
    before = states(store)
    index = out / INDEX
    if damage == "garbage":
        index.write_bytes(b"not a database at all" * 1000)
    elif damage == "cut":
        index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
    elif damage == "old schema":
        monkeypatch.setattr(index_module, "SCHEMA", 99)
    else:
        index.unlink()
        index.mkdir()  # also for root, who may write anywhere
    assert states(store) == before
    assert damage == "no permission" or store.rebuild() == COUNT


def test_what_cannot_be_read_is_listed_with_the_reason(out: Path) -> None:
    folder = next(out.iterdir())
    (folder / "config.json").write_text("{}")
    (entry,) = Store(out).entries(Filter(state="damaged"))
    assert entry.path == folder.name
    assert "format None" in str(entry.message)
    with pytest.raises(BadInput, match="out: there is no folder"):
        Store(out / "nowhere")


def _write_and_list(out: Path, worker: int, seen: list[int]) -> None:
    for i in range(8):
        make_runs(out / f"worker{worker}-{i}", 2)
        seen.append(len(Store(out).entries()))
    (out / f".seen{worker}").write_text(json.dumps(seen))


def test_several_writers_at_once(out: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_and_list, args=(out, i, [])) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    for i in range(4):
        seen = json.loads((out / f".seen{i}").read_text())
        assert seen == sorted(seen), "an entry was lost on the way"
    assert len(Store(out).entries()) == COUNT + 4 * 8 * 2


def test_the_benchmark_runs(out: Path) -> None:
    assert measure(out).keys() >= {"list", "filter", "rebuild"}
