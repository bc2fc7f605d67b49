"""The two-headed network: its loss against a naive one, and what it counts as its cost."""

from __future__ import annotations

import math

import torch

from internalize.models.mlp import PolicyValue, masked_loss


def test_the_loss_is_the_cross_entropy_over_legal_moves(generator: torch.Generator) -> None:
    logits, value = torch.randn(4, 5, generator=generator), torch.randn(4, generator=generator)
    legal = torch.rand(4, 5, generator=generator) < 0.6
    legal[:, 0] = True
    policy = torch.rand(4, 5, generator=generator) * legal
    policy /= policy.sum(1, keepdim=True)
    outcome = torch.tensor([0.0, 0.5, 1.0, 0.25])
    losses = masked_loss(logits.requires_grad_(), value, legal, policy, outcome)
    by_hand = [0.0, 0.0]
    for row in range(4):
        total = sum(math.exp(logits[row, a].item()) for a in range(5) if legal[row, a])
        for a in range(5):
            if legal[row, a]:
                by_hand[0] -= policy[row, a].item() * (logits[row, a].item() - math.log(total)) / 4
        p, z = 1 / (1 + math.exp(-value[row].item())), outcome[row].item()
        by_hand[1] -= (z * math.log(p) + (1 - z) * math.log(1 - p)) / 4
    assert torch.allclose(torch.stack(losses), torch.tensor(by_hand), atol=1e-6)
    losses[0].backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())
    assert not bool(logits.grad[~legal].any())


def test_a_new_network_has_no_opinion_and_knows_its_cost(generator: torch.Generator) -> None:
    network = PolicyValue(7, 3, width=8, depth=2).initialise(generator)
    logits, value = network(torch.randn(6, 7, generator=generator))
    assert not bool(logits.any())
    assert not bool(value.any())
    assert network.flops == 2 * (7 * 8 + 8 * 8 + 8 * 3 + 8)
