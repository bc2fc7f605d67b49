"""Circuits against a naive evaluator, known functions, and every way to write one wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize.errors import BadInput
from internalize.tasks.circuits import (
    OPERATIONS,
    Circuit,
    Gate,
    addition_circuit,
    find_circuit,
    majority_of_parities,
    parity_circuit,
)
from internalize.tasks.parity import HiddenParity, all_bits

EXAMPLES = Path(__file__).parents[2] / "examples" / "circuits"


@st.composite
def circuits(draw: st.DrawFn) -> Circuit:
    """Random gates over random earlier values, written down in random order."""
    inputs = draw(st.integers(1, 5))
    names = [f"x{i}" for i in range(1, inputs + 1)]
    gates = []
    for number in range(draw(st.integers(1, 8))):
        operation = draw(st.sampled_from(OPERATIONS))
        count = {"not": 1, "majority": draw(st.sampled_from([1, 3, 5]))}.get(operation, draw(st.integers(1, 4)))
        arguments = draw(st.lists(st.sampled_from(names), min_size=count, max_size=count))
        gates.append(Gate(f"g{number}", operation, tuple(arguments)))  # type: ignore[arg-type]
        names.append(f"g{number}")
    return Circuit("random", inputs, tuple(draw(st.permutations(gates))), draw(st.sampled_from(gates)).name)


def naive(circuit: Circuit, name: str, x: list[int]) -> int:
    """A gate's value by recursion, on one input."""
    if name in circuit.input_names:
        return x[circuit.input_names.index(name)]
    gate = next(gate for gate in circuit.gates if gate.name == name)
    values = [naive(circuit, argument, x) for argument in gate.arguments]
    return {
        "and": int(all(values)),
        "or": int(any(values)),
        "xor": sum(values) % 2,
        "not": 1 - values[0],
        "majority": int(sorted(values)[len(values) // 2] == 1),
    }[gate.operation]


@given(circuits())
def test_gate_values_are_those_of_a_naive_evaluator(circuit: Circuit) -> None:
    (x,) = all_bits(circuit.inputs)
    hints, label = circuit.evaluate(x)
    rows = x.tolist()
    assert label.tolist() == [naive(circuit, circuit.output, row) for row in rows]
    expected = [[naive(circuit, name, row) for name in circuit.hint_names] for row in rows]
    assert hints.tolist() == expected
    place = {gate.name: i for i, gate in enumerate(circuit.order)}
    assert all(place[a] < place[g.name] for g in circuit.gates for a in g.arguments if a in place)


def test_parity_is_the_hidden_parity_with_its_prefixes() -> None:
    support = (3, 1, 6, 2)
    (x,) = all_bits(7)
    hints, label = parity_circuit(7, support).evaluate(x)
    chain = HiddenParity(7, support).chain(x)
    assert torch.equal(hints, chain[:, :-1])
    assert torch.equal(label, chain[:, -1])


def test_addition_adds() -> None:
    (x,) = all_bits(8)
    powers = torch.tensor([1, 2, 4, 8])
    total = (x[:, :4] * powers).sum(1) + (x[:, 4:] * powers).sum(1)
    hints, label = addition_circuit(4).evaluate(x)
    assert torch.equal(label.long(), total // 8 % 2)
    for i in range(1, 4):  # the carry out of the lowest i bits
        low = (x[:, :i] * powers[:i]).sum(1) + (x[:, 4 : 4 + i] * powers[:i]).sum(1)
        assert torch.equal(hints[:, i - 1].long(), low // 2**i)


@pytest.mark.usefixtures("named_by_the_user")
def test_majority_of_parities_and_its_example_are_one_function() -> None:
    (x,) = all_bits(15)
    parities = torch.stack([x[:, 5 * g : 5 * g + 5].sum(1) % 2 for g in range(3)])
    hints, label = majority_of_parities(3, 5).evaluate(x)
    assert torch.equal(label.long(), (parities.sum(0) > 1).long())
    written, source = find_circuit(f"{EXAMPLES / 'majority_of_parities.py'}:circuit", "circuit", {})
    assert source is not None
    assert all(torch.equal(a, b) for a, b in zip(written.evaluate(x), (hints, label), strict=True))


def test_the_example_file_compares_two_numbers() -> None:
    circuit, _ = find_circuit(str(EXAMPLES / "comparison.json"), "circuit", {})
    (x,) = all_bits(12)
    powers = 2 ** torch.arange(6)
    a, b = ((x[:, half] * powers).sum(1) for half in (slice(0, 6), slice(6, 12)))
    hints, label = circuit.evaluate(x)
    assert torch.equal(hints[:, -1].bool(), a < b)
    assert torch.equal(label.long(), ((a < b).long() + x[:, :6].sum(1)) % 2)


GOOD: dict[str, Any] = {"inputs": 2, "gates": [["a", "and", "x1", "x2"], ["y", "not", "a"]], "output": "y"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gates": [["y", "nand", "x1", "x2"]]}, "must be one of and, or, xor, not, majority"),
        ({"gates": [["y", "and", "x1", "x3"]]}, "'x3', which is no input or gate"),
        ({"gates": [["a", "not", "y"], ["y", "not", "a"]]}, "circle"),
        ({"gates": [["y", "not", "x1", "x2"]]}, "not takes one argument"),
        ({"gates": [["y", "majority", "x1", "x2"]]}, "odd number"),
        ({"gates": [["y", "and", "x1"], ["y", "or", "x2"]]}, "taken twice"),
        ({"gates": [["x1", "and", "x2"]], "output": "x1"}, "taken twice"),
        ({"gates": []}, "at least one"),
        ({"gates": "y"}, "gates must be a list"),
        ({"gates": [["y", "and"]]}, "gates must be a list"),
        ({"output": "z"}, "must be the name of a gate"),
        ({"hints": ["y"]}, "must not show the output"),
        ({"hints": ["x1"]}, "must be names of gates"),
        ({"hints": ["a", "a"]}, "every gate once"),
        ({"inputs": 0}, "at least 1"),
        ({"inputs": "2"}, "whole number"),
        ({"outputs": "y"}, "did you mean 'output'"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(BadInput) as refused:
        find_circuit(str(path), "circuit", {})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.field == "circuit (mine.json)"


@pytest.mark.parametrize("name", ["nand", "adder1", "adder", "majority2x3", "majority3", "there-is-none.json"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        find_circuit(name, "circuit", {})
    assert refused.value.field == "circuit"
