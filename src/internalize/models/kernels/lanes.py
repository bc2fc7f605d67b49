"""Arithmetic on several floats at once, written as LLVM instructions.

Numba's own vectoriser gives up on the attention loops (it cannot know that the arrays do not overlap, and
keeps the accumulators in memory). Here the vectors are explicit: `Lanes` is a small assembler whose values are
vectors of `count` floats in registers. The code that uses it runs once, when numba compiles, and loops of
that code are unrolled.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

FLOAT = ir.FloatType()
HALF = ir.IntType(16)  # bfloat16 by its bits
INT32 = ir.IntType(32)
BYTE = ir.IntType(8)
FLOAT_BYTES, HALF_BYTES = 4, 2

# 2**f on [-1/2, 1/2] with a relative error below 2e-9 before rounding, lowest power first.
EXP2_POLYNOMIAL = (
    1.0,
    0.6931471824645996,
    0.24022646248340607,
    0.05550328642129898,
    0.009618489071726799,
    0.0013399930903688073,
    0.0001534581242594868,
)
# Adding 1.5 · 2**23 rounds a small float to an integer, which then stands in the low bits.
ROUNDING = 12582912.0
SMALLEST_EXPONENT = -126.0
# Beyond this head size shuffles cost more instructions than moving lane by lane.
LARGEST_SHUFFLED = 8


@cache  # asking takes a tenth of a millisecond
def native_lanes() -> int:
    """How many floats a register of this machine holds, or the kernels' default of eight."""
    return 16 if dict(binding.get_host_cpu_features()).get("avx512f", False) else 8


@cache
def emitters_stamp() -> int:
    """A number, never 0, that changes when the code in this package does.

    Numba keeps compiled kernels on disk and compiles anew when the kernel's own file or a variable that it
    refers to has changed, but knows nothing of the files that emit its instructions: so it refers to this.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return 1 + zlib.crc32(b"".join(source.read_bytes() for source in sources))


class Lanes:
    """Emits instructions on vectors of `count` floats at the builder's place."""

    def __init__(self, builder: Any, count: int) -> None:
        self.builder = builder
        self.count = count
        self.type = ir.VectorType(FLOAT, count)

    def constant(self, value: float) -> Any:
        return ir.Constant(self.type, [value] * self.count)

    def load(self, pointer: Any, index: Any) -> Any:
        """The vector that starts `index` elements after the pointer, which is to float or bfloat16."""
        return self._load_wide(pointer, index, self.count)

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        """The inverse of `load`; rounds to the nearest if the pointer is to bfloat16."""
        size = FLOAT_BYTES
        if is_half(pointer):
            value, size = self._rounded(value), HALF_BYTES
        self.builder.store(value, self._at(pointer, index, value.type), align=size)

    def _load_wide(self, pointer: Any, index: Any, count: int) -> Any:
        if not is_half(pointer):
            kind = ir.VectorType(FLOAT, count)
            return self.builder.load(self._at(pointer, index, kind), align=FLOAT_BYTES)
        half = self.builder.load(self._at(pointer, index, ir.VectorType(HALF, count)), align=HALF_BYTES)
        bits = self.builder.zext(half, ir.VectorType(INT32, count))
        bits = self.builder.shl(bits, constants(count, 16))
        return self.builder.bitcast(bits, ir.VectorType(FLOAT, count))

    def _rounded(self, value: Any) -> Any:
        """A float vector as bfloat16: the upper half of its bits, rounded to the nearest, ties to even."""
        count = value.type.count
        bits = self.builder.bitcast(value, ir.VectorType(INT32, count))
        odd = self.builder.and_(self.builder.lshr(bits, constants(count, 16)), constants(count, 1))
        bits = self.builder.add(bits, self.builder.add(odd, constants(count, 0x7FFF)))
        return self.builder.trunc(self.builder.lshr(bits, constants(count, 16)), ir.VectorType(HALF, count))

    def broadcast(self, scalar: Any) -> Any:
        one = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), scalar, INT32(0))
        mask = ir.Constant(ir.VectorType(INT32, self.count), [0] * self.count)
        return self.builder.shuffle_vector(one, ir.Constant(self.type, ir.Undefined), mask)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b)

    def sub(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b)

    def mul(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b)

    def div(self, a: Any, b: Any) -> Any:
        return self.builder.fdiv(a, b)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a · b + c."""
        kind = ir.FunctionType(self.type, [self.type] * 3)
        name = f"llvm.fma.v{self.count}f32"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [a, b, c])

    def maximum(self, a: Any, b: Any) -> Any:
        """The larger one; not a number if b is (so that a broken score is not hidden)."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", a, b), a, b)

    def absolute(self, x: Any) -> Any:
        bits = self.builder.bitcast(x, ir.VectorType(INT32, self.count))
        return self.builder.bitcast(self.builder.and_(bits, constants(self.count, 0x7FFFFFFF)), self.type)

    def any_above(self, x: Any, limit: float) -> Any:
        """One bit: whether some lane is greater than the limit."""
        above = self.builder.fcmp_ordered(">", x, self.constant(limit))
        bits = self.builder.bitcast(above, ir.IntType(self.count))
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    def exp2(self, x: Any) -> Any:
        """2**x for x ≤ 126; what is below the smallest normal number becomes that number."""
        bits = ir.VectorType(INT32, self.count)
        x = self.maximum(self.constant(SMALLEST_EXPONENT), x)
        shifted = self.add(x, self.constant(ROUNDING))
        rest = self.sub(x, self.sub(shifted, self.constant(ROUNDING)))
        value = self.constant(EXP2_POLYNOMIAL[-1])
        for coefficient in reversed(EXP2_POLYNOMIAL[:-1]):
            value = self.fma(value, rest, self.constant(coefficient))
        exponent = self.builder.shl(self.builder.bitcast(shifted, bits), constants(self.count, 23))
        scaled = self.builder.add(self.builder.bitcast(value, bits), exponent)
        return self.builder.bitcast(scaled, self.type)

    def where_marked(self, address: Any, value: Any) -> Any:
        """The lanes' values where the lane's byte at the address is not 0, else 0."""
        kind = ir.VectorType(BYTE, self.count)
        marks = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=1)
        marked = self.builder.icmp_unsigned("!=", marks, ir.Constant(kind, [0] * self.count))
        return self.builder.select(marked, value, self.constant(0.0))

    def dot(self, a: Sequence[Any], b: Sequence[Any], start: Any = None) -> Any:
        """start + Σ a[c] · b[c], lane by lane."""
        total = start
        for x, y in zip(a, b, strict=True):
            total = self.mul(x, y) if total is None else self.fma(x, y, total)
        return total

    def load_heads(self, pointer: Any, index: Any, size: int) -> list[Any]:
        """`count` heads of `size` floats lying one after the other: component c of all heads, for each c."""
        if size > LARGEST_SHUFFLED or size & (size - 1):
            return [self._gather(pointer, index, c, size) for c in range(size)]
        parts = [self.load(pointer, self.builder.add(index, index.type(c * self.count))) for c in range(size)]
        return self._deal(parts)

    def store_heads(self, components: Sequence[Any], pointer: Any, index: Any) -> None:
        """The inverse of `load_heads`."""
        size = len(components)
        if size > LARGEST_SHUFFLED or size & (size - 1):
            for c, component in enumerate(components):
                self._scatter(component, pointer, index, c, size)
            return
        for c, part in enumerate(self._collect(list(components))):
            self.store(part, pointer, self.builder.add(index, index.type(c * self.count)))

    def _deal(self, parts: list[Any]) -> list[Any]:
        """Vectors one after the other into every second, fourth, … element: halves of halves."""
        if len(parts) == 1:
            return parts
        even, odd = mask(list(range(0, 2 * self.count, 2))), mask(list(range(1, 2 * self.count, 2)))
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        evens = self._deal([self.builder.shuffle_vector(a, b, even) for a, b in pairs])
        odds = self._deal([self.builder.shuffle_vector(a, b, odd) for a, b in pairs])
        return [part for both in zip(evens, odds, strict=True) for part in both]

    def _collect(self, parts: list[Any]) -> list[Any]:
        """The inverse of `_deal`."""
        if len(parts) == 1:
            return parts
        evens, odds = self._collect(parts[::2]), self._collect(parts[1::2])
        order = [place for lane in range(self.count) for place in (lane, self.count + lane)]
        low, high = mask(order[: self.count]), mask(order[self.count :])
        return [
            self.builder.shuffle_vector(a, b, half)
            for a, b in zip(evens, odds, strict=True)
            for half in (low, high)
        ]

    def _gather(self, pointer: Any, index: Any, component: int, size: int) -> Any:
        value = ir.Constant(self.type, ir.Undefined)
        for lane in range(self.count):
            place = self.builder.add(index, index.type(component + size * lane))
            one = self.builder.extract_element(self._load_wide(pointer, place, 1), INT32(0))
            value = self.builder.insert_element(value, one, INT32(lane))
        return value

    def _scatter(self, value: Any, pointer: Any, index: Any, component: int, size: int) -> None:
        nothing = ir.Constant(self.type, ir.Undefined)
        for lane in range(self.count):
            place = self.builder.add(index, index.type(component + size * lane))
            self.store(self.builder.shuffle_vector(value, nothing, mask([lane])), pointer, place)

    def _at(self, pointer: Any, index: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(pointer, [index]), kind.as_pointer())

    def loop(
        self, start: Any, stop: Any, carried: Sequence[Any], body: Callable[[Any, list[Any]], Sequence[Any]]
    ) -> list[Any]:
        """`for j in range(start, stop)`: `body(j, values)` gives the next values; returns the last ones."""
        slots = [cgutils.alloca_once_value(self.builder, value) for value in carried]
        with cgutils.for_range(self.builder, stop, start=start) as step:
            following = body(step.index, [self.builder.load(slot) for slot in slots])
            for slot, value in zip(slots, following, strict=True):
                self.builder.store(value, slot)
        return [self.builder.load(slot) for slot in slots]


def mask(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(INT32, len(indices)), indices)


def constants(count: int, value: int) -> Any:
    return mask([value] * count)


def is_half(pointer: Any) -> bool:
    return bool(pointer.type.pointee == HALF)


def staged(emit: Callable[..., None]) -> Any:
    """A numba intrinsic from `emit(lanes, size, rotary, half, drops, *addresses_and_integers)`.

    It is called as f(lane count, head size, rotary, half, drops, (address or integer, …)), where all before the
    tuple are constants, and tuples in the tuple are flattened. Addresses instead of arrays keep numba from
    counting references inside the loops.
    """

    def typing(  # numba reads these names
        typing_context: Any, count: Any, size: Any, rotary: Any, half: Any, drops: Any, varying: Any
    ) -> Any:
        del typing_context
        flags = [bool(flag.literal_value) for flag in (rotary, half, drops)]

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            integers = flattened(context, builder, signature.args[-1], values[-1])
            emit(Lanes(builder, count.literal_value), size.literal_value, *flags, *integers)
            return context.get_dummy_value()

        return types.void(count, size, rotary, half, drops, varying), generate

    return intrinsic(prefer_literal=True)(typing)


def flattened(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """The integers in a numba tuple of integers and tuples."""
    if not isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        return [context.cast(builder, value, kind, types.intp)]
    parts = ((inner, builder.extract_value(value, i)) for i, inner in enumerate(kind))
    return [integer for inner, part in parts for integer in flattened(context, builder, inner, part)]


def elements(lanes: Lanes, address: Any, half: bool = False) -> Any:
    """An address as a pointer to floats, or to bfloat16 numbers."""
    return lanes.builder.inttoptr(address, (HALF if half else FLOAT).as_pointer())


def zero(address: Any) -> Any:
    return ir.Constant(address.type, 0)
