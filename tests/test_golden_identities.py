"""Every run of the past is still found: what configs become, and the hashes they have, never change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.identities import HERE, Entry, entry_of, stored

ENTRIES = stored()


def text(value: Any) -> str:
    """So that 1 and 1.0, equal to Python but not to a hash, are told apart."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["name"] for entry in ENTRIES])
def test_a_config_is_the_run_that_it_always_was(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    if entry["kind"] == "selfplay":
        pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    monkeypatch.chdir(HERE)
    found = entry_of(entry["name"], entry["kind"], entry["fields"])
    assert text(found) == text(entry)
    again = entry_of(entry["name"], entry["kind"], entry["full"])
    assert text({**again, "fields": entry["fields"]}) == text(entry)


def test_the_file_speaks_of_every_kind_and_of_different_runs() -> None:
    """Else the test above would pass on nothing, or on one config many times."""
    assert {entry["kind"] for entry in ENTRIES} == {"chain", "parity", "selfplay", "hints"}
    assert len({entry["name"] for entry in ENTRIES}) == len(ENTRIES) >= 35
    assert len({entry["digest"] for entry in ENTRIES}) >= 35
