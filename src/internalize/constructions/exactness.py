"""Is a construction exact? Its answers against arithmetic, on all inputs, on the nasty ones and on random ones.

Constructions are narrow, so splitting one product over cores costs more than it brings, and on a busy machine
waiting for the other core costs a hundred times more. Batches are independent instead: one thread for each
batch, several batches at once.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor

from internalize.constructions.construction import Construction, Precision
from internalize.measure.predictor import Prediction
from internalize.models.parameters import digest_of
from internalize.tasks.inputs import all_inputs

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Shaped

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


Build = Callable[[Precision, float | None], Construction]
"""The construction in a precision and with a β (the theorem's where it is None)."""
NoiseKind = Literal["relative", "absolute"]
"""relative: every weight times 1 + ε·ξ, so zeros stay zero; absolute: every weight plus ε·ξ; ξ ~ N(0, 1)."""

PRECISIONS: tuple[Precision, ...] = ("float64", "float32", "float16", "bfloat16")
"""From the most digits to the fewest."""
INPUTS = 64
"""Random inputs, and at most as many adversarial ones, behind every point of a search."""
DRAWS = 3
"""A noise level counts as harmless if so many independent draws all stay exact."""
STRIDE = 4.0
"""Factor between the settings of the first walk."""
REFINEMENTS = 8
"""Halvings of the last factor, on a logarithmic scale: the edge is known to half a percent."""
SMALLEST_NOISE, LARGEST_NOISE = 2.0**-26, 2.0**2


@dataclass(frozen=True)
class Margins:
    """What the searches found; curves are (setting, share of right answers), of the worst draw for noise."""

    theorem_beta: float
    smallest_beta: float | None
    """None where not even the theorem's β is exact in this precision."""
    precisions: dict[Precision, float]
    """Share of right answers in each precision."""
    largest_noise: dict[NoiseKind, float | None]
    beta_curve: tuple[tuple[float, float], ...]
    """Over β as a share of the theorem's."""
    noise_curves: dict[NoiseKind, tuple[tuple[float, float], ...]]
    inputs: int

    @property
    def lowest_precision(self) -> Precision | None:
        exact = [precision for precision in PRECISIONS if self.precisions[precision] == 1.0]
        return exact[-1] if exact else None

    def to_json(self) -> dict[str, Any]:
        return {
            "theorem_beta": self.theorem_beta,
            "smallest_beta": self.smallest_beta,
            "precisions": self.precisions,
            "lowest_precision": self.lowest_precision,
            "largest_noise": self.largest_noise,
            "inputs": self.inputs,
            "draws": DRAWS,
        }


def find_margins(build: Build, precision: Precision = "float64", seed: int = 0) -> Margins:
    """Search all three margins; β and noise in the given precision. Exact means: on the inputs tried here."""
    plain = build(precision, None)
    nasty = adversarial_inputs(plain.symbols, plain.horizon)
    symbols = torch.cat([spread(nasty, INPUTS), random_inputs(plain.symbols, plain.horizon, INPUTS, seed)])
    theorem = plain.plan.beta

    def with_beta(share: float) -> float:
        return share_right(build(precision, share * theorem), symbols)

    def with_noise(kind: NoiseKind, level: float) -> float:
        noisy = (perturb(plain, kind, level, seed + draw) for draw in range(DRAWS))
        return min(share_right(construction, symbols) for construction in noisy)

    kinds: tuple[NoiseKind, ...] = ("relative", "absolute")
    searched = {kind: search(partial(with_noise, kind), SMALLEST_NOISE, LARGEST_NOISE) for kind in kinds}
    share, beta_curve = search(with_beta, 1.0, 2.0**-10)
    return Margins(
        theorem_beta=theorem,
        smallest_beta=None if share is None else share * theorem,
        precisions={name: share_right(build(name, None), symbols) for name in PRECISIONS},
        largest_noise={kind: searched[kind][0] for kind in kinds},
        beta_curve=beta_curve,
        noise_curves={kind: searched[kind][1] for kind in kinds},
        inputs=len(symbols),
    )


def search(
    share: Callable[[float], float], safe: float, unsafe: float
) -> tuple[float | None, tuple[tuple[float, float], ...]]:
    """The setting furthest from `safe` on the way to `unsafe` at which all answers are still right.

    Walks in factors of four until an answer is wrong, then halves the last factor again and again. That finds
    the edge if exactness is lost once and for all on the way. Returns None where `safe` itself is not
    exact, and every (setting, share) looked at, in order; two more steps behind the edge are for the plot.
    """
    factor = STRIDE if unsafe > safe else 1 / STRIDE
    seen: dict[float, float] = {}
    good, bad, setting = None, None, safe
    while bad is None and min(safe, unsafe) <= setting <= max(safe, unsafe):
        seen[setting] = share(setting)
        good, bad = (setting, None) if seen[setting] == 1.0 else (good, setting)
        setting *= factor
    if bad is not None:
        seen |= {beyond: share(beyond) for beyond in (bad * factor**0.5, bad * factor)}
    if good is not None and bad is not None:
        for _ in range(REFINEMENTS):
            middle = (good * bad) ** 0.5
            seen[middle] = share(middle)
            good, bad = (middle, bad) if seen[middle] == 1.0 else (good, middle)
    return good, tuple(sorted(seen.items()))


def perturb(construction: Construction, kind: NoiseKind, level: float, seed: int) -> Construction:
    """A copy whose layers carry noise; the tables of embedding and unembedding are left alone."""
    network = copy.deepcopy(construction.network)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.layers.parameters():
            noise = level * _normal(parameter, generator)
            parameter.add_(parameter * noise if kind == "relative" else noise)
    return replace(construction, network=network)


def _normal(like: Float[Tensor, " *shape"], generator: torch.Generator) -> Float[Tensor, " *shape"]:
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)
