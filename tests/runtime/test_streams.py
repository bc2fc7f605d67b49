"""Random streams are functions of (seed, name, step), and of nothing else."""

from __future__ import annotations

import torch

from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.experiment import ParityExperiment
from internalize.runtime.kind import Streams


def draw(generator: torch.Generator, count: int = 4) -> list[int]:
    return torch.randint(1_000_000, (count,), generator=generator).tolist()


def test_a_stream_is_a_function_of_seed_name_and_step() -> None:
    keys = [(seed, name, step) for seed in (0, 1) for name in ("data", "init") for step in (0, 1, 2)]
    forwards = {(s, n, i): draw(Streams(s)(n, i)) for s, n, i in keys}
    backwards = {(s, n, i): draw(Streams(s)(n, i)) for s, n, i in reversed(keys)}
    assert forwards == backwards
    assert len({tuple(numbers) for numbers in forwards.values()}) == len(keys)  # all different


def test_streams_do_not_disturb_one_another() -> None:
    streams = Streams(7)
    a, b = streams("a"), streams("b")
    mixed = [draw(g, 1)[0] for g in (a, b, a, a, b)]
    assert [mixed[0], *mixed[2:4]] == draw(streams("a"), 3)
    assert [mixed[1], mixed[4]] == draw(streams("b"), 2)


def test_nothing_global_is_read_or_changed() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = draw(Streams(0)("data", 5))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert draw(Streams(0)("data", 5)) == first


def test_numbers_stay_as_they_were() -> None:
    """Should they ever change, every run changes with them."""
    assert draw(Streams(0)("data", 3)) == [185398, 430063, 950663, 184459]
    assert draw(Streams(2**63 - 1)("evaluate/ood", 10**9)) == [244916, 535185, 197007, 698060]


def test_what_is_computed_on_the_processor_is_the_same_beside_a_gpu() -> None:
    """Generators of a GPU give other numbers: a parity drawn with them would be another secret."""
    elsewhere = Streams(3, torch.device("cuda"))
    assert draw(elsewhere.on_processor("support")) == draw(Streams(3)("support"))
    config = ParityConfig(d=8, k=3, seed=3)
    experiment = ParityExperiment(config)
    here, there = (experiment.parity(streams) for streams in (Streams(3), elsewhere))
    assert torch.equal(here.indicator(3), there.indicator(3))
    state, _ = experiment.advance(experiment.init(elsewhere), elsewhere)
    assert "loss" in experiment.evaluate(state, elsewhere)
