"""The README's table of claims says what the verdicts in results/ say."""

from __future__ import annotations

from pathlib import Path

import pytest

from internalize.cli import main

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_shows_the_verdicts_that_were_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(ROOT / "results"), "--markdown"]) == 0
    table = capsys.readouterr().out.strip()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table in readme, "renew the README's table with: internalize report --markdown"
