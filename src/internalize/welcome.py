"""What a newcomer asks for once: the examples that come with the package, and completion for the shell."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from internalize.cli import COMMANDS, purposes
from internalize.configs.command_line import options_of, positional_of
from internalize.configs.files import require_writable, write_output
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
        write_output(copy, path.read_bytes())  # whole or not at all: what is there is never written again
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


@dataclass(frozen=True)
class Typed:
    """What can be typed after a command."""

    options: Mapping[str, tuple[str, ...] | None]
    """Option → its values to choose from; none for a switch, empty for a value of one's own."""
    first: tuple[str, ...] = ()
    """What its first word can be, where that is known."""
    takes_runs: bool = False


BASH = """\
# Completion of the internalize command; made by `internalize completion {shell}`.
_internalize() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local name="${{COMP_WORDS[1]}}" place=2 options="" known="" runs="${{INTERNALIZE_RUNS:-runs}}"
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
        {twos}) [ "$COMP_CWORD" -gt 2 ] && name="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" place=3 ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{first}" -- "$word"))
        return
    fi
    if [[ "$word" == -* ]]; then
        case "$name" in
{options}
        esac
        COMPREPLY=($(compgen -W "$options" -- "$word"))
        return
    fi
    case "$name $before" in
{values}
    esac
    if [ -n "$known" ]; then
        COMPREPLY=($(compgen -W "$known" -- "$word"))
        return
    fi
    if [ "$COMP_CWORD" -eq "$place" ]; then
        case "$name" in
{seconds}
        esac
    fi
    case "$name" in
        {takers}) [[ "$before" == --* ]] || known="$known latest $(command ls "$runs" 2>/dev/null)" ;;
    esac
    COMPREPLY=($(compgen -W "$known" -- "$word") $(compgen -f -- "$word"))
}}
complete -o filenames -F _internalize internalize
"""


ZSH_START = """\
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""
"""Where a user's ~/.zshrc has not started completion yet, this does."""
FISH_START = """\
# Completion of the internalize command; made by `internalize completion fish`.
function __internalize_after --description 'whether the words typed so far begin with this command'
    set -l words (commandline -opc)
    set -l name $words[2]
    if contains -- "$words[2] $words[3]" {twos}
        set name "$words[2] $words[3]"
    end
    test "$name" = "$argv[1]"
end
function __internalize_second
    test (count (commandline -opc)) -eq 2
end
"""
FISH_RUNS = "(set -q INTERNALIZE_RUNS; and command ls $INTERNALIZE_RUNS; or command ls runs 2>/dev/null)"


def completion_command(arguments: CompletionArguments) -> None:
    print(completion(arguments.shell, typed_after_commands(), purposes()), end="")


def typed_after_commands() -> dict[str, Typed]:
    """Of every command what can be typed after it, all known now: no key waits for Python."""
    from internalize.curricula.curriculum import METHODS
    from internalize.figures.paper import NAMES

    found = {}
    for name, command in COMMANDS.items():
        expected = command.expected()
        if not isinstance(expected, type):  # which one depends on the words
            found[name] = Typed({"--help": None})
            continue
        options = options_of(expected)
        if options.get("--method") == ():
            options["--method"] = tuple(method for method in METHODS if ":" not in method)
        called, choices = positional_of(expected)
        first = NAMES if name == "figure" else choices
        found[name] = Typed(options, tuple(first), called.startswith("RUN"))
    return found


def completion(shell: Shell, commands: Mapping[str, Typed], purposes: Mapping[str, str]) -> str:
    """The script for a shell."""
    if shell == "fish":
        return _fish(commands, purposes)
    first = " ".join([*dict.fromkeys(name.split()[0] for name in commands), "help"])

    def cases(known: Mapping[str, Sequence[str]], variable: str) -> str:
        lines: dict[str, list[str]] = {}
        for name, words in known.items():  # commands that share their options share a line
            lines.setdefault(" ".join(words), []).append(f'"{name}"')
        return "\n".join(
            f'        {"|".join(names)}) {variable}="{words}" ;;' for words, names in lines.items()
        )

    follow = {name: [*typed.first] for name, typed in commands.items() if typed.first}
    for name in commands:
        if " " in name:
            follow.setdefault(name.split()[0], []).append(name.split()[1])
    values = {
        f"{name} {option}": choices
        for name, typed in commands.items()
        for option, choices in typed.options.items()
        if choices
    }
    script = BASH.format(
        shell=shell,
        first=first,
        twos="|".join(f'"{name}"' for name in commands if " " in name) or '""',
        takers="|".join(f'"{name}"' for name, typed in commands.items() if typed.takes_runs) or '""',
        options=cases({name: [*typed.options] for name, typed in commands.items()}, "options"),
        values=cases(values, "known"),
        seconds=cases({"help": first.split(), **follow}, "known"),
    )
    return script if shell == "bash" else ZSH_START + script


def _fish(commands: Mapping[str, Typed], purposes: Mapping[str, str]) -> str:
    twos = " ".join(f"'{name}'" for name in commands if " " in name) or "''"
    lines = [FISH_START.format(twos=twos).rstrip()]
    start = "complete -c internalize"
    for name, typed in commands.items():
        first, _, second = name.partition(" ")
        purpose = purposes[name].replace("'", "\\'")
        if second:
            lines.append(
                f"{start} -n '__internalize_after {first}; and __internalize_second' -a {second} -d '{purpose}'"
            )
        else:
            lines.append(f"{start} -n __fish_use_subcommand -a {first} -d '{purpose}'")
            lines.append(f"{start} -n '__internalize_after help' -f -a {first} -d '{purpose}'")
        after = f"'__internalize_after \"{name}\"'"
        for option, choices in typed.options.items():
            value = "" if choices is None else f" -x -a '{' '.join(choices)}'" if choices else " -r"
            lines.append(f"{start} -n {after} -l {option.removeprefix('--')}{value}")
        if typed.first:
            lines.append(f"{start} -n {after} -a '{' '.join(typed.first)}'")
        if typed.takes_runs:
            lines.append(f"{start} -n {after} -a 'latest {FISH_RUNS}'")
    return "\n".join(lines) + "\n"
