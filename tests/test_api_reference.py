"""The reference is what the docstrings say, and each public thing says something."""

from __future__ import annotations

from pathlib import Path

from tests.api_reference import api_reference


def test_the_reference_is_what_the_docstrings_say() -> None:
    """To renew it: python -m tests.api_reference > docs/api.md"""
    written = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == api_reference()


def test_each_public_thing_says_what_it_is() -> None:
    sections = api_reference().split("\n### ")[1:]
    assert len(sections) > 40
    silent = [part.split("\n")[0] for part in sections if len(part.split("```")[-1].split()) < 5]
    assert silent == []
