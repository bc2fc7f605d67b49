"""Probes and patches of a network of the user: as of the built-in one if it is the same, else as planted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from internalize import ChainConfig, EvaluationConfig, ModelConfig
from internalize.analysis.open_run import OpenChain, open_chain
from internalize.analysis.patch import Patched, patch_inputs, patch_stages
from internalize.analysis.probe import Hidden, look_inside
from internalize.cli import main
from internalize.errors import BadInput
from internalize.kinds.entrance import train
from internalize.measure.activations import activations, calls_of, names_of, run_with_changes
from internalize.models.config import ModelConfig as Shape
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import OwnNetwork, find_network
from tests.models.test_own_network import DISGUISED

pytestmark = pytest.mark.usefixtures("named_by_the_user")

DEPTH = 2
BASE = ChainConfig(
    task="C3",
    horizon=4,
    method="left",
    iterations=60,
    batch=16,
    model=ModelConfig(depth=DEPTH, width=16, heads=4),
    evaluation=EvaluationConfig(samples=10, final_samples=20),
    kernel="plain",
)


class Undisguised(OpenChain):
    """The same run with the built-in GPT-2 in the place of the user's network: the same weights."""

    def model(self, stage: int | None = None) -> LanguageModel:
        return undisguise(super().model(stage))

    def untrained(self) -> LanguageModel:
        return undisguise(super().untrained())


def undisguise(own: LanguageModel) -> GPT2:
    model = GPT2(replace(own.config, network=None), own.vocabulary, own.context)
    model.load({name.removeprefix("inner."): tensor for name, tensor in own.weights().items()}, "test")
    return model


@pytest.fixture
def disguised(tmp_path: Path) -> OpenChain:
    (tmp_path / "own.py").write_text(DISGUISED)
    config = replace(BASE, model=replace(BASE.model, network=f"{tmp_path / 'own.py'}:Disguised"))
    return open_chain(train(config, out=tmp_path / "runs").path, "cpu")


def test_a_disguised_gpt2_is_looked_into_like_the_built_in_one(disguised: OpenChain) -> None:
    """`inner.transformer.h.0` gives what the built-in one calls the residual stream after layer 1."""
    plain = Undisguised(disguised.run, disguised.config, disguised.experiment)
    modules = [f"inner.transformer.h.{layer}" for layer in range(DEPTH)]
    for stage in (1, 3):
        found, expected = (
            look_inside(disguised, stage, 90, modules=modules),
            look_inside(plain, stage, 90),
        )
        assert found.layers == tuple(modules)
        assert found.positions == expected.positions
        assert found.start == expected.start
        for mine, other in ((found.trained, expected.trained), (found.untrained, expected.untrained)):
            assert torch.equal(mine.hits, other.hits[1:])
            assert torch.equal(mine.shuffled, other.shuffled[1:])
        assert len(found.trained.hits.unique()) > 10
    assert found.lens is None
    for part, ending in (("residual", ""), ("attention", ".attn"), ("mlp", ".mlp")):
        names = [f"{module}{ending}" for module in modules]
        same(
            patch_inputs(disguised, 2, "residual", (1, 3), 40, 0, names),
            patch_inputs(plain, 2, part, (1, 3), 40, 0),  # type: ignore[arg-type]
            skipped=part == "residual",
        )
        same(
            patch_stages(disguised, 4, 1, "residual", 40, 0, names),
            patch_stages(plain, 4, 1, part, 40, 0),  # type: ignore[arg-type]
            skipped=part == "residual",
        )


def same(found: Patched, expected: Patched, skipped: bool) -> None:
    """skipped: the built-in one has the embedding besides, as its first layer."""
    assert found.part == "output"
    assert found.positions == expected.positions
    for mine, other in zip(found.maps, expected.maps, strict=True):
        assert mine.pairs == other.pairs > 0
        assert torch.equal(mine.moved, other.moved[int(skipped) :])


def test_the_commands(
    disguised: OpenChain, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    words = [str(disguised.run.path), "--samples", "60", "--out", str(tmp_path / "found")]
    assert main(["probe", *words, "--modules", "*.h.?"]) == 0
    told = capsys.readouterr().out
    assert "inner.transformer.h.1" in told
    assert "attention" not in told
    assert (
        main(["patch", *words, "--modules", "*.h.1", "inner.transformer.wte", "--symbols", "2", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(row["layer"] for row in found["rows"])) == [
        "inner.transformer.wte",
        "inner.transformer.h.1",
    ]
    kinds = {f"{name}.{k}" for name in ("probe", "patch") for k in ("png", "svg", "csv", "json")}
    assert {path.name for path in (tmp_path / "found").iterdir()} == kinds | {
        "probe-layers.png",
        "probe-layers.svg",
    }
    assert main(["probe", *words, "--modules", "inner.transformer.h.7"]) == 2
    assert "modules: " in (said := capsys.readouterr().err)
    assert "has no submodule 'inner.transformer.h.7' (did you mean 'inner.transformer.h." in said
    assert main(["patch", *words, "--part", "mlp"]) == 2
    assert "part: is for the built-in GPT-2" in capsys.readouterr().err


def test_the_built_in_network_has_no_modules_to_name(chain: OpenChain) -> None:
    with pytest.raises(BadInput, match="modules: is for networks of your own"):
        look_inside(chain, None, 60, modules=["h.*"])
    with pytest.raises(BadInput, match="modules: is for networks of your own"):
        patch_inputs(chain, None, "residual", (), 20, 0, ["h.*"])


def test_activations_in_a_notebook(disguised: OpenChain) -> None:
    found = disguised.activations("1 0 2 1")
    block = found["inner.transformer.h.0"]
    assert block.shape == (len(found["logits"]), 16)
    plain = Undisguised(disguised.run, disguised.config, disguised.experiment)
    model = plain.model()
    tokens = disguised.experiment.renderer.prompt(disguised.read_symbols("1 0 2 1"), 2)
    torch.testing.assert_close(block[: tokens.shape[1]], activations(model, tokens)["residual.1"][0])
    for ask in (disguised.attention, disguised.hidden_states):
        with pytest.raises(BadInput, match="the built-in GPT-2 alone"):
            ask("1 0 2 1")


# What submodules give -------------------------------------------------------------------------------------

NETWORKS = """
import torch
from torch import nn

class Sums(nn.Module):
    "Running sums of the tokens stand in `sums`; `twice` is called two times; others fit no position."
    def __init__(self, config, vocabulary, positions):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 4)
        self.places = nn.Embedding(positions, 4)
        self.twice = nn.Linear(4, 4)
        self.part = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.0), nn.Identity())
        self.unused = nn.Linear(4, 4)
        self.gru = nn.GRU(4, 4, batch_first=True)
        self.cell = nn.GRUCell(4, 4)
        self.turned = nn.Identity()
        self.out = nn.Linear(4, vocabulary)
    def forward(self, tokens):
        x = self.embedding(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = self.part(self.twice(self.twice(x)))
        state, states = torch.zeros(len(tokens), 4), []
        for position in range(tokens.shape[1]):
            state = self.cell(x[:, position], state)
            states.append(state)
        self.turned(x.transpose(0, 1))
        return self.out(self.gru(x)[0] + torch.stack(states, 1))

class Bare(nn.Module):
    def __init__(self, config, vocabulary, positions):
        super().__init__()
        self.cell = nn.GRUCell(vocabulary, 4)
        self.weight = nn.Parameter(torch.randn(4, vocabulary))
    def forward(self, tokens):
        x, state, states = nn.functional.one_hot(tokens, 7).float(), torch.zeros(len(tokens), 4), []
        for position in range(tokens.shape[1]):
            state = self.cell(x[:, position], state)
            states.append(state)
        return torch.stack(states, 1) @ self.weight
"""


def network(folder: Path, name: str) -> OwnNetwork:
    (folder / "own.py").write_text(NETWORKS)
    make, _ = find_network(Shape(depth=1, width=4, heads=1, network=f"{folder / 'own.py'}:{name}"), {})
    model: Any = make(7, 9)
    model.initialise(torch.Generator().manual_seed(3))
    return model


def test_what_has_one_vector_for_each_position_is_named_and_nothing_else(tmp_path: Path) -> None:
    model = network(tmp_path, "Sums")
    assert names_of(model) == ["embedding", "twice", "twice#2", "part.0", "part", "gru", "out"]
    misfits = {call.name: call.misfit for call in calls_of(model, 5) if call.misfit}
    assert misfits["places"] == "(length, 4)"
    assert misfits["cell"] == "(batch, 4)"
    assert misfits["turned"] == "(length, batch, 4)"
    assert not any(module._forward_hooks for module in model.modules())


@torch.no_grad()
def test_activations_are_read_and_replaced_by_name(tmp_path: Path, generator: torch.Generator) -> None:
    model = network(tmp_path, "Sums")
    module: Any = model.module
    here, there = torch.randint(7, (2, 6, 5), generator=generator)
    found, theirs = activations(model, here), activations(model, there)
    first = module.embedding(here) + module.places(torch.arange(5))
    torch.testing.assert_close(found["twice"], module.twice(first))
    torch.testing.assert_close(found["twice#2"], module.twice(module.twice(first)))
    before = module.part[0](found["twice#2"])
    torch.testing.assert_close(found["part.0"], before)  # though the next module writes into it
    assert before.min() < 0
    torch.testing.assert_close(found["part"], before.relu())
    for name in ("twice", "twice#2", "part.0", "part"):  # all that follows depends on it alone
        logits = run_with_changes(model, here, {name: lambda _, name=name: theirs[name]})  # type: ignore[misc]
        torch.testing.assert_close(logits, theirs["logits"])
    assert not torch.allclose(found["logits"], theirs["logits"])
    for name in ("twice#3", "unused", "cell", "nothing", "twice#x", ""):
        with pytest.raises(BadInput, match=r"activation: there is no '.*there are embedding, twice"):
            run_with_changes(model, here, {name: lambda value: value})
    assert not any(module._forward_hooks for module in model.modules())


def test_a_network_without_such_modules_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(NETWORKS)
    config = replace(BASE, iterations=4, model=replace(BASE.model, network=f"{tmp_path / 'own.py'}:Bare"))
    run = train(config, out=tmp_path / "runs")
    for command in ("probe", "patch"):
        assert main([command, str(run.path)]) == 2
        said = capsys.readouterr().err
        assert "has no submodule that gives one vector for each position, (batch, length, width)" in said
        assert "what they give is cell (batch, 4)" in said
        assert said.count("\n") == 1


def test_a_planted_state_is_found_in_the_submodule_that_holds_it(
    tmp_path: Path,
) -> None:
    """`counter` holds the running sum mod 3, which is the state; `noise` holds nothing of it."""
    (tmp_path / "own.py").write_text(PLANTED)
    config = replace(BASE, iterations=4, model=replace(BASE.model, network=f"{tmp_path / 'own.py'}:Planted"))
    chain = open_chain(train(config, out=tmp_path / "runs").path, "cpu")
    found: Hidden = look_inside(chain, None, 600)
    counter, noise = found.layers.index("counter"), found.layers.index("noise")
    for t in range(2, 5):  # q_1 can be read from the first symbol alone
        accuracy = found.trained.accuracy[:, t - 1, t - 1]
        assert accuracy[counter] > 0.99
        assert accuracy[noise] < 0.6
    assert found.best(3).layer == "counter"


PLANTED = """
import torch
from torch import nn

class Counter(nn.Module):
    def forward(self, tokens):
        symbols = nn.functional.one_hot(tokens.clamp(max=3) % 3, 3)[..., 1:].cumsum(1)
        return nn.functional.one_hot((symbols[..., 0] + 2 * symbols[..., 1]) % 3, 3).float()

class Planted(nn.Module):
    def __init__(self, config, vocabulary, positions):
        super().__init__()
        self.counter = Counter()
        self.noise = nn.Embedding(vocabulary, 3)
        self.out = nn.Linear(6, vocabulary)
    def forward(self, tokens):
        return self.out(torch.cat([self.counter(tokens), 0 * self.noise(tokens) + 1], -1))
"""
