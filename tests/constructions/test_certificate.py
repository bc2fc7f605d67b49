"""Checks find what is broken; certificates say what the theorem says; margins bracket the edge."""

from __future__ import annotations

import json

import pytest
import torch

from internalize.constructions import build_counter, build_general
from internalize.constructions.certificate import certify, measure_inequalities
from internalize.constructions.construction import Construction, Precision
from internalize.constructions.exactness import (
    ConstructionPredictor,
    adversarial_inputs,
    check,
    find_margins,
    perturb,
    random_inputs,
    search,
)
from internalize.constructions.general import compare_sizes
from internalize.measure.predictor import Predictor
from internalize.tasks import parse_task
from internalize.tasks.inputs import all_inputs


def test_all_inputs_are_all_inputs() -> None:
    everything = torch.cat(list(all_inputs(3, 4, 10)))
    assert len(everything) == 81 == len(everything.unique(dim=0))
    assert (int(everything.min()), int(everything.max())) == (0, 2)


@pytest.mark.parametrize(("symbols", "horizon"), [(1, 1), (2, 1), (2, 6), (12, 25)])
def test_adversarial_inputs(symbols: int, horizon: int) -> None:
    nasty = adversarial_inputs(symbols, horizon).tolist()
    top = symbols - 1
    assert {tuple(row) for row in nasty} >= {(0,) * horizon, (top,) * horizon}
    for place in range(horizon):
        assert [top if t == place else 0 for t in range(horizon)] in nasty
    assert [top * (t % 2) for t in range(horizon)] in nasty
    assert all(0 <= s < symbols for row in nasty for s in row)


def test_the_check_says_what_it_did() -> None:
    construction = build_counter(3, 4)
    assert (check(construction).exhaustive, check(construction).inputs_checked) == (True, 81)
    few = check(construction, "random", samples=10)
    assert not few.exhaustive
    assert few.inputs_checked == 10 + few.adversarial
    too_many = check(build_counter(12, 25), "exhaustive", samples=10)
    assert not too_many.exhaustive
    seen: list[tuple[int, int]] = []
    check(construction, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (81, 81)


def test_a_planted_break_is_found() -> None:
    theorem = build_counter(12, 25).plan.beta
    broken = build_counter(12, 25, beta=theorem / 16)
    certificate = certify(broken, "random", samples=200)
    report = certificate.to_json()
    assert not report["exact"]
    assert report["wrong"] > 0
    assert not certificate.proof_holds
    wrong = torch.tensor([report["first_wrong"]])
    assert broken.answer(wrong) != broken.final_states(wrong)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("n", "horizon"), [(2, 1), (12, 25), (30, 7), (17, 8)])
def test_every_inequality_of_the_proof_holds(n: int, horizon: int, precision: Precision) -> None:
    construction = build_counter(n, horizon, precision=precision)
    found = measure_inequalities(construction, random_inputs(n, horizon, 30, seed=0))
    assert len(found) == 4 * construction.plan.depth
    assert all(inequality.holds for inequality in found)
    gaps = [inequality for inequality in found if inequality.name == "score gap"]
    assert all(gap.slack == pytest.approx(gap.measured - gap.bound) for gap in gaps)


def test_a_wrong_residue_is_measured() -> None:
    construction = build_counter(6, 7)
    with torch.no_grad():
        construction.network.blocks[1].mlp.biases[-1][0] += 1  # the adder modulo 2 is off by one
    found = measure_inequalities(construction, random_inputs(6, 7, 5, seed=0))
    failing = {(inequality.layer, inequality.name) for inequality in found if not inequality.holds}
    assert failing == {(3, "register error")}


def test_the_certificate_is_json_with_the_theorems_numbers() -> None:
    report = json.loads(json.dumps(certify(build_counter(12, 25), samples=50).to_json(), allow_nan=False))
    sizes = {key: report[key] for key in ("depth", "embedding", "heads", "head_size")}
    assert sizes == {"depth": 5, "embedding": 6, "heads": 2, "head_size": 4}
    assert report["mlp_width"] <= report["theorem"]["mlp_width"] == 36
    assert report["largest_weight_ratio"] == report["largest_weight"] / report["theorem"]["largest_weight"]
    assert report["exact"] is True
    assert report["inputs_checked"] == 50 + report["adversarial_inputs"]


def test_search_finds_the_edge() -> None:
    edge, seen = search(lambda x: 1.0 if x <= 0.37 else 0.5, 2.0**-10, 4.0)
    assert edge == pytest.approx(0.37, rel=0.01)
    assert list(seen) == sorted(seen)
    edge, _ = search(lambda x: 1.0 if x >= 0.11 else 0.0, 1.0, 2.0**-10)
    assert edge == pytest.approx(0.11, rel=0.01)
    assert search(lambda x: 0.9, 1.0, 2.0**-10)[0] is None


def test_margins() -> None:
    def build(precision: Precision, beta: float | None) -> Construction:
        return build_counter(6, 7, precision=precision, beta=beta)

    margins = find_margins(build)
    assert margins.smallest_beta is not None
    assert 0.02 < margins.smallest_beta / margins.theorem_beta < 0.9
    assert margins.precisions["float64"] == margins.precisions["float32"] == 1.0
    assert margins.lowest_precision in margins.precisions
    for level in margins.largest_noise.values():
        assert level is not None
        assert 1e-6 < level < 0.1
    json.dumps(margins.to_json())


def test_relative_noise_keeps_zeros_and_absolute_does_not() -> None:
    plain = build_counter(6, 3)
    zeros = plain.network.blocks[0].attention.query == 0
    relative = perturb(plain, "relative", 0.1, seed=0).network.blocks[0].attention.query
    absolute = perturb(plain, "absolute", 0.1, seed=0).network.blocks[0].attention.query
    assert not relative[zeros].any()
    assert absolute[zeros].all()
    assert not torch.equal(relative, plain.network.blocks[0].attention.query)


def test_a_construction_is_a_predictor() -> None:
    construction = build_general(parse_task("S3"), 6)
    predictor: Predictor = ConstructionPredictor(construction)
    symbols = random_inputs(4, 6, 40, seed=0)
    prediction = predictor.answer(symbols)
    assert torch.equal(prediction.output, construction.final_states(symbols))
    assert (prediction.forward_passes == 1).all()
    assert (prediction.flops == construction.shape.flops).all()
    assert predictor.weights_digest == ConstructionPredictor(build_general(parse_task("S3"), 6)).weights_digest
    assert predictor.weights_digest != ConstructionPredictor(build_general(parse_task("D3"), 6)).weights_digest
    half = ConstructionPredictor(build_general(parse_task("S3"), 6, precision="bfloat16"))
    assert half.weights_digest != predictor.weights_digest
    assert half.model_class == predictor.model_class


def test_sizes_linear_for_primes_quadratic_in_general() -> None:
    by_order = {sizes.n: sizes for sizes in compare_sizes(range(2, 62), 25)}
    assert by_order[61].counter.mlp_width / by_order[31].counter.mlp_width == pytest.approx(2, rel=0.1)
    assert by_order[61].general.mlp_width / by_order[31].general.mlp_width == pytest.approx(4, rel=0.1)
    assert by_order[60].counter.mlp_width < by_order[13].counter.mlp_width
    assert [by_order[n].kind for n in (7, 8, 6)] == ["prime", "prime power", "other composite"]
