"""Whoever opens other people's runs and sweeps executes nothing of theirs: planted files would tell."""

from __future__ import annotations

import json
import os
import py_compile
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from internalize import (
    ChainConfig,
    EvaluationConfig,
    Execution,
    ModelConfig,
    Run,
    ScheduleConfig,
    parse_task,
    train,
)
from internalize.cli import main
from internalize.configs import named as trust
from internalize.configs.named import file_of
from internalize.errors import BadInput

ALARM = "import os, pathlib\npathlib.Path(os.environ['ALARM']).touch()\n"
TASK = f"""{ALARM}from internalize import semiautomaton
task = semiautomaton('theirs', [[0, 1], [1, 0]], None, None)
"""
METHOD = f"""{ALARM}from internalize import Curriculum
class Method(Curriculum):
    stages = 3
    def shown(self, stage):
        return tuple(range(stage, self.horizon + 1))
"""
NETWORK = f"""{ALARM}from torch import nn
class Network(nn.Module):
    def __init__(self, config, vocabulary, positions):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(vocabulary, 4), nn.Linear(4, vocabulary))
    def forward(self, tokens):
        return self.layers(tokens)
"""
PAYLOADS = {"task": TASK, "method": METHOD, "network": NETWORK}
ATTRIBUTES = {"task": "task", "method": "Method", "network": "Network"}
TINY = ChainConfig(
    task="C2",
    horizon=3,
    method="left",
    iterations=6,
    batch=4,
    model=ModelConfig(depth=1, width=8, heads=2),
    schedule=ScheduleConfig(kind="fixed"),
    evaluation=EvaluationConfig(samples=8, final_samples=8),
    kernel="plain",
)
OPENING = [
    "evaluate RUN --samples 8",
    "show RUN --examples 1",
    "ask RUN 1,0,1",
    "patch RUN --samples 4",
    "explore RUN",
    "matrix RUN",
    "profile RUN",
    "audit RUN",
    "check RUN --against RUN",
    "probe RUN",
    "diagnose RUN",
    "resume RUN",
    "construct --against RUN",
]
READING = [
    "runs --out OUT",
    "runs --out OUT --rebuild",
    "runs show RUN",
    "runs show RUN --json",
    "runs compare RUN RUN",
    "runs export --out OUT --csv table.csv",
    "runs export --out OUT --public",
    "runs page --out OUT --page page.html",
    "runs verify --out OUT",
    "runs verify --out OUT --rebuild",
    "runs prune --out OUT --status done",
    "doctor --out OUT",
    "report --results OUT",
    "figures --out OUT --results OUT",
]
Place = Callable[[Path, str], tuple[str, str]]
"""Puts a payload somewhere for a run folder; returns what the config calls it, and sources.json, if at all."""


@pytest.fixture
def alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Touched by every planted file that is executed. Nothing is trusted in the beginning."""
    monkeypatch.setenv("ALARM", str(tmp_path / "alarm"))
    monkeypatch.setenv(trust.PLACE, str(tmp_path / "settings"))
    monkeypatch.setattr(trust, "_known_here", set())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "alarm"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(TINY, Execution(out=tmp_path_factory.mktemp("tiny")))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def kept_copy(run: Path, field: str) -> tuple[str, str]:
    write(run / "sources" / field / "mine.py", PAYLOADS[field])
    return f"mine_{field}.py:{ATTRIBUTES[field]}", f"sources/{field}/mine.py"


def above(run: Path, field: str) -> tuple[str, str]:
    write(run.parent.parent / f"{field}.py", PAYLOADS[field])
    return f"mine_{field}.py:{ATTRIBUTES[field]}", f"../../{field}.py"


def absolute(run: Path, field: str) -> tuple[str, str]:
    path = write(run.parent.parent / f"{field}.py", PAYLOADS[field])
    return f"mine_{field}.py:{ATTRIBUTES[field]}", str(path.resolve())


def linked(run: Path, field: str) -> tuple[str, str]:
    path = write(run.parent.parent / f"{field}.py", PAYLOADS[field])
    (run / "sources").mkdir(exist_ok=True)
    (run / "sources" / f"{field}.py").symlink_to(path.resolve())
    return f"mine_{field}.py:{ATTRIBUTES[field]}", f"sources/{field}.py"


def no_copy(run: Path, field: str) -> tuple[str, str]:
    path = write(run / f"{field}_notes.py", PAYLOADS[field])
    return f"{path}:{ATTRIBUTES[field]}", ""


def module(run: Path, field: str) -> tuple[str, str]:
    """Found beside the user; the package's own file must not be executed in looking for it, either."""
    write(Path.cwd() / "theirs" / "__init__.py", ALARM)
    write(Path.cwd() / "theirs" / f"{field}.py", PAYLOADS[field])
    return f"theirs.{field}:{ATTRIBUTES[field]}", ""


PLACES: list[Place] = [kept_copy, above, absolute, linked, no_copy, module]
TRICKS = {above, absolute, linked}
"""Refused whoever trusts what."""


def received(finished: Run, out: Path, place: Place, fields: list[str]) -> Path:
    """A run folder of somebody else's, whole and consistent, with payloads behind these fields."""
    folder = out / "received"
    shutil.copytree(finished.path, folder)
    stored = json.loads((folder / "config.json").read_text())
    copies = {}
    for field in fields:
        name, copy = place(folder, field)
        if field == "network":
            stored["config"]["model"]["network"] = name
        else:
            stored["config"][field] = name
        if copy:
            copies[name] = copy
            stored["sources"][name] = trust.digest_of((folder / copy).read_bytes())
    if copies:
        (folder / "sources.json").write_text(json.dumps(copies))
    (folder / "config.json").write_text(json.dumps(stored))
    (folder / "manifest.json").unlink(missing_ok=True)  # whoever plants a file can do that, too
    provenance = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps({**provenance, "identity": stored}))
    return folder


def said(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err.strip()
    assert error.startswith("internalize: ")
    assert "\n" not in error
    return error


@pytest.mark.parametrize("command", OPENING)
@pytest.mark.parametrize("place", PLACES)
def test_opening_a_strangers_run_executes_nothing(
    alarm: Path, finished: Run, capsys: pytest.CaptureFixture[str], place: Place, command: str
) -> None:
    run = received(finished, alarm.parent / "out", place, list(PAYLOADS))
    assert main(command.replace("RUN", str(run)).split()) == 2
    told = said(capsys)
    assert not alarm.exists()
    if place in TRICKS:
        assert "names a file that is not in the run's folder" in told
        assert main([*command.replace("RUN", str(run)).split(), "--trust"]) == 2
        assert not alarm.exists()
    else:
        assert f"--trust for this once, or for good: internalize runs trust {run}" in told
        assert told.count(".py") == 3


@pytest.mark.parametrize("field", PAYLOADS)
@pytest.mark.parametrize("place", PLACES)
def test_each_name_by_itself_is_refused(
    alarm: Path, finished: Run, capsys: pytest.CaptureFixture[str], place: Place, field: str
) -> None:
    run = received(finished, alarm.parent / "out", place, [field])
    assert main(["evaluate", str(run)]) == 2
    said(capsys)
    assert not alarm.exists()


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("place", PLACES)
def test_listing_and_comparing_execute_nothing(alarm: Path, finished: Run, place: Place, command: str) -> None:
    run = received(finished, alarm.parent / "out", place, list(PAYLOADS))
    code = main(command.replace("RUN", str(run)).replace("OUT", str(run.parent)).split())
    expected = {"report": (2,), "public": (0, 1)}  # there is no figure; copies of files are remarked upon
    assert code in next((codes for word, codes in expected.items() if word in command), (0,))
    assert not alarm.exists()


def test_trust_once_and_for_good(alarm: Path, finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run = received(finished, alarm.parent / "out", kept_copy, ["task", "method"])
    command = ["evaluate", str(run), "--samples", "8"]
    assert main([*command, "--trust"]) == 0
    assert alarm.exists()
    trust._known_here.clear()  # another process
    alarm.unlink()
    assert main(command) == 2
    assert not alarm.exists()
    capsys.readouterr()
    assert main(["runs", "trust", str(run)]) == 0
    listed = capsys.readouterr().out
    assert all(trust.digest_of(PAYLOADS[field].encode()) in listed for field in ("task", "method"))
    assert not alarm.exists()
    trust._known_here.clear()
    assert main(command) == 0
    assert alarm.exists()


def test_a_compiled_file_beside_a_trusted_one_is_not_believed(alarm: Path, finished: Run) -> None:
    run = received(finished, alarm.parent / "out", kept_copy, ["task"])
    source = run / "sources" / "task" / "mine.py"
    harmless = TASK.replace(ALARM, "")
    stored = (run / "config.json").read_text()
    changed = stored.replace(trust.digest_of(TASK.encode()), trust.digest_of(harmless.encode()))
    (run / "config.json").write_text(changed)
    (run / "manifest.json").unlink(missing_ok=True)
    (run / "provenance.json").write_text("{}")
    compiled = py_compile.compile(
        str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, doraise=True
    )
    assert compiled is not None
    source.write_text(harmless)
    trust.remember(trust.digest_of(harmless.encode()), source)
    assert main(["evaluate", str(run), "--samples", "8"]) == 0
    assert not alarm.exists()


def test_a_run_cannot_call_its_task_by_a_files_name(alarm: Path, finished: Run) -> None:
    """Its task is data, and the data choose a name: construct goes by the table, and looks for no name."""
    write(alarm.parent / "payload.py", TASK)
    task = write(alarm.parent / "t.json", '{"name": "payload.py:task", "transitions": [[0, 1], [1, 0]]}')
    run = train(replace(TINY, task=str(task)), Execution(out=alarm.parent / "out"))
    assert main(["construct", "--against", str(run.path), "--general"]) == 0
    assert main(["construct", "--against", str(run.path)]) == 0  # it is the counter C_2
    assert not alarm.exists()


def test_nobody_is_asked_about_their_own_work(alarm: Path) -> None:
    write(alarm.parent / "mine.py", TASK)
    words = [
        "--horizon",
        "3",
        "--iterations",
        "6",
        "--batch",
        "4",
        "--model.depth",
        "1",
        "--model.width",
        "8",
        "--model.heads",
        "2",
    ]
    words += ["--evaluation.samples", "8", "--evaluation.final-samples", "8", "--kernel", "plain", "--quiet"]
    assert main(["train", "--task", "mine.py:task", "--method", "left", *words]) == 0
    (run,) = (alarm.parent / "runs").glob("mine-*")
    trust._known_here.clear()
    (alarm.parent / "mine.py").unlink()
    assert main(["evaluate", str(run), "--samples", "8"]) == 0
    (kept,) = run.glob("sources/*/mine.py")
    kept.write_text(TASK + "\n# changed")
    alarm.unlink()
    assert main(["evaluate", str(run), "--samples", "8"]) == 2
    assert not alarm.exists()


def test_a_folder_that_waits_for_a_training_brings_no_code_into_it(alarm: Path) -> None:
    """Somebody made the very folder that a training of ours will have, with another file as its copy."""
    write(alarm.parent / "mine.py", TASK.replace(ALARM, ""))
    config = replace(TINY, task="mine.py:task")
    run = train(config, Execution(out=alarm.parent / "out"))
    (run.path / "status.json").unlink()
    (kept,) = run.path.glob("sources/*/mine.py")
    kept.write_text(TASK)
    with pytest.raises(BadInput, match=r"mine\.py"):  # refused, whoever may trust it
        train(config, Execution(out=alarm.parent / "out"))
    assert not alarm.exists()


SWEEP = f"""{ALARM}from internalize.sweeps import sweep_of
S = sweep_of("s", "chain", {{"task": "C2", "horizon": 3, "iterations": 6, "batch": 4, "kernel": "plain",
    "model": {{"depth": 1, "width": 8, "heads": 2}}, "evaluation": {{"samples": 8, "final_samples": 8}}}})
"""
YAML = """
kind: chain
base: {horizon: 3, iterations: 6, batch: 4, kernel: plain, method: theirs.py:Method, task: their_task.py:task}
zip: {model.depth: [1], model.width: [8], model.heads: [2]}
"""


@pytest.mark.parametrize("sweep", ["sweep.py:S", "sweep.yaml"])
def test_planning_executes_only_what_was_run_or_allowed(
    alarm: Path, capsys: pytest.CaptureFixture[str], sweep: str
) -> None:
    for name, text in {
        "sweep.py": SWEEP,
        "sweep.yaml": YAML,
        "theirs.py": METHOD,
        "their_task.py": TASK,
    }.items():
        write(alarm.parent / name, text)
    commands = [["plan", sweep], ["collect", sweep], ["sweep", sweep, "--dry-run", "--no-estimate"]]
    for command in commands:
        assert main(command) == 2
        assert "internalize runs trust" in said(capsys)
        assert not alarm.exists()
    for command in commands:
        assert main([*command, "--trust"]) == 0
        assert alarm.exists()
        alarm.unlink()
        trust._known_here.clear()
    capsys.readouterr()
    assert main(["plan", sweep]) == 2  # that was for once
    assert main(["sweep", sweep, "--no-estimate", "--quiet", "--workers", "1"]) == 0
    trust._known_here.clear()
    for command in commands:
        assert main(command) == 0


def test_nobody_is_asked_about_the_figures_of_this_package() -> None:
    figure = "internalize.figures.paper.attention_parity:FIGURE@smoke"
    assert main(["sweep", figure, "--dry-run", "--no-estimate"]) == 0


def test_where_nothing_can_be_written_trust_lasts_as_long_as_the_process(
    alarm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(trust.PLACE, os.devnull)
    file = write(alarm.parent / "mine.py", TASK)
    run = train(replace(TINY, task="mine.py:task"), Execution(out=alarm.parent / "out"))
    assert main(["evaluate", str(run.path), "--samples", "8"]) == 0
    trust._known_here.clear()
    capsys.readouterr()
    assert main(["evaluate", str(run.path), "--samples", "8"]) == 2
    assert main(["runs", "trust", str(file)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_list_of_trusted_files_survives_lines_that_are_none(alarm: Path) -> None:
    trust.remember("a" * 64, Path("a.py"))
    with trust.store().open("a") as file:
        file.write('null\n{"sha256"\n[1]\n')
    trust.remember("b" * 64, Path("b.py"))
    trust._known_here.clear()
    assert [trust.is_trusted(letter * 64) for letter in "abc"] == [True, True, False]


def test_where_the_list_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(trust.PLACE)
    assert trust.store() == tmp_path / "xdg" / "internalize" / "trusted.jsonl"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert trust.store() == tmp_path / ".config" / "internalize" / "trusted.jsonl"


def test_users_files_are_executed_in_one_place() -> None:
    """`load_object`, which asks first."""
    package = Path(trust.__file__).parents[1]
    texts = {path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")}
    executing = {name for name, text in texts.items() if re.search(r"\.exec_module\(|\bexec\(|runpy", text)}
    assert executing == {"configs/named.py", "runtime/fleet/pool.py"}  # a worker loads this very package


def test_looking_for_a_module_imports_no_package(alarm: Path) -> None:
    write(alarm.parent / "theirs" / "__init__.py", ALARM)
    inner = write(alarm.parent / "theirs" / "inner" / "deep.py", ALARM)
    assert file_of("theirs.inner.deep") == inner
    assert not alarm.exists()
    with pytest.raises(ModuleNotFoundError):
        file_of("theirs.inner.absent")
    with pytest.raises(BadInput, match="cannot import"):
        parse_task("theirs.absent:task")
