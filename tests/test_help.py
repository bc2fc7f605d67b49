"""First contact: the list of commands, help, completion, the examples, and that all of it is quick."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from internalize.cli import COMMANDS, main, purposes
from internalize.configs.command_line import options_of
from internalize.help import GROUPS, grouped
from internalize.kinds.chain.commands import TrainArguments
from internalize.welcome import Shell, Typed, completion, examples, typed_after_commands

Output = pytest.CaptureFixture[str]


def test_every_command_is_in_one_group() -> None:
    named = [name for names in GROUPS.values() for name in names]
    assert sorted(named) == sorted(COMMANDS)
    assert grouped([*COMMANDS, "new"])["Others"] == ["new"]


def test_help_of_a_command(capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["runs", "show", "--help"])
    asked = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["help", "runs", "show"])
    assert capsys.readouterr().out == asked
    assert "RUN" in asked


def test_the_package_is_a_command(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "internalize", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.startswith("usage: internalize COMMAND")


def test_the_options_of_a_command_are_those_of_its_help(capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    told = capsys.readouterr().out
    options = options_of(TrainArguments)
    assert {"--config", "--task", "--model.width", "--optimizer.no-reset", "--no-quiet"} <= set(options)
    missing = [option for option in options if option not in told]
    assert missing == []


COMPLETED = [
    ("tra", {"train"}),
    ("runs sh", {"show"}),
    ("train --model.wi", {"--model.width"}),
    ("runs compare --mar", {"--markdown"}),
    ("ask C2-T", {"C2-T4-left-s0-0123456789ab"}),
    ("show lat", {"latest"}),
    ("train --preset ''", {"paper", "laptop"}),
    ("train --config m", {"mine.json"}),
    ("tasks ''", {"mine.json", "runs", "script"}),
    ("figure he", {"heads"}),
    ("help tas", {"tasks"}),
]


def lay_out(shell: Shell, folder: Path) -> None:
    """A script of completion, in a folder with a run and a file."""
    (folder / "runs" / "C2-T4-left-s0-0123456789ab").mkdir(parents=True)
    (folder / "mine.json").touch()
    options: dict[str, tuple[str, ...] | None] = {
        "--model.width": (),
        "--config": (),
        "--preset": ("paper", "laptop"),
    }
    commands = {
        "train": Typed(options),
        "runs": Typed({}),
        "runs show": Typed({}, takes_runs=True),
        "runs compare": Typed({"--markdown": None}, takes_runs=True),
        "ask": Typed({}, takes_runs=True),
        "show": Typed({"--examples": ()}, takes_runs=True),
        "tasks": Typed({}),
        "figure": Typed({}, first=("heads", "methods")),
    }
    (folder / "script").write_text(completion(shell, commands, purposes()))


def said_by(words: list[str], folder: Path) -> str:
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed here")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
    return subprocess.run(
        words, capture_output=True, text=True, cwd=folder, check=True, env=environment, timeout=120
    ).stdout


@pytest.mark.parametrize(("words", "expected"), COMPLETED)
def test_bash_completes(words: str, expected: set[str], tmp_path: Path) -> None:
    lay_out("bash", tmp_path)
    typed = f"internalize {words}".split()
    script = f"source ./script; COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _internalize; "
    told = said_by(["bash", "-c", f'{script} printf "%s\\n" "${{COMPREPLY[@]}}"'], tmp_path)
    assert set(told.split()) == expected


@pytest.mark.parametrize(("words", "expected"), [*COMPLETED, ("runs show --exam", set())])
def test_fish_completes(words: str, expected: set[str], tmp_path: Path) -> None:
    lay_out("fish", tmp_path)
    line = f"internalize {words.removesuffix(chr(39) * 2)}"
    told = said_by(["fish", "--no-config", "-c", f'source ./script; complete -C "{line}"'], tmp_path)
    assert {offer.split("\t")[0].rstrip("/") for offer in told.splitlines()} >= expected
    if len(expected) == 1 or not expected:
        assert len(told.splitlines()) == len(expected)


ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT=; source ./script; bindkey '^I' complete-word"
zpty -w shell "tell () { print -r -- '<<'\\$BUFFER'>>'; zle kill-buffer }; zle -N tell; bindkey '^G' tell"
zpty -w shell "echo RE''ADY"
zpty -r shell told '*READY*'
for line in "$@"; do
    zpty -n -w shell $line$'\\t\\a'
    zpty -r shell told '*>>*'
    print -r -- "${${told##*<<}%%>>*}"
done
zpty -d shell
"""
"""Types each line into a shell of its own, then the tabulator, and prints what stands there then."""


def test_zsh_completes(tmp_path: Path) -> None:
    lay_out("zsh", tmp_path)
    (tmp_path / "type.zsh").write_text(ZSH)
    known = {f"internalize {words}": expected for words, expected in COMPLETED if len(expected) == 1}
    told = said_by(["zsh", "-f", "type.zsh", *known], tmp_path).splitlines()
    wanted = [f"{line.rpartition(' ')[0]} {next(iter(word))}" for line, word in known.items()]
    assert [line.strip() for line in told] == wanted


def test_what_can_be_typed_after_a_command() -> None:
    found = typed_after_commands()
    train = found["train"].options
    assert train["--preset"] == ("paper", "laptop")
    assert {"cot", "left", "mixture"} <= set(train["--method"] or ())
    assert train["--fresh"] is None
    assert train["--horizon"] == ()
    assert found["completion"].first == ("bash", "zsh", "fish")
    assert [found[name].takes_runs for name in ("ask", "runs compare", "train")] == [True, True, False]
    fish = completion("fish", found, purposes())
    assert "-l preset -x -a 'paper laptop'" in fish


def test_examples_are_copied_and_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["examples"]) == 0
    names = {path.relative_to(examples()) for path in examples().rglob("*") if path.is_file()}
    copied = {path.relative_to("examples") for path in Path("examples").rglob("*") if path.is_file()}
    assert copied == {name for name in names if "__pycache__" not in name.parts}
    changed = tmp_path / "examples" / "sweeps" / "small.yaml"
    changed.write_text("mine")
    assert main(["examples"]) == 0
    assert changed.read_text() == "mine"
    assert "small.yaml (was there already)" in capsys.readouterr().out
    changed.unlink()
    assert main(["examples"]) == 0
    assert main(["sweep", "examples/sweeps/small.yaml", "--dry-run", "--no-estimate"]) == 0


SLOW = {"torch", "numba", "scipy", "transformers", "matplotlib", "safetensors", "ray"}
"""What only computing and drawing need. Torch alone takes more than a second of processor time to import."""


def loaded_by(code: str, folder: Path) -> tuple[list[str], set[str]]:
    """What a fresh interpreter prints that runs this code, and which slow libraries it has loaded then."""
    code = f"import sys\nfrom internalize.cli import COMMANDS, main\n{code}\nprint(*sys.modules)"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    *said, modules = done.stdout.splitlines()
    return said, SLOW & set(modules.split())


def test_help_and_completion_load_nothing_that_computes(tmp_path: Path) -> None:
    """The options of all commands, help for one, and the script for a shell, which knows all of them."""
    code = """
import contextlib
for command in COMMANDS.values():
    assert command.expected() is not None
with contextlib.suppress(SystemExit):
    main(["train", "--help"])
main(["completion", "bash"])
"""
    said, slow = loaded_by(code, tmp_path)
    assert slow == set()
    assert said[0].startswith("usage: internalize train")
    assert "complete -o filenames -F _internalize internalize" in said


OPENING = (
    *("evaluate", "show", "matrix", "profile", "audit", "probe", "patch", "diagnose", "explore", "resume"),
    *("runs show", "runs compare nosuchrun", "runs verify", "runs trust", "hints draw", "selfplay draw"),
    *("construct --against", "train --preset laptop --init-from"),
)
"""Commands that open a run, which comes last."""
QUICK = [
    (["train", "--horizom", "3"], 2, "--horizon"),
    (["train", "--task", "C2y3"], 2, "unknown task"),
    *(([*command.split(), "nosuchrun"], 2, "nosuchrun is not a run folder") for command in OPENING),
    (["ask", "nosuchrun@1", "1 0"], 2, "nosuchrun is not a run folder"),
    (["check", "nosuchrun@2:3", "--against", "nosuchrun@1"], 2, "fast: nosuchrun is not a run folder"),
    (["train", "--config", "nosuchrun"], 2, "there is no file nosuchrun, and no run of that name"),
    (["sweep", "nosuch.yaml"], 2, "there is no file nosuch.yaml"),
    (["collect", "nosuch.yaml"], 2, "there is no file nosuch.yaml"),
    (["figure", "nosuch"], 2, "unknown figure 'nosuch'"),
    (["nonsense"], 2, "unknown command"),
    (["tasks"], 0, "Tasks"),
    (["tasks", "C3"], 0, "3 states, 3 symbols"),
    (["runs"], 0, "0 runs in runs"),
    (["figures"], 0, "heads"),
]
"""Words, exit code, and a part of what is said."""


def test_lists_and_errors_load_nothing_that_computes(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    code = f"""
import contextlib, io
for words, code, part in {QUICK}:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            ended = main(words)
        except SystemExit as stop:
            ended = stop.code
    assert (ended, part in out.getvalue()) == (code, True), (words, ended, out.getvalue())
    print(*words, *(name for name in {sorted(SLOW)} if name in sys.modules), sep="|")
"""
    said, slow = loaded_by(code, tmp_path)
    assert said == ["|".join(words) for words, _, _ in QUICK]  # else the first line that is longer tells which
    assert slow == set()


ELLIPTIC = re.compile(r"\b(a|one) (row|line|column|process|thread|run|token|point|number|mark|bar) an? \w+")
"""Such as "a row a state": nobody understands that at the first reading."""


def test_sentences_are_whole() -> None:
    root = Path(__file__).parents[1]
    texts = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "src").rglob("*.py")]
    assert len(texts) > 100
    found = [
        f"{path.name}: {m[0]}" for path in texts if (m := ELLIPTIC.search(path.read_text(encoding="utf-8")))
    ]
    assert [text for text in found if not text.endswith(("a row a live", "a mark at the"))] == []
