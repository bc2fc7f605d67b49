"""Boolean circuits: gates over input bits, whose values are hints for whoever learns the output.

In Python:  Circuit("both", 2, (Gate("y", "and", ("x1", "x2")),), "y")
As a file:  {"name": "both", "inputs": 2, "gates": [["y", "and", "x1", "x2"]], "output": "y"}

The inputs are called x1 … xd. A gate may read inputs and other gates, written before or after it, as long as
nothing goes round in a circle. `hints` names the gates whose values are shown, in the order in which they are
computed: the last one is taken away first. Not given, it is every gate but the output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from internalize.configs.files import read_data
from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.errors import BadInput, closest, require
from internalize.tasks.names import SUFFIXES

if TYPE_CHECKING:
    from torch import Tensor

Operation = Literal["and", "or", "xor", "not", "majority"]
OPERATIONS: tuple[str, ...] = get_args(Operation)
BitArray = NDArray[np.uint8]
Form = Literal["bipolar", "binary"]
"""How bits are written, for a network that reads them."""
Replacement = Literal["noise", "neutral"]
"""What stands in the place of a hint that is no longer shown."""


@dataclass(frozen=True)
class Gate:
    """One gate. Of a single argument `and`, `or`, `xor` and `majority` are the argument itself."""

    name: str
    operation: Operation
    arguments: tuple[str, ...]
    """Names of inputs and gates."""

    def __post_init__(self) -> None:
        word = self.name != "" and not any(c.isspace() for c in self.name)
        require(word, "gates", f"a gate's name must be a word without spaces, got {self.name!r}")
        known = list(OPERATIONS)
        hint = closest(str(self.operation), known)
        good = self.operation in known
        require(good, self.name, f"must be one of {', '.join(known)}{hint}; got {self.operation!r}")
        count = len(self.arguments)
        require(count >= 1, self.name, f"{self.operation} needs at least one argument")
        require(self.operation != "not" or count == 1, self.name, f"not takes one argument, got {count}")
        odd = self.operation != "majority" or count % 2 == 1
        require(odd, self.name, f"majority needs an odd number of arguments, got {count}")


@dataclass(frozen=True)
class Circuit:
    """A directed acyclic graph of gates over the bits x1 … xd."""

    name: str
    inputs: int
    """d: bits of an input; the circuit need not read all of them."""
    gates: tuple[Gate, ...]
    output: str
    """The gate that gives the label."""
    hints: tuple[str, ...] | None = None
    """Gates whose values are shown, in order; every gate but the output, as computed, if not given."""

    def __post_init__(self) -> None:
        require(self.inputs >= 1, "inputs", f"must be at least 1, got {self.inputs}")
        require(len(self.gates) >= 1, "gates", "must be at least one")
        names = [gate.name for gate in self.gates]
        inputs, times = set(self.input_names), Counter(names)
        known = inputs | set(names)
        repeated = sorted(name for name, count in times.items() if count > 1 or name in inputs)
        require(not repeated, "gates", f"every gate needs a name of its own, {repeated} is taken twice")
        for gate in self.gates:
            for argument in gate.arguments:
                if argument not in known:
                    hint = closest(argument, sorted(known))
                    raise BadInput(gate.name, f"reads {argument!r}, which is no input or gate{hint}")
        require(self.output in names, "output", f"must be the name of a gate, got {self.output!r}")
        shown = self.hints or ()
        unknown = [name for name in shown if name not in names]
        require(not unknown, "hints", f"must be names of gates, got {unknown}")
        require(self.output not in shown, "hints", f"must not show the output {self.output!r} itself")
        require(len(set(shown)) == len(shown), "hints", "must name every gate once")
        _ = self.order  # refuses a circle

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(1, self.inputs + 1))

    @cached_property
    def order(self) -> tuple[Gate, ...]:
        """The gates so that each comes after all that it reads: level by level."""
        gates = {gate.name: gate for gate in self.gates}
        sorter = TopologicalSorter(
            {name: [a for a in gate.arguments if a in gates] for name, gate in gates.items()}
        )
        try:
            return tuple(gates[name] for name in sorter.static_order())
        except CycleError as error:
            raise BadInput("gates", f"go round in a circle: {' ← '.join(error.args[1])}") from None

    @cached_property
    def hint_names(self) -> tuple[str, ...]:
        """The names of the hints z_1 … z_H."""
        if self.hints is not None:
            return self.hints
        return tuple(gate.name for gate in self.order if gate.name != self.output)

    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, d) uint8 bits to (batch, H) hints and (batch,) labels, uint8."""
        import torch

        values: dict[str, BitArray] = dict(
            zip(self.input_names, np.ascontiguousarray(x.numpy().T), strict=True)
        )
        for gate in self.order:
            values[gate.name] = _VALUE[gate.operation]([values[name] for name in gate.arguments])
        hints = np.empty((len(x), len(self.hint_names)), np.uint8)
        for column, name in enumerate(self.hint_names):
            hints[:, column] = values[name]
        return torch.from_numpy(hints), torch.from_numpy(values[self.output].copy())


def _majority(arguments: Sequence[BitArray]) -> BitArray:
    total = np.stack(arguments).sum(axis=0, dtype=np.int64)
    return np.asarray(2 * total > len(arguments), dtype=np.uint8)


_VALUE: dict[str, Callable[[Sequence[BitArray]], BitArray]] = {
    "and": lambda a: reduce(np.bitwise_and, a),
    "or": lambda a: reduce(np.bitwise_or, a),
    "xor": lambda a: reduce(np.bitwise_xor, a),
    "not": lambda a: a[0] ^ np.uint8(1),
    "majority": _majority,
}
"""operation → its value on a whole batch."""


def parity_circuit(d: int, support: Sequence[int]) -> Circuit:
    """The paper's: hints z_t = x_{i_1} ⊕ … ⊕ x_{i_t}, t < k, and the label z_k. Numbered from 1."""
    gates = [Gate("z1", "xor", (f"x{support[0]}",))]
    gates += [Gate(f"z{t}", "xor", (f"z{t - 1}", f"x{i}")) for t, i in enumerate(support[1:], start=2)]
    return Circuit(f"parity-d{d}-k{len(support)}", d, tuple(gates), f"z{len(support)}")


def addition_circuit(bits: int) -> Circuit:
    """The highest sum bit of a + b, hints the carries c_1 … c_{n-1}. a is x1 … xn and b the rest, lowest first.

    c_i is the majority of a_i, b_i and c_{i-1}; the label is a_n ⊕ b_n ⊕ c_{n-1}.
    """
    require(bits >= 2, "circuit", f"adder needs at least 2 bits, got {bits}")
    gates = [Gate("c1", "and", ("x1", f"x{bits + 1}"))]
    gates += [Gate(f"c{i}", "majority", (f"x{i}", f"x{bits + i}", f"c{i - 1}")) for i in range(2, bits)]
    top = Gate("s", "xor", (f"x{bits}", f"x{2 * bits}", f"c{bits - 1}"))
    return Circuit(f"adder{bits}", 2 * bits, (*gates, top), "s")


def majority_of_parities(groups: int, size: int) -> Circuit:
    """The majority of `groups` parities over `size` bits each; hints every prefix of every parity."""
    good = groups % 2 == 1
    require(good, "circuit", f"majority needs an odd number of parities, got {groups}")
    require(size >= 1, "circuit", f"parities need at least 1 bit, got {size}")
    gates = []
    for group in range(1, groups + 1):
        for t in range(1, size + 1):
            bit = f"x{(group - 1) * size + t}"
            before = (f"p{group}.{t - 1}",) if t > 1 else ()
            gates.append(Gate(f"p{group}.{t}", "xor", (*before, bit)))
    label = Gate("y", "majority", tuple(f"p{group}.{size}" for group in range(1, groups + 1)))
    return Circuit(f"majority{groups}x{size}", groups * size, (*gates, label), "y")


KEYS = ["name", "inputs", "gates", "output", "hints"]
KNOWN = "parity, adder<n>, majority<m>x<n>, a .json or .yaml file, or module:attribute"


def find_circuit(text: str, field: str, copies: Copies) -> tuple[Circuit, Source | None]:
    """A circuit, and the user's file behind it where there is one. `parity` has arguments: not found here."""
    if text.lower().endswith(SUFFIXES):
        path = copies.get(text, Path(text))
        return read_circuit(path, field), Source(text, path)
    if is_object_name(text):
        made, source = load_object(text, field, copies)
        return _users_circuit(made, text, field), source
    adder = re.fullmatch(r"adder(\d{1,4})", text)
    if adder is not None:
        return addition_circuit(int(adder[1])), None
    parities = re.fullmatch(r"majority(\d{1,4})x(\d{1,4})", text)
    if parities is not None:
        return majority_of_parities(int(parities[1]), int(parities[2])), None
    raise BadInput(field, f"unknown circuit {text!r}; known: {KNOWN}")


def read_circuit(path: Path, field: str) -> Circuit:
    """Read and check the file; every problem is one line that names the file and the key in it."""
    data, where = read_data(path, field), f"{field} ({path.name})"
    require(isinstance(data, dict), where, f"must be an object with the keys {', '.join(KEYS)}")
    for key in data:
        require(key in KEYS, where, f"unknown key {key!r}{closest(str(key), KEYS)}; known: {', '.join(KEYS)}")
    for key in ("inputs", "gates", "output"):
        require(key in data, where, f"{key} is missing")
    number = isinstance(data["inputs"], int) and not isinstance(data["inputs"], bool)
    require(number, where, f"inputs must be a whole number, got {data['inputs']!r}")
    require(_texts_of_texts(data["gates"]), where, 'gates must be a list such as [["y", "and", "x1", "x2"]]')
    hints = data.get("hints")
    good = hints is None or _texts(hints)
    require(good, where, f"hints must be a list of names of gates, got {hints!r}")
    try:
        gates = tuple(Gate(line[0], line[1], tuple(line[2:])) for line in data["gates"])
        shown = None if hints is None else tuple(hints)
        return Circuit(str(data.get("name", path.stem)), data["inputs"], gates, data["output"], shown)
    except BadInput as error:
        raise BadInput(where, str(error)) from None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _texts_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(_texts(line) and len(line) >= 3 for line in value)


def _users_circuit(made: object, text: str, field: str) -> Circuit:
    try:
        circuit = made() if callable(made) else made
    except BadInput as error:
        raise BadInput(field, f"{text}: {error}") from None
    except Exception as error:  # a user's function may fail in any way
        raise BadInput(field, f"{text} failed: {type(error).__name__}: {error}") from error
    require(isinstance(circuit, Circuit), field, f"{text} is not a Circuit but {circuit!r}")
    assert isinstance(circuit, Circuit)
    return circuit
