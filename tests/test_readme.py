"""What the README says is done as a stranger would: the wheel installed elsewhere, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The README's fenced blocks of a language, without their indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", README, flags=re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


@dataclass(frozen=True)
class Stranger:
    """A folder with nothing in it, and the package from its wheel."""

    folder: Path
    site: Path

    def python(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """What Python prints on its standard output; its exit code must be one of `codes`."""
        environment = {**os.environ, "PYTHONPATH": str(self.site), "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode in codes, f"{arguments}: {done.stderr}"
        return done.stdout

    def internalize(self, words: list[str]) -> str:
        # 1 means: a clause failed, as it must for a model that hardly trained; runs are missing
        codes = (0, 1) if words[0] in ("check", "collect") else (0,)
        return self.python("-m", "internalize.cli", *words, codes=codes)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    source, site, stranger_folder = (tmp_path_factory.mktemp(name) for name in ("source", "site", "empty"))
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "examples", source / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    subprocess.run([sys.executable, *build], capture_output=True, check=True, cwd=source)
    wheel = next((source / "dist").glob("*.whl"))
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, *install], capture_output=True, check=True, cwd=source)
    stranger = Stranger(stranger_folder, site)
    where = stranger.python("-c", "import internalize; print(internalize.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    return stranger


SHORT = "--iterations 40 --evaluation.final-samples 200"


def small(command: str) -> list[str]:
    """The command's words, with less training and measuring."""
    command = re.sub(r"--iterations \d+", "--iterations 40 --evaluation.final-samples 200", command)
    command = re.sub(r"(?<=^internalize train --preset laptop) .*", rf"\g<0> {SHORT} --json", command)
    command = re.sub(r"--samples \d+|(?<=matrix RUN)$", " --samples 60", command)
    command = re.sub(r"(?<=^internalize hints) --preset laptop", " --d 8 --k 3 --width 16 --steps 60", command)
    command = re.sub(r"--d 20 --k 9", "--d 8 --k 3", command)
    command = re.sub(r"--rounds \d+", "--rounds 1 --games 8 --simulations 4 --updates 4", command)
    return shlex.split(re.sub(r"--seeds \d+", "--seeds 2", command))[1:]


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("internalize ")]
TRAINED = next(command for command in COMMANDS if command.startswith("internalize train "))
"""What the commands after it ask: RUN."""


@pytest.fixture(scope="module")
def run(stranger: Stranger) -> str:
    result = json.loads(stranger.internalize(small(TRAINED)))
    keys = {"run", "id_accuracy", "ood_accuracy", "response_length", "internalized", "iterations", "seconds"}
    assert keys <= set(result)
    assert result["iterations"] == 40
    return str(result["run"])


def test_there_are_commands_in_the_readme() -> None:
    assert len(COMMANDS) >= 5
    assert len(set(COMMANDS)) == len(COMMANDS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != TRAINED])
def test_the_commands_of_the_readme(command: str, stranger: Stranger, run: str) -> None:
    words = [re.sub(r"^RUN(?=$|@)", run, word) for word in small(command)]
    output = stranger.internalize(words)
    if "--json" not in words:
        assert output.strip(), command
        return
    result = json.loads(output)
    if words[0] == "evaluate":
        low, high = result["interval"]
        assert low <= result["accuracy"] <= high
        assert 1 <= result["response_length"] <= 17 + 2  # T = 17 in the README


def without_times(text: str) -> list[str]:
    return re.sub(r" +\d+ s$", " N s", text, flags=re.MULTILINE).splitlines()


def test_the_readme_shows_what_is_printed(stranger: Stranger) -> None:
    """Every command of its console blocks, for real, in a folder of its own beside the committed runs."""
    (stranger.folder / "console").mkdir()
    (stranger.folder / "console" / "results").mkdir()
    shutil.copytree(ROOT / "results" / "runs", stranger.folder / "console" / "results" / "runs")
    there = Stranger(stranger.folder / "console", stranger.site)
    pattern = re.compile(r"^\$ internalize (.*)\n((?:[^$\n].*\n)*)", flags=re.MULTILINE)
    commands = [found for block in blocks("console") for found in pattern.findall(block)]
    assert len(commands) == 6
    for command, shown in commands:
        printed = there.internalize(shlex.split(command))
        assert without_times(printed) == without_times(shown), command


def test_the_python_of_the_readme(stranger: Stranger) -> None:
    train, huggingface, *_ = blocks("python")
    accuracy, internalized = stranger.python("-c", train).split()
    assert float(accuracy) > 0.99
    assert internalized == "True"
    run = next((stranger.folder / "runs").glob("C2-T4-left-*"))
    code = huggingface.replace("RUN", run.as_posix())
    code += "\nprint(tokenizer('x:0 x:1 x:1 x:0 q:0')['input_ids'], type(model).__name__)"
    assert stranger.python("-c", code).strip() == "[0, 1, 1, 0, 2] GPT2LMHeadModel"


def test_a_curriculum_and_a_task_of_ones_own(stranger: Stranger) -> None:
    task, curriculum = blocks("python")[2:4]
    (stranger.folder / "lamp.py").write_text(task)
    (stranger.folder / "mymodule.py").write_text(curriculum)
    (stranger.folder / "lamp.json").write_text('{"transitions": [[0, 1], [1, 2], [2, 0]]}')
    made, read = (
        json.loads(stranger.internalize(["tasks", name, "--json"])) for name in ("lamp.py:lamp", "lamp.json")
    )
    assert made == {**read, "states": ["off", "dim", "bright"], "symbols": ["wait", "press"]}
    names = "--task lamp.py:lamp --method mymodule.py:OddFirst"
    assert all(word in README for word in names.split())
    command = f"train {names} --horizon 5 --iterations 30 --json"
    shape = "--model.depth 1 --model.width 16 --model.heads 4 --evaluation.final-samples 100"
    result = json.loads(stranger.internalize([*command.split(), *shape.split()]).splitlines()[-1])
    assert result["stages"] == 3
    copied = {path.name for path in Path(stranger.folder / result["run"] / "sources").glob("*/*")}
    assert copied == {"mymodule.py", "lamp.py"}


def test_the_demo(stranger: Stranger) -> None:
    output = stranger.internalize(["demo", "--iterations", "40"])
    explorer = Path(output.splitlines()[-1])
    assert "window.internalize" in explorer.read_text(encoding="utf-8")
    page = explorer.with_name("index.html")
    text = page.read_text(encoding="utf-8")
    assert page.is_relative_to(stranger.folder)
    assert all(word in text for word in ("CoT", "E2E", "internalized", "<svg"))
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', text) == [explorer.name], "nothing but the page beside it"
    assert "After 40 iterations it is right on" in text, "in so few it has not learned the task, and says so"
    assert "did not go through: after 40 iterations it is at stage" in text


def test_the_map_names_every_room() -> None:
    package = ROOT / "src" / "internalize"
    rooms = {p.name + "/" for p in package.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    missing = sorted(room for room in rooms if f"`{room}`" not in README)
    assert not missing, f"not in the README's map: {missing}"
