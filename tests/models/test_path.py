"""The plain step and the flat optimizer against what torch computes without them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import AdamW, Muon, flatten_parameters
from internalize.models.path import PlainStep


def small_model(seed: int = 0) -> GPT2:
    model = GPT2(ModelConfig(depth=2, width=16, heads=4), vocabulary=7, context=12)
    model.initialise(torch.Generator().manual_seed(seed))
    return model


def test_plain_step_gives_mean_answer_loss_and_overwrites_gradient() -> None:
    model = small_model()
    _, gradient = flatten_parameters(model)
    tokens = torch.randint(7, (5, 11), generator=torch.Generator().manual_seed(1))
    step = PlainStep(model, gradient)
    step(tokens, prompt=6)
    once = gradient.clone()
    stats = step(tokens, prompt=6)
    assert torch.equal(once, gradient)

    logits, _ = model(tokens[:, :-1])
    answer = logits[:, 5:]
    loss = cross_entropy(answer.flatten(0, 1), tokens[:, 6:].flatten())
    expected = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close(gradient, torch.cat([g.flatten() for g in expected]))
    torch.testing.assert_close(stats.loss.mean(), loss.detach())
    torch.testing.assert_close(stats.correct, (answer.argmax(-1) == tokens[:, 6:]).float().mean(0))
    assert stats.loss.shape == stats.correct.shape == (5,)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_adamw_gives_torchs_numbers_also_when_loaded(weight_decay: float) -> None:
    generator = torch.Generator().manual_seed(2)
    parameters = torch.randn(1000, generator=generator)
    gradient = torch.zeros(1000)
    theirs = parameters.clone().requires_grad_()
    optimizer = AdamW(parameters, gradient, 3e-3, (0.9, 0.95), weight_decay)
    reference = torch.optim.AdamW([theirs], lr=3e-3, betas=(0.9, 0.95), weight_decay=weight_decay)
    for step in range(20):
        gradient.copy_(torch.randn(1000, generator=generator))
        theirs.grad = gradient.clone()
        optimizer.step()
        reference.step()
        if step == 10:  # a resumed optimizer goes on where the first one stopped
            saved = {name: value.clone() for name, value in optimizer.tensors().items()}, optimizer.scalars()
            optimizer = AdamW(parameters, gradient, 3e-3, (0.9, 0.95), weight_decay)
            optimizer.load(*saved)
    assert optimizer.scalars() == {"step": 20}
    torch.testing.assert_close(parameters, theirs.detach(), rtol=1e-5, atol=1e-6)
    optimizer.reset()
    assert optimizer.scalars() == {"step": 0}
    assert not optimizer.tensors()["exp_avg"].any()


def test_muon_moves_matrices_as_torchs_own_and_all_else_as_adamw_does() -> None:
    model, reference = small_model(), small_model()
    parameters, gradient = flatten_parameters(model)
    matrices = reference.matrices()
    others = [own for own in reference.parameters() if not any(own is matrix for matrix in matrices)]
    assert len(matrices) == 2 * 4  # each layer: keys with queries and values, their output, two of the MLP
    muon = torch.optim.Muon(matrices, lr=3e-3, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01)
    optimizer = Muon(parameters, gradient, 3e-3, (0.9, 0.95), 0.01, model.matrices())
    generator = torch.Generator().manual_seed(3)
    for step in range(6):
        gradient.copy_(torch.randn(gradient.shape, generator=generator))
        for own, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            assert own.grad is not None
            theirs.grad = own.grad.clone()
        if step == 3:  # another one goes on from what this one saved
            tensors = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
            scalars = optimizer.scalars()
            optimizer.reset()
            assert not any(tensor.any() for tensor in optimizer.tensors().values())
            optimizer.load(tensors, scalars)
        optimizer.step()
        muon.step()
        adamw.step()
        for own, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(own, theirs)
