"""Named activations against the model's own modules, and replaced ones against what must then be said."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from internalize.errors import BadInput
from internalize.measure.activations import activations, names_of, run_with_changes
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2, run_with_attention

DEPTH = 3


def random_model(positions: str) -> GPT2:
    model = GPT2(ModelConfig(depth=DEPTH, width=16, heads=4, positions=positions), 9, 12)  # type: ignore[arg-type]
    model.initialise(torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8.0)
    return model


@pytest.fixture
def tokens(generator: torch.Generator) -> Tensor:
    return torch.randint(9, (2, 6, 7), generator=generator)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["absolute", "none", "rotary"])
def test_the_parts_add_up_to_the_stream_and_the_stream_to_the_logits(positions: str, tokens: Tensor) -> None:
    model, (here, _) = random_model(positions), tokens
    found = activations(model, here)
    assert {*names_of(model), "residual.0", "logits"} <= set(found)
    patterns, stream, _ = run_with_attention(model, here)
    for layer in range(1, DEPTH + 1):
        added = found[f"attention.{layer}"] + found[f"mlp.{layer}"]
        torch.testing.assert_close(found[f"residual.{layer - 1}"] + added, found[f"residual.{layer}"])
        torch.testing.assert_close(found[f"residual.{layer}"], stream[layer])
        torch.testing.assert_close(found[f"pattern.{layer}"].mean(0), patterns[layer - 1])
    torch.testing.assert_close(found["logits"], model(here)[0])
    assert not any(block._forward_hooks for block in model.modules())  # none is left behind


@torch.no_grad()
def test_a_stream_taken_whole_makes_the_others_answer_and_one_place_changes_only_what_follows(
    tokens: Tensor,
) -> None:
    model, (here, there) = random_model("absolute"), tokens
    theirs = activations(model, there)
    for name in ("embedding", "residual.0", "residual.2"):
        logits = run_with_changes(model, here, {name: lambda _, name=name: theirs[name]})  # type: ignore[misc]
        torch.testing.assert_close(logits, theirs["logits"])
    own = model(here)[0]
    torch.testing.assert_close(run_with_changes(model, here, {"mlp.1": lambda value: value}), own)

    def change(value: Tensor) -> Tensor:
        value = value.clone()
        value[:, 3] = theirs["attention.2"][:, 3]
        return value

    changed = run_with_changes(model, here, {"attention.2": change})
    torch.testing.assert_close(changed[:, :3], own[:, :3])
    assert not torch.allclose(changed[:, 3:], own[:, 3:])


def test_what_there_is_none_of_is_said(tokens: Tensor) -> None:
    with pytest.raises(
        BadInput, match=r"activation: there is no 'mlp.4' \(did you mean 'mlp.[123]'\?\); there are"
    ):
        run_with_changes(random_model("none"), tokens[0], {"mlp.4": lambda value: value})
