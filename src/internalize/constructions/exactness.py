"""Is a construction exact? Its answers against arithmetic, on all inputs, on the nasty ones and on random ones.

Constructions are narrow, so splitting one product over cores costs more than it brings, and on a busy machine
waiting for the other core costs a hundred times more. Batches are independent instead: one thread for each
batch, several batches at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, TypeVar

import torch
from torch import Tensor

from internalize.constructions.construction import Construction
from internalize.measure.predictor import Prediction
from internalize.models.parameters import digest_of
from internalize.tasks.inputs import all_inputs

if TYPE_CHECKING:
    from jaxtyping import Int, Shaped

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def one_thread() -> Iterator[int]:
    """Torch computes on one thread inside; yields how many it had before, and gives them back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def side_by_side(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """function(item) for each item, in order, on as many threads as torch may use; takes items as needed."""
    with one_thread() as workers, ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


MOST_PLACES = 500
"""A single symbol is tried at all places of sequences up to this length."""


def adversarial_inputs(symbols: int, horizon: int) -> Int[Tensor, "count {horizon}"]:
    """(count, T): all alike, alternating, and a single symbol other than 0 at every place (of many: some).

    Residues are extreme or carry on at every step, and one symbol alone must arrive from wherever it stands.
    """
    top = symbols - 1
    constant = [torch.full((1, horizon), value) for value in (0, 1 % symbols, symbols // 2, top)]
    odd = torch.arange(horizon) % 2
    alternating = [torch.stack([odd * top, (1 - odd) * top, odd * top + (1 - odd) * (1 % symbols)])]
    places = spread(torch.arange(horizon), MOST_PLACES)
    single = torch.zeros(len(places), horizon, dtype=torch.int64)
    single[torch.arange(len(places)), places] = 1
    return torch.cat([*constant, *alternating, single * (1 % symbols), single * top]).unique(dim=0)


def spread(rows: Shaped[Tensor, " count *rest"], most: int) -> Shaped[Tensor, " kept *rest"]:
    """At most so many of the rows, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most).round().long()]


def random_inputs(symbols: int, horizon: int, count: int, seed: int) -> Int[Tensor, "{count} {horizon}"]:
    """(count, T) uniform symbols; the same seed gives the same inputs."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(symbols, (count, horizon), generator=generator)


CheckKind = Literal["auto", "exhaustive", "random"]
MOST_INPUTS = 10_000_000
"""`exhaustive` goes through at most so many inputs."""
QUICK_INPUTS = 100_000
"""`auto` is exhaustive up to here."""
CHUNK_NUMBERS = 2_000_000
"""Numbers in the widest activation of one batch: large enough to keep the cores busy."""

Progress = Callable[[int, int], None]
"""Called with the number of inputs done and the number of all inputs."""


@dataclass(frozen=True)
class Check:
    """What was compared, and how it went."""

    exhaustive: bool
    inputs_checked: int
    adversarial: int
    """How many of them were chosen to be nasty."""
    wrong: int
    first_wrong: tuple[int, ...] | None
    """The symbols of the first input that was answered wrongly."""

    @property
    def exact(self) -> bool:
        return self.wrong == 0

    @property
    def description(self) -> str:
        if self.exhaustive:
            return f"all {self.inputs_checked:,} inputs"
        random = self.inputs_checked - self.adversarial
        return f"{random:,} random and {self.adversarial:,} adversarial inputs"


def check(
    construction: Construction,
    kind: CheckKind = "auto",
    samples: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Check:
    """Compare the network's answers with the oracle's.

    `exhaustive` means all inputs if there are at most `MOST_INPUTS`, and `samples` random ones besides the
    adversarial ones otherwise; the result says which it was.
    """
    total = construction.symbols**construction.horizon
    exhaustive = kind != "random" and total <= (MOST_INPUTS if kind == "exhaustive" else QUICK_INPUTS)
    nasty = 0
    chunk = chunk_size(construction)
    if exhaustive:
        batches = all_inputs(construction.symbols, construction.horizon, chunk)
    else:
        adversarial = adversarial_inputs(construction.symbols, construction.horizon)
        random = random_inputs(construction.symbols, construction.horizon, samples, seed)
        nasty, total = len(adversarial), len(adversarial) + samples
        batches = _pieces([adversarial, random], chunk)
    done, wrong, first = 0, 0, None
    for count, failed in side_by_side(partial(_wrong_inputs, construction), batches):
        if first is None and len(failed):
            first = tuple(failed[0].tolist())
        wrong += len(failed)
        done += count
        if progress is not None:
            progress(done, total)
    return Check(exhaustive, done, nasty, wrong, first)


def _wrong_inputs(
    construction: Construction, symbols: Int[Tensor, "batch T"]
) -> tuple[int, Int[Tensor, "wrong T"]]:
    """How many inputs there were, and those (wrong, T) that were answered wrongly."""
    return len(symbols), symbols[construction.answer(symbols) != construction.final_states(symbols)]


def chunk_size(construction: Construction) -> int:
    """Number of inputs in each batch, so that no activation grows beyond `CHUNK_NUMBERS`."""
    shape = construction.shape
    return max(1, CHUNK_NUMBERS // (shape.positions * max(shape.mlp_width, shape.embedding)))


def share_right(construction: Construction, symbols: Int[Tensor, "count T"]) -> float:
    """The share of (count, T) inputs that are answered rightly."""
    pieces = _pieces([symbols], chunk_size(construction))
    failed = side_by_side(partial(_wrong_inputs, construction), pieces)
    return 1 - sum(len(wrong) for _, wrong in failed) / len(symbols)


def _pieces(groups: list[Int[Tensor, "_ T"]], chunk: int) -> Iterator[Int[Tensor, "batch T"]]:
    for group in groups:
        yield from group.split(chunk)


@dataclass(frozen=True)
class ConstructionPredictor:
    """Answers (batch, T) symbols with the final state."""

    construction: Construction

    @property
    def model_class(self) -> str:
        shape = self.construction.shape
        widths = "×".join(str(width) for width in shape.mlp_widths)
        return (
            f"softmax attention, ReLU MLP, no residual: depth {shape.depth}, embedding {shape.embedding}, "
            f"{shape.heads} heads of {shape.head_size}, MLP {widths}, {shape.positions} positions"
        )

    @cached_property
    def weights_digest(self) -> str:
        return digest_of(sorted(self.construction.network.state_dict().items()))

    def answer(self, inputs: Int[Tensor, "batch T"]) -> Prediction:
        """One forward pass for each input."""
        pieces = [self.construction.answer(piece) for piece in inputs.split(chunk_size(self.construction))]
        count = len(inputs)
        return Prediction(
            output=torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64),
            forward_passes=torch.ones(count, dtype=torch.int64),
            flops=torch.full((count,), self.construction.shape.flops, dtype=torch.float64),
        )
