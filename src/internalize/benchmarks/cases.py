"""What is timed: four configurations of the paper, on counters, over stages of the left curriculum.

Each of the two sides, this engine and Hugging Face's, is one call that does a training iteration.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.kinds.chain import ChainConfig
from internalize.kinds.chain.config import OptimizerConfig
from internalize.measure.cost import training_flops
from internalize.models.config import ModelConfig, Precision
from internalize.runtime.kind import Streams, cpu

STAGES_OF_25 = (1, 7, 13, 19, 25)


@dataclass(frozen=True)
class BenchCase:
    """One model shape on one counter with the left curriculum."""

    name: str
    model: ModelConfig
    order: int = 2
    """n of the counter C_n."""
    length: int = 25
    """T, the number of input symbols."""
    batch: int = 128
    precision: Precision = "fp32"
    stages: tuple[int, ...] = STAGES_OF_25

    def config(self) -> ChainConfig:
        """The experiment whose iterations are timed; it never ends a stage and logs next to nothing."""
        return ChainConfig(
            task=f"C{self.order}",
            horizon=self.length,
            method="left",
            iterations=10**9,
            batch=self.batch,
            model=self.model,
            kernel="fast",
            precision=self.precision,
            log_every=10**6,
        )

    @property
    def vocabulary(self) -> int:
        """n symbols, n states, EOS."""
        return 2 * self.order + 1

    @property
    def context(self) -> int:
        """Tokens that the model reads at stage 1: the prompt of T+1 and T states."""
        return 2 * self.length + 1

    @property
    def prompt(self) -> int:
        return self.length + 1


CASES = (
    BenchCase("depth 1, width 64, C_2", ModelConfig(1, 64, 32, 256)),
    BenchCase("depth 4, width 64, C_2", ModelConfig(4, 64, 32, 256)),
    BenchCase("depth 4, width 512, C_7", ModelConfig(4, 512, 128, 2048), order=7),
    BenchCase("depth 4, width 512, C_7, bf16", ModelConfig(4, 512, 128, 2048), order=7, precision="bf16"),
)


def useful_flops(case: BenchCase, stage: int) -> int:
    """Operations of one iteration that the loss sees, as if every sequence were computed on its own."""
    answer = case.length - stage + 2
    return training_flops(case.model, case.vocabulary, case.batch, case.prompt, answer)


SAME = OptimizerConfig()
Attention = Literal["eager", "sdpa"]
Iteration = Callable[[int], None]
"""One training iteration at the given stage."""


def ours(case: BenchCase, threads: int) -> Iteration:
    """The whole iteration as a run does it: data, forward, backward, optimizer, running averages."""
    torch.set_num_threads(threads)
    experiment = case.config().build(cpu(), {})
    streams = Streams(0)
    state = experiment.init(streams)

    def iterate(stage: int) -> None:
        state.progress = replace(state.progress, stage=stage, in_stage=0)
        experiment.advance(state, streams)

    return iterate


def ready_batch(case: BenchCase, stage: int) -> Tensor:
    """A batch (batch, length) of the stage, drawn and rendered as in a run."""
    experiment = case.config().build(cpu(), {})
    symbols, states = experiment.data(0, Streams(1))
    return experiment.renderer.sequence(symbols, states, experiment.curriculum.shown(stage))


def hugging_face(case: BenchCase, attention: Attention) -> Iteration:
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


def hugging_face_model(case: BenchCase, attention: Attention) -> Any:
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


PEAK_SIZE = 2048
SHORTEST = 0.05
"""Seconds of a sample; faster functions are called several times for it."""


def seconds_each(functions: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of a call for each function, called in turn; the first round warms up."""
    calls = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, round(SHORTEST / (time.perf_counter() - start)))
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            samples[name].append((time.perf_counter() - start) / calls[name])
    return {name: statistics.median(values) for name, values in samples.items()}


def matrix_product(dtype: torch.dtype) -> Callable[[], None]:
    """A large product, which shows what the machine can do with torch's threads."""
    a, b = (torch.randn(PEAK_SIZE, PEAK_SIZE).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def run() -> None:
        torch.mm(a, b, out=out)

    return run


MATRIX_PRODUCT_FLOPS = 2.0 * PEAK_SIZE**3


Engine = Literal["ours", "hf"]
KILOBYTES_A_MEGABYTE = 1024


def peak_memory(case_name: str, engine: Engine, threads: int) -> float:
    """Megabytes, imports and compiled code included."""
    command = [sys.executable, "-m", __name__, case_name, engine, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main(case_name: str, engine: str, threads: str) -> None:
    import torch

    torch.set_num_threads(int(threads))
    case = next(case for case in CASES if case.name == case_name)
    iterate = ours(case, int(threads)) if engine == "ours" else hugging_face(case, "sdpa")
    for _ in range(2):
        iterate(1)
    print(high_water_mark())


def high_water_mark() -> float:
    """Megabytes; from /proc where there is one, for what `getrusage` says of a child includes its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) / KILOBYTES_A_MEGABYTE
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KILOBYTES_A_MEGABYTE


if __name__ == "__main__":
    main(*sys.argv[1:])
