"""The fast step and decoder against the plain path."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.models.config import ModelConfig
from internalize.models.fast import FastDecoder, FastStep, Precision
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import AdamW, flatten_parameters
from internalize.models.path import AnswerStats, PlainDecoder, PlainStep, choose_kernel

ODD_SHAPES = [  # config, vocabulary, batch, prompt, answer
    (ModelConfig(1, 64, 32, 256), 5, 32, 9, 9),
    (ModelConfig(2, 64, 1, 96), 5, 7, 6, 3),  # one head of size 64
    (ModelConfig(2, 20, 20, 33), 5, 7, 6, 3),  # heads of size 1
    (ModelConfig(3, 24, 6, 20, "none"), 7, 5, 6, 2),
    (ModelConfig(3, 36, 18, 20, "rotary"), 7, 5, 6, 5),
    (ModelConfig(2, 16, 4), 5, 1, 4, 3),  # one sequence
    (ModelConfig(2, 16, 4), 5, 6, 2, 2),  # T = 1
    (ModelConfig(1, 16, 4), 5, 6, 1, 1),  # nothing but one token and its successor
    (ModelConfig(2, 8, 4, 8), 3, 2, 900, 20),  # longer than a tile
    (ModelConfig(2, 320, 80, 512), 5, 4, 5, 3),  # weights that are large for the product's choice
]


def noisy_model(config: ModelConfig, vocabulary: int, context: int, noise: float = 0.1) -> GPT2:
    """Initialised, then shaken, so that no bias is zero and no gain is one."""
    model = GPT2(config, vocabulary, context)
    generator = torch.Generator().manual_seed(0)
    model.initialise(generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
    return model


def random_tokens(vocabulary: int, batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(seed))


def counter_batch(order: int, T: int, stage: int, seed: int) -> Tensor:
    """The left curriculum of C_n."""
    symbols = random_tokens(order, 16, T, seed)
    states = symbols.cumsum(1) % order + order
    start, end = torch.full((16, 1), order), torch.full((16, 1), 2 * order)
    return torch.cat([symbols, start, states[:, stage - 1 :], end], 1)


def assert_same(fast: AnswerStats, plain: AnswerStats, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(fast.loss, plain.loss, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(fast.correct, plain.correct)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("config", "vocabulary", "batch", "prompt", "answer"), ODD_SHAPES)
def test_gradient(
    config: ModelConfig, vocabulary: int, batch: int, prompt: int, answer: int, threads: int
) -> None:
    model = noisy_model(config, vocabulary, prompt + answer - 1)
    _, gradient = flatten_parameters(model)
    tokens = random_tokens(vocabulary, batch, prompt + answer)
    plain = PlainStep(model, gradient)(tokens, prompt)
    wanted = gradient.clone()
    gradient.fill_(float("nan"))
    fast = FastStep(model, gradient, threads=threads)(tokens, prompt)
    assert_same(fast, plain)
    assert (gradient - wanted).norm() < 1e-5 * wanted.norm()
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=3e-5 * wanted.abs().max().item())


def test_gradient_where_sequences_share_prefixes_but_not_targets() -> None:
    model = noisy_model(ModelConfig(2, 16, 4), 4, 8)
    _, gradient = flatten_parameters(model)
    tokens = random_tokens(2, 60, 8)  # few different prefixes
    tokens[30:, :-1] = tokens[:30, :-1]
    tokens[30:, -1] = 3
    plain = PlainStep(model, gradient)(tokens, 2)
    wanted = gradient.clone()
    assert_same(FastStep(model, gradient, threads=1)(tokens, 2), plain)
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-6)


def test_gradient_against_finite_differences() -> None:
    model = noisy_model(ModelConfig(2, 16, 8, 24), 5, 9)
    parameters, gradient = flatten_parameters(model)
    step = FastStep(model, gradient, threads=1)
    tokens = random_tokens(5, 12, 10)
    step(tokens, 5)
    analytic = gradient.clone()
    generator = torch.Generator().manual_seed(4)
    for _ in range(5):
        direction = torch.randn(parameters.shape, generator=generator)
        direction /= direction.norm()
        size = 1e-2
        parameters += size * direction
        above = step(tokens, 5).loss.double().mean()
        parameters -= 2 * size * direction
        below = step(tokens, 5).loss.double().mean()
        parameters += size * direction
        torch.testing.assert_close(
            (above - below) / (2 * size), (analytic @ direction).double(), rtol=2e-3, atol=2e-4
        )


@pytest.mark.parametrize("emphasis", [0.5, 4.0])
def test_gradient_where_the_first_position_counts_for_more(emphasis: float) -> None:
    """Against torch's own loss, one position at a time."""
    model = noisy_model(ModelConfig(1, 16, 4), 4, 8)
    _, gradient = flatten_parameters(model)
    tokens = random_tokens(2, 60, 8)  # few different prefixes
    logits, _ = model(tokens[:, :-1], first=2)
    losses = [cross_entropy(logits[:, i], tokens[:, 3 + i]) for i in range(5)]
    mean = (emphasis * losses[0] + sum(losses[1:])) / (emphasis + 4)
    wanted = torch.cat([own.flatten() for own in torch.autograd.grad(mean, list(model.parameters()))])
    for step in (PlainStep(model, gradient), FastStep(model, gradient, threads=1)):
        stats = step(tokens, 3, emphasis=emphasis)
        torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(stats.loss, torch.stack(losses).detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("depth", [1, 3])
def test_fifty_steps_give_the_plain_losses_and_weights(depth: int) -> None:
    """Every stage of a left curriculum in turn."""
    T, order = 5, 3
    config = ModelConfig(depth, 32, 16, 64)
    losses, weights = [], []
    for kind in (PlainStep, FastStep):
        model = noisy_model(config, 2 * order + 1, 2 * T + 1, noise=0.02)
        parameters, gradient = flatten_parameters(model)
        step = kind(model, gradient)
        optimizer = AdamW(parameters, gradient, 3e-4, (0.9, 0.95), 0.01)
        for iteration in range(50):
            stats = step(counter_batch(order, T, 1 + iteration % T, iteration), T + 1)
            losses.append(stats.loss)
            # The keys' bias has no gradient but rounding, which AdamW would make as large as any other.
            for name, parameter in model.named_parameters():
                if name.endswith("c_attn.bias"):
                    assert parameter.grad is not None
                    parameter.grad[config.width : 2 * config.width] = 0
            optimizer.step()
        weights.append(parameters)
    for plain, fast in zip(losses[:50], losses[50:], strict=True):
        torch.testing.assert_close(fast, plain, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_same_bytes_when_repeated_and_rebuilt(threads: int, precision: Precision) -> None:
    def train(iterations: range, start: Tensor | None) -> Tensor:
        model = noisy_model(ModelConfig(2, 32, 16, 64), 5, 21)
        parameters, gradient = flatten_parameters(model)
        if start is not None:
            parameters.copy_(start)
        step = FastStep(model, gradient, precision, threads)
        for i in iterations:
            step(counter_batch(2, 10, 1 + i, i), 11)
            parameters -= 0.1 * gradient
        return parameters

    once = train(range(6), None)
    assert torch.equal(once, train(range(6), None))
    assert torch.equal(once, train(range(3, 6), train(range(3), None)))


def test_bfloat16_is_near() -> None:
    model = noisy_model(ModelConfig(3, 64, 32, 128), 5, 21, noise=0.02)
    _, gradient = flatten_parameters(model)
    tokens = counter_batch(2, 10, 3, 0)
    plain = PlainStep(model, gradient)(tokens, 11)
    wanted = gradient.clone()
    assert_same(FastStep(model, gradient, "bf16", threads=1)(tokens, 11), plain, tolerance=2e-2)
    assert (gradient - wanted).norm() < 2e-2 * wanted.norm()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("positions", ["absolute", "none", "rotary"])
def test_decoder(positions: str, threads: int) -> None:
    model = noisy_model(ModelConfig(2, 24, 6, 40, positions), 7, 14)  # type: ignore[arg-type]
    tokens = random_tokens(7, 5, 14)
    decoder = FastDecoder(model, batch=6, threads=threads)
    with torch.no_grad():
        wanted, _ = model(tokens)
    for _ in range(2):  # a decoder can start anew
        torch.testing.assert_close(decoder.prefill(tokens[:, :8]), wanted[:, 7], rtol=1e-4, atol=1e-5)
        for i in range(8, 14):
            torch.testing.assert_close(decoder.append(tokens[:, i]), wanted[:, i], rtol=1e-4, atol=1e-5)
    other = random_tokens(7, 5, 4)
    with torch.no_grad():
        elsewhere, _ = model(torch.cat([tokens[:, :8], other], dim=1))
    plain = PlainDecoder(model)
    with torch.no_grad():
        plain.prefill(tokens[:, :8])
        plain.append(tokens[:, 8])
        for both in (decoder, plain):  # what had been appended to the prompt is forgotten
            for count in (4, 1, 3):
                said = both.go_on(other[:, :count])
                torch.testing.assert_close(said, elsewhere[:, 7 + count], rtol=1e-4, atol=1e-5)
    for i in range(8, 14):
        decoder.append(tokens[:, i]) if i > 8 else decoder.go_on(tokens[:, 8:9])
    with pytest.raises(ValueError, match="14 tokens"):
        decoder.append(tokens[:, 0])


def test_decoder_reads_the_weights_of_the_moment() -> None:
    model = noisy_model(ModelConfig(1, 16, 8), 5, 6)
    decoder = FastDecoder(model, batch=3)
    tokens = random_tokens(5, 3, 6)
    before = decoder.prefill(tokens)
    with torch.no_grad():
        model.get_parameter("transformer.h.0.mlp.c_fc.weight").mul_(2)
    assert not torch.allclose(before, decoder.prefill(tokens))


def test_choice_of_kernel() -> None:
    assert choose_kernel(torch.device("cuda")) == "plain"
    assert choose_kernel(torch.device("cpu")) == "fast"


def test_models_are_imported_without_numba() -> None:
    code = (
        "import sys, internalize.models.path, internalize.models.parameters; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
