"""The two sides of the comparison, each as one call that does a training iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.benchmarks.cases import Case
from internalize.kinds.chain.config import OptimizerConfig
from internalize.runtime.streams import CPU, Streams

SAME = OptimizerConfig()
Attention = Literal["eager", "sdpa"]
Iteration = Callable[[int], None]
"""One training iteration at the given stage."""


def ours(case: Case, threads: int) -> Iteration:
    """The whole iteration as a run does it: data, forward, backward, optimizer, running averages."""
    torch.set_num_threads(threads)
    experiment = case.config().build(CPU, {})
    streams = Streams(0)
    state = experiment.init(streams)

    def iterate(stage: int) -> None:
        state.progress = replace(state.progress, stage=stage, in_stage=0)
        experiment.advance(state, streams)

    return iterate


def ready_batch(case: Case, stage: int) -> Tensor:
    """A batch (batch, length) of the stage, drawn and rendered as in a run."""
    experiment = case.config().build(CPU, {})
    symbols, states = experiment.data(0, Streams(1))
    return experiment.renderer.sequence(symbols, states, experiment.curriculum.shown(stage))


def hugging_face(case: Case, attention: Attention) -> Iteration:
    """GPT2LMHeadModel in float32: no dropout, fused AdamW, ready-made batches, logits at the answer only."""
    model = hugging_face_model(case, attention)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=SAME.lr, betas=SAME.betas, weight_decay=SAME.weight_decay, fused=True
    )
    ready = {stage: ready_batch(case, stage) for stage in case.stages}

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
