"""Whether a new run fits into this machine's memory, as far as its config alone can tell.

Lower bounds: what is refused here could not be computed in any way, and what is not may still be too large.
"""

from __future__ import annotations

import torch

from internalize.configs.named import Copies
from internalize.constructions.weights import require_memory
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.parity.config import ParityConfig
from internalize.runtime.kinds import ExperimentConfig

NUMBER = 4
"""Bytes of a number in fp32."""
TOKEN = 8
"""Bytes of a token's number."""
COPIES = 4
"""Of every weight: itself, its gradient and the two moments of AdamW."""


def require_capacity(config: ExperimentConfig, device: torch.device, copies: Copies) -> None:
    """Refuse, by the field that is too large. Self-play has no such field: it works in small parts."""
    if isinstance(config, ParityConfig):  # on the processor, whatever the device
        _require_parity(config)
    elif device.type != "cpu":
        return
    elif isinstance(config, ChainConfig):
        _require_chain(config, copies)
    elif isinstance(config, HintsConfig):
        _require_hints(config)


def _require_chain(config: ChainConfig, copies: Copies) -> None:
    experiment = ChainExperiment(config, torch.device("cpu"), copies)
    model, weights = config.model, experiment.costs.parameters()
    require_memory(COPIES * NUMBER * weights, "model", f"training {weights:,} parameters")
    # of GPT-2 one row of the width a layer, and there are several; of another network only what it reads
    token = NUMBER * model.depth * model.width if model.network is None else TOKEN
    needed = config.batch * experiment.renderer.prompt_length * token
    require_memory(needed, "batch", f"a batch of {config.batch:,} sequences")


def _require_hints(config: HintsConfig) -> None:
    width = config.hidden_width
    require_memory(2 * NUMBER * (config.depth - 1) * width**2, "width", f"hidden layers of {width:,} units")
    kept = config.batch * config.depth * width
    require_memory(NUMBER * kept, "batch", f"a batch of {config.batch:,} examples")


def _require_parity(config: ParityConfig) -> None:
    """The bits of x, a byte each and twice while they are transposed, and of z."""
    bits = config.examples * (2 * config.d + config.k)
    require_memory(bits, "batch", f"a batch of {config.examples:,} examples")
