"""What a newcomer asks for once: the examples that come with the package, and completion for the shell."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import tyro

from internalize.cli import COMMANDS, purposes
from internalize.configs.command_line import options_of
from internalize.configs.files import require_writable
from internalize.errors import require


@dataclass(frozen=True)
class ExamplesArguments:
    """Copy the examples into a folder: sweeps, circuits, a network and a training of one's own."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = Path("examples")
    """Where they go; a file that is there already is left as it is."""


def examples_command(arguments: ExamplesArguments) -> None:
    source, folder = examples(), arguments.folder
    require(folder.is_dir() or not folder.exists(), "folder", f"{folder} is a file: name a folder")
    require_writable(folder, "folder")
    for path in sorted(source.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        copy = folder / path.relative_to(source)
        if copy.exists():
            print(f"{copy} (was there already)")
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        shutil.copymode(path, copy)
        print(copy)


def examples() -> Path:
    """The folder of examples: inside of an installed package, or beside `src` in a clone."""
    package = Path(__file__).parent
    for place in (package / "examples", package.parents[1] / "examples"):
        if (place / "sweeps").is_dir():
            return place
    raise FileNotFoundError(2, "the examples did not come with this copy of the package", str(package))


# Completion ------------------------------------------------------------------------------------------------

Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class CompletionArguments:
    """Print what a shell needs to complete commands, options and the names of runs.

    bash: internalize completion bash > ~/.local/share/bash-completion/completions/internalize

    zsh: internalize completion zsh > ~/.internalize.zsh, and in ~/.zshrc: source ~/.internalize.zsh

    fish: internalize completion fish > ~/.config/fish/completions/internalize.fish
    """

    shell: Annotated[Shell, tyro.conf.Positional, tyro.conf.arg(metavar="bash|zsh|fish")]
    """Which shell."""


BASH = """\
# Completion of the internalize command; made by `internalize completion {shell}`.
_internalize() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}"
    local two="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}"
    local runs="${{INTERNALIZE_RUNS:-runs}}" options=""
    case "$two" in
{twos}
    esac
    [ -n "$options" ] || case "$command" in
{ones}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{first}" -- "$word"))
    elif [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        local known="latest"
        [ "$COMP_CWORD" -eq 2 ] && case "$command" in
{seconds}
        esac
        [ -d "$runs" ] && known="$known $(command ls "$runs" 2>/dev/null)"
        COMPREPLY=($(compgen -W "$known" -- "$word") $(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _internalize internalize
"""


def completion_command(arguments: CompletionArguments) -> None:
    options = {}
    for name, command in COMMANDS.items():
        expected = getattr(import_module(command.module), command.arguments)
        options[name] = options_of(expected) if isinstance(expected, type) else ["--help"]
    print(completion(arguments.shell, options, purposes()), end="")


def completion(shell: Shell, options: Mapping[str, list[str]], purposes: Mapping[str, str]) -> str:
    """The script for a shell. options: command → its options, all known now: no key waits for Python."""
    if shell == "fish":
        return _fish(options, purposes)
    first = " ".join([*dict.fromkeys(name.split()[0] for name in options), "help"])

    def cases(names: list[str], told: Callable[[str], str], indent: str) -> str:
        return "\n".join(f'{indent}"{name}") {told(name)} ;;' for name in names)

    follow: dict[str, list[str]] = {"help": first.split()}
    for name in options:
        if " " in name:
            follow.setdefault(name.split()[0], []).append(name.split()[1])
    script = BASH.format(
        shell=shell,
        first=first,
        twos=cases([n for n in options if " " in n], lambda n: f'options="{" ".join(options[n])}"', " " * 8),
        ones=cases(
            [n for n in options if " " not in n], lambda n: f'options="{" ".join(options[n])}"', " " * 8
        ),
        seconds=cases(list(follow), lambda n: f'known="{" ".join(follow[n])} latest"', " " * 12),
    )
    return script if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{script}"


def _fish(options: Mapping[str, list[str]], purposes: Mapping[str, str]) -> str:
    lines = ["# Completion of the internalize command; made by `internalize completion fish`."]
    start = "complete -c internalize"
    for name, flags in options.items():
        first, _, second = name.partition(" ")
        purpose = purposes[name].replace("'", "\\'")
        if not second:
            lines.append(f"{start} -n __fish_use_subcommand -a {first} -d '{purpose}'")
        seen = f"'__fish_seen_subcommand_from {first}'"
        if second:
            lines.append(f"{start} -n {seen} -a {second} -d '{purpose}'")
            seen = f"'__fish_seen_subcommand_from {first}; and __fish_seen_subcommand_from {second}'"
        lines += [f"{start} -n {seen} -l {flag.removeprefix('--')}" for flag in flags]
    return "\n".join(lines) + "\n"
