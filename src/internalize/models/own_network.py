"""A network of a user's own, named in the config, as a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.errors import BadInput, require
from internalize.models.config import ModelConfig, initial_spread
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Shaped

FIELD = "model.network"
Build = Callable[[ModelConfig, int, int], nn.Module]
"""(config, vocabulary, positions) → a module: tokens (batch, length) to logits (batch, length, vocabulary)."""
MakeModel = Callable[[int, int], LanguageModel]
"""(vocabulary, context) → a model whose weights are not yet set."""


def find_network(config: ModelConfig, copies: Copies) -> tuple[MakeModel, Source | None]:
    """How models of this config are made, and the user's file behind them where there is one."""
    name = config.network
    config = replace(config, init_std=initial_spread(config))  # users' code reads the number
    if name is None:
        return partial(GPT2, config), None
    require(is_object_name(name), FIELD, f"must be module:attribute or file.py:attribute, got {name!r}")
    build, source = load_object(name, FIELD, copies)
    require(callable(build), FIELD, f"{name} must be a function or a class, got {build!r}")
    return partial(OwnNetwork, config, build, source), source


class OwnNetwork(LanguageModel):
    """A user's module. It keeps no cache: with every new token it reads all tokens again."""

    def __init__(
        self, config: ModelConfig, build: Build, source: Source, vocabulary: int, context: int
    ) -> None:
        super().__init__(config, vocabulary, context)
        self._build = build
        self._source = source
        self._flops: dict[int, int] = {}
        self.module = self._new_module(seed=0)
        self._require_trainable()

    def _new_module(self, seed: int) -> nn.Module:
        """A new module on the CPU.

        Its only random numbers are those of torch's global generator, whose state is put back afterwards.
        """
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            made = self._attempt(lambda: self._build(self.config, self.vocabulary, self.context))
        is_module = isinstance(made, nn.Module)
        require(is_module, FIELD, f"{self._source.name} must give a torch.nn.Module, got {made!r}")
        return made

    def _require_trainable(self) -> None:
        name, parameters = self._source.name, dict(self.module.named_parameters())
        require(bool(parameters), FIELD, f"{name} has no parameters to train")
        for which, parameter in parameters.items():
            good = parameter.dtype == torch.float32
            require(good, FIELD, f"{name}: parameters must be float32, {which} is {parameter.dtype}")
            fixed = "is frozen: what is not trained belongs in a buffer"
            require(parameter.requires_grad, FIELD, f"{name}: {which} {fixed}")
        for which, tensor in self.weights().items():
            require(isinstance(tensor, Tensor), FIELD, f"{name}: {which} of its state is not a tensor")
            # a saved state that is not finite would be taken for a training that has diverged
            finite = bool(torch.isfinite(tensor).all())
            require(finite, FIELD, f"{name}: {which} is not finite; if it is a mask, give it persistent=False")

    def forward(
        self, tokens: Int[Tensor, "batch new"], first: int = 0, cache: Any = None
    ) -> tuple[Float[Tensor, "batch new-{first} vocabulary"], Any]:
        """The cache is what was read so far: (batch, seen) tokens."""
        read = tokens if cache is None else torch.cat([cache, tokens], dim=1)
        logits: Tensor = self.module(read)
        # a copy: whoever generates writes into the logits, and a module may give a view of its own weights
        return logits[:, read.shape[1] - tokens.shape[1] + first :].clone(), read

    def initialise(self, generator: torch.Generator) -> None:
        """Let the user's code do it: the module is built once more, with random numbers seeded from here."""
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        self.load(self._new_module(seed).state_dict(), FIELD)

    @property
    def hypotheses(self) -> str:
        return f"{super().hypotheses}, file {self._source.digest()[:12]}"

    def weights(self) -> dict[str, Tensor]:
        """By the module's own names, buffers included."""
        return dict(self.module.state_dict())

    # What it costs ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def flops(self, length: int) -> int:
        """Operations to read one sequence of so many tokens, at least 1.

        Those that torch's counter knows: matrix products, convolutions and attention, not its fused LSTM.
        """
        if length not in self._flops:
            with FlopCounterMode(display=False) as counter:
                self.module(self._tokens(1, length))
            self._flops[length] = max(1, counter.get_total_flops())
        return self._flops[length]

    def kept_bytes(self, length: int) -> int:
        """What a pass over one sequence keeps for the backward pass, the weights themselves left out."""
        weights = {tensor.untyped_storage().data_ptr() for tensor in self.weights().values()}
        kept: dict[int, Tensor] = {}

        def keep(tensor: Shaped[Tensor, " *shape"]) -> Shaped[Tensor, " *shape"]:
            kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address comes twice
            return tensor

        with saved_tensors_hooks(keep, lambda tensor: tensor):
            self.module(self._tokens(1, length))
        return sum(t.untyped_storage().nbytes() for where, t in kept.items() if where not in weights)

    def _tokens(self, batch: int, length: int) -> Int[Tensor, "{batch} {length}"]:
        device = next(self.parameters()).device
        return torch.zeros(batch, length, dtype=torch.int64, device=device)

    # Whether it is what it should be ---------------------------------------------------------------------

    @torch.no_grad()
    def check(self) -> None:
        """Refuse a network that cannot be trained, stopped and asked like the built-in one.

        Spoils its weights: what begins at zero would hide what it depends on, so all are moved a little.
        """
        self._check_beginning()
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
        tokens = torch.randint(self.vocabulary, (2, self.context), generator=generator)
        logits = self._check_logits(tokens)
        self._check_function(tokens, logits)
        self._check_causal(tokens, logits)

    def _check_beginning(self) -> None:
        first, again = (self._new_module(seed=0).state_dict() for _ in range(2))
        same = all(torch.equal(tensor, again[name]) for name, tensor in first.items())
        drawn = "must draw its first weights from torch's random numbers alone"
        require(same, FIELD, f"{self._source.name} {drawn}")

    def _check_logits(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length vocabulary"]:
        """The logits of all tokens. Those of a single token must have the right shape too."""
        for length in (1, self.context):
            logits = self._attempt(lambda read=tokens[:, :length]: self.module(read))  # type: ignore[misc]
            wanted = (len(tokens), length, self.vocabulary)
            found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            shape = f"logits of shape (batch, length, vocabulary) = {wanted}"
            require(found == wanted, FIELD, f"{self._source.name} must give {shape}, got {found}")
        return logits

    def _check_function(
        self, tokens: Int[Tensor, "batch length"], logits: Float[Tensor, "batch length vocabulary"]
    ) -> None:
        before = {name: tensor.clone() for name, tensor in self.weights().items()}
        same = torch.equal(self.module(tokens), logits)
        same = same and all(torch.equal(tensor, before[name]) for name, tensor in self.weights().items())
        require(
            same,
            FIELD,
            f"{self._source.name} gives other logits when asked again, or changes its buffers: dropout, batch "
            "statistics and memory between calls cannot be repeated after a break",
        )

    def _check_causal(
        self, tokens: Int[Tensor, "batch length"], logits: Float[Tensor, "batch length vocabulary"]
    ) -> None:
        """Neither other later tokens nor fewer of them may change what stands before."""
        size = float(logits.abs().max())
        for cut in sorted({1, self.context // 2, self.context - 1} - {0}):
            changed = tokens.clone()
            changed[:, cut:] = (changed[:, cut:] + 1) % self.vocabulary
            apart = float((self.module(changed)[:, :cut] - logits[:, :cut]).abs().max())
            message = f"is not causal: position {cut} changes when a token after it does"
            require(not apart > 1e-5 * size, FIELD, f"{self._source.name} {message}")
            apart = float((self.module(tokens[:, :cut]) - logits[:, :cut]).abs().max())
            message = f"says something else of the first {cut} tokens when more follow"
            require(not apart > 1e-3 * size, FIELD, f"{self._source.name} {message}")

    def _attempt(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # a user's code may fail in any way
            words = " ".join(str(error).split())
            raise BadInput(FIELD, f"{self._source.name} failed: {type(error).__name__}: {words}") from error
