"""Words of a command line: flags either way, choices in their order, and help that can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import pytest

from internalize.cli import COMMANDS, main
from internalize.configs.command_line import parse
from internalize.errors import BadInput


@dataclass(frozen=True)
class Part:
    reset: bool = True
    size: Literal["tiny", "small", "middle", "large", "huge"] | None = None


@dataclass(frozen=True)
class Arguments:
    """What is asked."""

    part: Part = field(default_factory=Part)
    json: bool = False
    seeds: int | None = None
    """Train this many, and
    no more."""
    bits: tuple[int, ...] | None = None
    """Which bits."""
    joint: str = "\n"
    """Between two steps."""


def test_help_says_in_words_what_follows_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit):
            parse(Arguments, ["--help"], "internalize x")
    told = {" ".join(re.sub("[│|]", "", line).split()) for line in capsys.readouterr().out.splitlines()}
    assert {
        "--json, --no-json (default: off)",
        "--seeds INT Train this many, and no more.",
        "--bits INT ... Which bits.",
        "--joint STR Between two steps. (default: '\\n')",
        "--part.size {tiny,small,middle,large,huge}",
    } <= told
    given = parse(Arguments, ["--seeds", "3", "--bits", "1", "2"], "internalize x")
    assert (given.seeds, given.bits) == (3, (1, 2))


def test_flags_are_set_either_way_whatever_the_default() -> None:
    turned = Arguments(Part(reset=False), json=True)
    for default in (None, turned):
        found = parse(Arguments, ["--part.reset", "--no-json"], "internalize x", default)
        assert (found.part.reset, found.json) == (True, False)
        found = parse(Arguments, ["--part.no-reset", "--json"], "internalize x", default)
        assert (found.part.reset, found.json) == (False, True)
    assert parse(Arguments, [], "internalize x", turned) == turned


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--part.size x", "x: --part.size: must be one of 'tiny', 'small', 'middle', 'large', 'huge', got 'x'"),
        ("--part.size smal", "'large', 'huge', got 'smal' (did you mean 'small'?)"),
        ("--part.no-rest", "x: unknown: --part.no-rest (did you mean --part.no-reset?)"),
        ("--part.rest", "x: unknown: --part.rest (did you mean --part.reset?)"),
    ],
)  # fmt: skip
def test_a_wrong_word_is_answered_with_the_right_ones(words: str, message: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse(Arguments, words.split(), "internalize x")
    assert str(refusal.value).endswith(message)


def help_of(command: str, columns: int, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_unambiguous_and_fits(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that turns something off stands beside the one that turns it on; no number breaks at its comma."""
    _usage, *lines = help_of(command, 80, capsys).splitlines()
    assert max(map(len, lines)) <= 80
    wide = help_of(command, 5_000, capsys)
    for negative in re.findall(r"--(?:[\w-]+\.)*no-[\w-]+", wide):
        assert f"{negative.replace('no-', '', 1)}, {negative}" in wide
    assert not re.findall(r"None|True\)|False\)", wide)  # values of Python: what happens is said in words
    choices_and_games = r"\{.*?\}|connect_four\(.*?\)"  # may break at their commas
    assert not re.findall(r"\S+,\S+", re.sub(choices_and_games, "", wide))
