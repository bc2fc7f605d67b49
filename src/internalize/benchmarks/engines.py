"""The two sides of the comparison, each as one call that does a training iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.benchmarks.cases import Case, make_batches
from internalize.models.adamw import AdamW
from internalize.models.fast import FastStep
from internalize.models.flat import flatten_parameters
from internalize.models.gpt2 import GPT2

LEARNING_RATE, BETAS, WEIGHT_DECAY = 3e-4, (0.9, 0.95), 0.01
Attention = Literal["eager", "sdpa"]
Iteration = Callable[[int], None]
"""One training iteration at the given stage."""


def ours(case: Case, threads: int) -> Iteration:
    """The whole iteration: data, forward, backward, optimizer."""
    model = GPT2(case.model, case.vocabulary, case.context)
    model.initialise(torch.Generator().manual_seed(0))
    parameters, gradient = flatten_parameters(model)
    optimizer = AdamW(parameters, gradient, LEARNING_RATE, BETAS, WEIGHT_DECAY)
    step = FastStep(model, gradient, case.precision, threads)
    generator = torch.Generator().manual_seed(1)

    def iterate(stage: int) -> None:
        step(make_batches(case, stage, generator), case.prompt)
        optimizer.step()

    return iterate


def hugging_face(case: Case, attention: Attention) -> Iteration:
    """GPT2LMHeadModel in float32: no dropout, fused AdamW, ready-made batches, logits at the answer only."""
    model = hugging_face_model(case, attention)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True
    )
    generator = torch.Generator().manual_seed(1)
    ready: dict[int, Tensor] = {stage: make_batches(case, stage, generator) for stage in case.stages}

    def iterate(stage: int) -> None:
        tokens = ready[stage]
        target = tokens[:, case.prompt :]
        logits = model(tokens[:, :-1], use_cache=False, logits_to_keep=target.shape[1]).logits
        loss = cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return iterate


def hugging_face_model(case: Case, attention: Attention) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=case.vocabulary,
        n_positions=case.context,
        n_embd=case.model.width,
        n_layer=case.model.depth,
        n_head=case.model.heads,
        n_inner=case.model.mlp_width,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=case.vocabulary - 1,
        attn_implementation=attention,
    )
    return GPT2LMHeadModel(config).train()
