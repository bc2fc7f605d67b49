"""What memory cannot hold is refused by the field that is too large, before anything is allocated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize import ModelConfig, train
from internalize.cli import main
from internalize.constructions import transformer as memory
from internalize.errors import BadInput
from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.runtime.kind import ExperimentConfig
from tests.entering import forecast_of
from tests.runtime.test_training import BRIEF

CPU = torch.device("cpu")
HINTS = HintsConfig(d=6, k=2, width=8, steps=10, lr=0.1)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (replace(BRIEF, batch=10**9), "batch"),
        (replace(BRIEF, model=ModelConfig(depth=1, width=16_000_000, heads=8)), "model"),
        (ParityConfig(d=60, k=3, batch=10**9), "batch"),
        (replace(HINTS, batch=10**10), "batch"),
        (replace(HINTS, width=10**7), "width"),
        (SelfPlayConfig(rounds=1, games=4, simulations=2, updates=2, matches=2**63 - 1), "matches"),
        (SelfPlayConfig(rounds=1, games=4, simulations=2, updates=2, batch=10**11), "batch"),
    ],
)
def test_a_run_that_is_too_large_is_refused(
    config: ExperimentConfig, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 64 * 2**30)
    with pytest.raises(BadInput, match=r"would need about .*B of memory, 64 GiB are free") as problem:
        train(config, out=tmp_path / "runs")
    assert problem.value.field == field
    assert not (tmp_path / "runs").exists()


def test_lower_bounds_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B bits of x, twice, and of z, a byte each: 200 · (2 · 6 + 2); a byte less and it is refused."""
    config = ParityConfig(d=6, k=2, batch=200, steps=3, contrast=False)
    monkeypatch.setattr(memory, "available_memory", lambda: 2799)
    with pytest.raises(BadInput, match="batch"):
        train(config, out=tmp_path)
    monkeypatch.setattr(memory, "available_memory", lambda: 2800)
    run = train(config, out=tmp_path)
    monkeypatch.setattr(memory, "available_memory", lambda: 0)
    assert train(config, out=tmp_path).path == run.path, "what is there already needs no memory"


@pytest.mark.usefixtures("named_by_the_user")
def test_a_network_of_ones_own_is_not_taken_for_gpt2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of logits that ignores the width: refused for what it has and reads, not for what GPT-2 would."""
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    own = tmp_path / "own.py"
    own.write_text("from torch import nn\ndef table(config, size, positions): return nn.Embedding(size, size)")
    model = ModelConfig(depth=1, width=2**26, heads=1, network=f"{own}:table")
    config = replace(BRIEF, model=model)
    forecast_of(config).require_memory(CPU)
    with pytest.raises(BadInput, match=r"^batch: a batch of 1,000,000,000,000,000 sequences would need about"):
        forecast_of(replace(config, batch=10**15)).require_memory(CPU)
    with pytest.raises(BadInput, match=r"^model: training .* parameters would need"):
        forecast_of(replace(config, model=replace(model, network=None))).require_memory(CPU)


def test_what_no_machine_can_hold_is_refused_by_plans_for_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A billion gigabytes: one line that names the field, in a plan for GPUs and in a dry run here."""
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"kind": "hints", "base": {"d": 6, "k": 2, "width": 8, "batch": 10**17}}))
    refused = "internalize: batch: a batch of 100,000,000,000,000,000 examples would need about"
    for words, told in (
        (["plan", str(file)], "6.4e+09 GB of memory, more than any machine has"),
        (["sweep", str(file), "--dry-run", "--out", str(tmp_path / "runs")], "5.68e+03 PiB of memory"),
    ):
        assert main(words) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert said.err.startswith(f"{refused} {told}")
