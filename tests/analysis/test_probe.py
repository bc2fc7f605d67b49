"""A chain planted in the residual stream is found, controls stay at chance; and on models that were trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from internalize.analysis.lens import Lens, attention_mass, draw_attention, draw_heads, look
from internalize.analysis.matrix import teacher_hits
from internalize.analysis.open_run import OpenChain
from internalize.analysis.probe import look_inside, stream_of
from internalize.errors import BadInput
from internalize.kinds.entrance import Moment
from internalize.measure.probes import fit_probes
from internalize.models.gpt2 import GPT2
from tests.measure.test_generation import make_predictor

T, N, COUNT = 5, 3, 900


def test_a_planted_chain_is_found_where_it_is_and_nowhere_else(generator: torch.Generator) -> None:
    """Layer 1 holds q_t at position t and later, turned and under noise; layer 0 holds noise alone."""
    symbols = torch.randint(N, (COUNT, T), generator=generator)
    states = torch.cat([torch.zeros(COUNT, 1, dtype=torch.int64), symbols.cumsum(1) % N], dim=1)
    width = T * N + 4
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator)).Q
    indicator = torch.nn.functional.one_hot(states[:, 1:], N).float()
    stream = torch.zeros(COUNT, T, width)
    for position in range(T):
        for t in range(position + 1):
            stream[:, position, t * N : (t + 1) * N] = indicator[:, t]
    stream = stream @ turn + 0.1 * torch.randn(stream.shape, generator=generator)
    noise = torch.randn(stream.shape, generator=generator)

    def record(rows: Tensor) -> list[Tensor]:
        return [noise[rows[:, 0]], stream[rows[:, 0]]]

    rows = torch.arange(COUNT)[:, None]
    found = fit_probes(record, rows, states[:, 1:], N, fitted=600, generator=generator)
    assert found.hits.shape == found.shuffled.shape == (2, T, T)
    there = torch.ones(T, T).tril().bool()  # position (row) against t (column)
    assert (found.accuracy[1][there] > 0.99).all()
    elsewhere = torch.cat([found.accuracy[0].flatten(), found.accuracy[1][~there]])
    controls = found.shuffled.double().flatten() / found.held_out
    for chance_level in (elsewhere, controls):
        assert abs(float(chance_level.mean()) - 1 / N) < 0.02
        assert chance_level.max() < 0.5
    assert found.held_out == 300
    assert (found.chance >= 1 / N).all()
    assert (found.above_chance()[1][there] > 0.98).all()


def test_the_head_that_is_drawn_is_one_head_and_the_one_on_what_is_needed(chain: OpenChain) -> None:
    """Head 2 looks at σ_{i+1} … σ_j alone; head 1 most strongly of all, but at σ_1 whatever is said."""
    hidden = look_inside(chain, 2, 60)
    assert hidden.shown == (2, 3, 4)
    positions = len(hidden.positions)
    pattern = torch.zeros(3, positions, positions)
    pattern[0, :, 0] = 1.0
    needed = {2: (0, 1), 3: (2,), 4: (3,)}
    for row, said in enumerate(hidden.shown, start=positions - 4):
        pattern[1, row, list(needed[said])] = 0.6 / len(needed[said])
        pattern[1, row, 4] = 0.4
        pattern[2, row, :5] = 0.2
    assert hidden.lens is not None
    planted = replace(hidden.lens, attention=(pattern,))
    mean, head = draw_attention(planted, "a run").axes[:2]
    assert mean.get_title() == "layer 1, mean of heads\nwhite 0, darkest 0.50"
    assert head.get_title() == "layer 1, head 2, most on the needed σ\nwhite 0, darkest 0.60"
    drawn = head.images[0].get_array()
    assert drawn is not None
    assert drawn.tolist() == pattern[1, positions - 4 : positions - 1].tolist()
    (every,) = (panel for panel in draw_heads(planted, "a run").axes if panel.get_title() == "layer 1")
    drawn = every.images[0].get_array()  # heads 1 and 3 look at σ1 first of all, head 2 at σ4
    assert drawn is not None
    assert drawn.tolist() == pattern[[0, 2, 1], positions - 2].tolist()
    assert [label.get_text() for label in every.get_yticklabels()] == ["1", "3", "2"]


@torch.no_grad()
@pytest.mark.parametrize("length_hint", [False, True])
def test_the_stream_and_the_lens_are_the_models_own(length_hint: bool, generator: torch.Generator) -> None:
    predictor = make_predictor(length_hint=length_hint)
    model, renderer = predictor.model, predictor.renderer
    assert isinstance(model, GPT2)
    symbols = torch.randint(3, (40, 5), generator=generator)
    states = torch.cat([torch.zeros(40, 1, dtype=torch.int64), symbols.cumsum(1) % 3], dim=1)
    shown = (2, 5)
    tokens = renderer.sequence(symbols, states, shown)
    stream = stream_of(model)(tokens[:, :-1])
    logits, _ = model(tokens[:, :-1])
    mine = model.transformer.ln_f(stream[-1]) @ model.transformer.wte.weight.T
    assert torch.allclose(mine, logits, rtol=1e-4, atol=1e-4 * float(logits.abs().max()))
    assert torch.equal(stream[0], model.embed(tokens[:, :-1]))

    found = look(model, renderer, symbols, states, shown)
    start = renderer.prompt_length() - 1
    expected = (logits[:, start:].argmax(-1) == tokens[:, start + 1 :]).double().mean(0)
    assert found.next_token[-1].tolist() == pytest.approx(expected.tolist())
    for pattern in found.attention:
        assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-4)
        assert float(pattern.triu(1).abs().max()) == 0.0


def test_attention_mass_counts_what_the_next_state_needs() -> None:
    """Positions: σ1 … σ5, q0, q2. To say q_2 one needs q_0, σ1, σ2; to say q_5 after it: q_2, σ3, σ4, σ5."""
    renderer = make_predictor().renderer
    pattern = torch.zeros(2, 7, 7)
    pattern[0, 5] = torch.tensor([0.1, 0.2, 0, 0, 0.3, 0.4, 0])
    pattern[1, 5] = torch.tensor([0.5, 0.5, 0, 0, 0, 0, 0])
    pattern[:, 6] = torch.tensor([0, 0, 0.1, 0.1, 0.1, 0.2, 0.5])
    lens = Lens((2, 5), (), torch.zeros(2, 3), torch.zeros(2, 7, 5), (pattern,), 1)
    first, second = attention_mass(lens, renderer, (2, 5))
    assert (first.said, first.after, second.said, second.after) == (2, 0, 5, 2)
    assert (first.needed, first.needed_strongest, first.previous) == pytest.approx((0.65, 1.0, 0.2))
    assert (second.needed, second.previous) == pytest.approx((0.3, 0.5))
    assert (first.needed_if_even, second.needed_if_even) == pytest.approx((2 / 6, 3 / 7))


def test_a_trained_model_holds_the_answer_before_it_speaks(chain: OpenChain) -> None:
    found = look_inside(chain, None, samples=600)
    assert found.moment == Moment(4, 4, "done")
    assert found.positions == ("σ1", "σ2", "σ3", "σ4", "q0", "q4")
    before_speaking = found.positions.index("q0")
    assert found.trained.accuracy[1, before_speaking, 3] > 0.98
    assert found.trained.accuracy[0, before_speaking, 3] < 0.6  # the embedding of q0 knows no input
    assert found.best(4).shuffled < 0.6
    assert found.best(4).spoken
    assert not found.best(2).spoken
    assert found.lens is not None
    assert found.lens.next_token[1].tolist() == pytest.approx([1.0, 1.0], abs=0.02)
    row = next(r for r in found.rows() if (r["layer"], r["position"], r["t"]) == (1, "q0", 4))
    assert row["accuracy"] == pytest.approx(float(found.trained.accuracy[1, before_speaking, 3]))
    assert row["spoken"] is False
    with pytest.raises(BadInput, match="samples"):
        look_inside(chain, None, samples=5)


def test_the_lens_agrees_with_the_matrix(chain: OpenChain) -> None:
    """Two ways to the same number: the last layer's word for q_4 when q_3 is given, EOS left aside."""
    model, renderer = chain.transformer(3), chain.experiment.renderer
    examples = chain.draw(chain.experiment.inputs, 200, 5, "test")
    lens = look(model, renderer, examples.symbols, examples.states, (3, 4))
    hits = teacher_hits(chain.predictor(stage=3), examples, ((3, 4),))
    assert float(lens.next_token[-1, 1]) == pytest.approx(hits[0] / 200, abs=0.02)
    assert hits[0] > 190
