"""A user's own network: the built-in one in disguise does the same, and what cannot be trained is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize import ChainConfig, EvaluationConfig, ModelConfig, OptimizerConfig
from internalize.errors import BadInput
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.state import ChainState
from internalize.models.own_network import OwnNetwork
from internalize.runtime.kind import Streams
from tests.entering import forecast_of

pytestmark = pytest.mark.usefixtures("named_by_the_user")

BASE = ChainConfig(
    task="C3",
    horizon=4,
    iterations=16,
    batch=8,
    model=ModelConfig(depth=2, width=16, heads=4),
    evaluation=EvaluationConfig(samples=10, final_samples=20),
    kernel="plain",
)

LOSSES = ("loss", "worst_loss")

DISGUISED = """
import dataclasses, torch
from internalize.models.gpt2 import GPT2

class Disguised(torch.nn.Module):
    def __init__(self, config, vocabulary, positions):
        super().__init__()
        self.inner = GPT2(dataclasses.replace(config, network=None), vocabulary, positions)
        self.inner.initialise(torch.default_generator)

    def forward(self, tokens):
        return self.inner(tokens)[0]
"""


def with_network(config: ChainConfig, path: Path, text: str, name: str) -> ChainConfig:
    path.write_text(text)
    return replace(config, model=replace(config.model, network=f"{path}:{name}"))


def copy_weights(expected: ChainState, found: ChainState) -> None:
    found.model.load({f"inner.{name}": tensor for name, tensor in expected.weights().items()}, "test")


@pytest.mark.parametrize("method", ["left", "mixture"])
def test_gpt2_as_a_users_network_does_what_the_built_in_one_does(tmp_path: Path, method: str) -> None:
    """From the same weights: losses of every row, rates of a measurement, answers free and forced."""
    config = replace(BASE, method=method, log_every=2, optimizer=OptimizerConfig(lr=1e-2))
    own_config = with_network(config, tmp_path / "own.py", DISGUISED, "Disguised")
    own_config.check({})
    built_in, own = (ChainExperiment(c, torch.device("cpu"), {}) for c in (config, own_config))
    streams = Streams(0)
    expected, found = built_in.init(streams), own.init(streams)
    copy_weights(expected, found)
    while not built_in.done(expected):
        (_, row), (_, own_row) = built_in.advance(expected, streams), own.advance(found, streams)
        assert (row is None) == (own_row is None)
        if row is not None and own_row is not None:
            assert [own_row[name] for name in LOSSES] == pytest.approx([row[name] for name in LOSSES], rel=1e-4)
    measured = [e.evaluate(s, streams) for e, s in ((own, found), (built_in, expected))]
    for row in measured:
        assert row.pop("operations")  # counted by torch for the one, by the formula of GPT-2 for the other
    assert measured[0] == measured[1]
    expected.model.initialise(streams("large"))
    with torch.no_grad():
        for parameter in expected.model.parameters():
            parameter.mul_(15.0)  # so large that answers differ from input to input
    copy_weights(expected, found)
    symbols = torch.randint(3, (50, 4), generator=streams("test"))
    for budget in (None, 2, 5):
        answers = [e.predictor(s, budget).generate(symbols) for e, s in ((built_in, expected), (own, found))]
        assert torch.equal(*answers)
        assert len(answers[0].unique(dim=0)) > 1


NETWORKS = """
import random
import torch
from torch import nn

class Embedded(nn.Module):
    "Each token's logits from the token alone, unless a subclass mixes them."
    def __init__(self, config, vocabulary, positions):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 6)
        self.out = nn.Linear(6, vocabulary)
    def mixed(self, x):
        return x
    def forward(self, tokens):
        return self.out(self.mixed(self.embedding(tokens)))

class Peeking(Embedded):
    def mixed(self, x):
        return x + x.roll(-1, dims=1)

class PeekingFromZero(Peeking):
    def __init__(self, *shape):
        super().__init__(*shape)
        nn.init.zeros_(self.out.weight)

class Counting(Embedded):
    def mixed(self, x):
        return x / x.shape[1]

class Dropping(Embedded):
    def mixed(self, x):
        return nn.functional.dropout(x, 0.5)

class Remembering(Embedded):
    def __init__(self, *shape):
        super().__init__(*shape)
        self.register_buffer("calls", torch.zeros(()))
    def mixed(self, x):
        self.calls += 1
        return x

class Scaled(Embedded):
    def __init__(self, *shape):
        super().__init__(*shape)
        self.register_buffer("scale", torch.rand(6))
    def mixed(self, x):
        return x * self.scale

class Masked(Embedded):
    def __init__(self, config, vocabulary, positions):
        super().__init__(config, vocabulary, positions)
        self.register_buffer("mask", torch.full((positions, positions), -torch.inf).triu(1))

class LastOnly(Embedded):
    def forward(self, tokens):
        return super().forward(tokens)[:, -1]

class Tuple(Embedded):
    def forward(self, tokens):
        return super().forward(tokens), None

class Failing(Embedded):
    def forward(self, tokens):
        raise RuntimeError("no\\nidea")

class Frozen(Embedded):
    def __init__(self, *shape):
        super().__init__(*shape)
        self.out.bias.requires_grad_(False)

class Double(Embedded):
    def __init__(self, *shape):
        super().__init__(*shape)
        self.out.double()

class Whimsical(Embedded):
    def __init__(self, *shape):
        super().__init__(*shape)
        nn.init.constant_(self.out.bias, random.random())

class Empty(nn.Module):
    def __init__(self, *shape):
        super().__init__()

def nothing(config, vocabulary, positions):
    return None

def unwilling(config):
    return None

number = 3
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Peeking", "is not causal: position 1 changes when a token after it does"),
        ("PeekingFromZero", "is not causal"),
        ("Counting", "says something else of the first 1 tokens when more follow"),
        ("Dropping", "gives other logits when asked again"),
        ("Remembering", "or changes its buffers"),
        ("Masked", "mask is not finite; if it is a mask, give it persistent=False"),
        ("LastOnly", r"\(batch, length, vocabulary\) = \(2, 1, 7\), got \(2, 7\)"),
        ("Tuple", "got tuple"),
        ("Failing", "Failing failed: RuntimeError: no idea"),
        ("Frozen", r"out.bias is frozen: what is not trained belongs in a buffer"),
        ("Double", "parameters must be float32, out.weight is torch.float64"),
        ("Whimsical", "must draw its first weights from torch's random numbers alone"),
        ("Empty", "has no parameters to train"),
        ("nothing", "must give a torch.nn.Module, got None"),
        ("unwilling", "unwilling failed: TypeError"),
        ("number", "must be a function or a class, got 3"),
        ("absent", "has no attribute 'absent'"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path: Path, name: str, words: str) -> None:
    config = with_network(BASE, tmp_path / "own.py", NETWORKS, name)
    with pytest.raises(BadInput, match=words) as problem:
        config.check({})
    assert problem.value.field == "model.network"
    assert "\n" not in problem.value.message


def test_what_only_gpt2_can_do_is_refused() -> None:
    model = replace(BASE.model, network="mine:net")
    with pytest.raises(BadInput, match=r"^kernel: cannot be fast with model.network"):
        replace(BASE, model=model, kernel="fast").check({})
    with pytest.raises(BadInput, match=r"^precision: must be fp32 with model.network"):
        replace(BASE, model=model, precision="bf16").check({})
    with pytest.raises(BadInput, match=r"^model.network: must be module:attribute or file.py:attribute"):
        replace(BASE, model=replace(model, network="mine")).check({})


def test_the_first_weights_come_from_the_run_s_own_numbers(tmp_path: Path) -> None:
    """And buffers with them; a saved state has all of it again."""
    experiment = with_network(BASE, tmp_path / "own.py", NETWORKS, "Scaled").build(torch.device("cpu"), {})
    torch.manual_seed(1)
    state = experiment.init(Streams(0))
    first = state.weights()
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), drawn)  # nobody else's numbers were used up
    again, other = (experiment.init(Streams(seed)).weights() for seed in (0, 1))
    restored = experiment.restore(state.tensors(), state.scalars()).weights()
    assert list(first) == ["scale", "embedding.weight", "out.weight", "out.bias"]
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        assert torch.equal(tensor, restored[name])
    assert not any(torch.equal(tensor, other[name]) for name, tensor in first.items())


def test_costs_by_hand(tmp_path: Path) -> None:
    """A product of (L, 6) and (6, 7) for L tokens read, and every token written reads all before it again."""
    config = with_network(replace(BASE, method="cot"), tmp_path / "own.py", NETWORKS, "Embedded")
    experiment = config.build(torch.device("cpu"), {})
    product, prompt, written = 2 * 6 * 7, 5, 3
    predictor = experiment.predictor(experiment.init(Streams(0)), None)
    assert predictor.flops(written) == product * (5 + 6 + 7)
    model = experiment.new_model()
    assert isinstance(model, OwnNetwork)
    assert model.kept_bytes(prompt) == 8 * prompt + 4 * 6 * prompt  # the tokens, and what enters the product
    steps = 16 * 8 * 3 * product * 9  # iterations, batch, forward and backward, 9 tokens read
    answers = product * sum(range(5, 10))
    assert forecast_of(config).training_flops == steps
    assert forecast_of(config).measuring_flops == 2 * answers * (10 + 20)
    parameters = 7 * 6 + 6 * 7 + 7
    assert forecast_of(config).memory_bytes == 4 * 4 * parameters + 8 * (8 * 9 + 4 * 6 * 9)
