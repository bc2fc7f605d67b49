"""Multiplication, addition and expressions, as rows of words.

Multiplication is written as in the data of Internalize_CoT_Step_by_Step: all numbers with their digits
reversed, the partial products one after the other, and the running sum in brackets after each but the first
and the last:

    5 6 3 2 * 7 4 3 4||5 5 5 6 1 + 0 0 6 4 9 0 ( 5 5 1 1 1 1 ) + … + 0 0 0 0 6 4 9 0 #### 5 5 6 0 8 2 0 1
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from internalize.tasks.text.problem import Problem, Problems

HIGH_DIGITS = 0.8
"""Out of distribution a digit is Binomial(9, 0.8) instead of uniform: high digits are common."""


def reversed_digits(number: int, places: int) -> str:
    """`12`, 4 → `2 1 0 0`."""
    return " ".join(reversed(f"{number:0{places}d}"))


def read_reversed(text: str) -> int:
    return int("".join(reversed(text.split())))


def draw_number(places: int, skewed: bool, source: random.Random) -> int:
    """A number of exactly so many digits."""
    while True:
        digits = [_digit(skewed, source) for _ in range(places)]
        if digits[-1] > 0 or places == 1:
            return sum(digit * 10**i for i, digit in enumerate(digits))


def _digit(skewed: bool, source: random.Random) -> int:
    if not skewed:
        return source.randrange(10)
    return sum(source.random() < HIGH_DIGITS for _ in range(9))


@dataclass(frozen=True)
class Multiplication:
    """a × b, a of `left` digits and b of `right` digits."""

    left: int
    right: int
    skewed: bool = False

    @property
    def name(self) -> str:
        return f"multiplication:{self.left}x{self.right}"

    def draw(self, source: random.Random) -> Problem:
        return self.problem(*(draw_number(n, self.skewed, source) for n in (self.left, self.right)))

    def problem(self, a: int, b: int) -> Problem:
        steps, total = [], 0
        for i, digit in enumerate(reversed(f"{b:0{self.right}d}")):
            places = self.left + 1 + i
            part = a * int(digit) * 10**i
            total += part
            words = reversed_digits(part, places)
            steps.append(f"+ {words}" if i else words)
            if 0 < i < self.right - 1:
                # a step of its own: a sum tells what was carried in the products before it
                steps.append(f"( {reversed_digits(total, places)} )")
        question = f"{reversed_digits(a, self.left)} * {reversed_digits(b, self.right)}"
        return Problem(question, tuple(steps), reversed_digits(a * b, self.left + self.right))

    def solve(self, question: str) -> str:
        a, b = (read_reversed(part) for part in question.split("*"))
        return reversed_digits(a * b, self.left + self.right)

    def key(self, question: str) -> str:
        return " * ".join(sorted(part.strip() for part in question.split("*")))

    def companions(self) -> Mapping[str, Problems]:
        return {
            "longer": replace(self, left=self.left + 1, right=self.right + 1),
            "digits": replace(self, skewed=True),
        }


@dataclass(frozen=True)
class Addition:
    """a + b of `places` digits each; a step says one digit of the sum and what is carried."""

    places: int
    skewed: bool = False

    @property
    def name(self) -> str:
        return f"addition:{self.places}"

    def draw(self, source: random.Random) -> Problem:
        a, b = (draw_number(self.places, self.skewed, source) for _ in range(2))
        digits = [[number // 10**i % 10 for i in range(self.places)] for number in (a, b)]
        steps, carry = [], 0
        for x, y in zip(*digits, strict=True):
            carry, digit = divmod(x + y + carry, 10)
            steps.append(f"{digit} {carry}")
        question = f"{reversed_digits(a, self.places)} + {reversed_digits(b, self.places)}"
        return Problem(question, tuple(steps), reversed_digits(a + b, self.places + 1))

    def solve(self, question: str) -> str:
        return reversed_digits(sum(read_reversed(part) for part in question.split("+")), self.places + 1)

    def key(self, question: str) -> str:
        return " + ".join(sorted(part.strip() for part in question.split("+")))

    def companions(self) -> Mapping[str, Problems]:
        return {"longer": replace(self, places=self.places + 1), "digits": replace(self, skewed=True)}


OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


@dataclass(frozen=True)
class Expressions:
    """Bracketed sums, differences and products modulo a number; a step says one operation and its result."""

    modulus: int
    operators: int

    @property
    def name(self) -> str:
        return f"expressions:mod{self.modulus}:{self.operators}"

    def draw(self, source: random.Random) -> Problem:
        steps: list[str] = []
        text, value = self._draw(self.operators, source, steps)
        return Problem(text.removeprefix("( ").removesuffix(" )"), tuple(steps), str(value))

    def _draw(self, operators: int, source: random.Random, steps: list[str]) -> tuple[str, int]:
        """A part with so many operators, and its value; the steps are said from the inside out."""
        if operators == 0:
            number = source.randrange(self.modulus)
            return str(number), number
        before = source.randrange(operators)
        left, x = self._draw(before, source, steps)
        right, y = self._draw(operators - 1 - before, source, steps)
        sign = source.choice(list(OPERATIONS))
        value = OPERATIONS[sign](x, y) % self.modulus
        steps.append(f"{x} {sign} {y} = {value}")
        return f"( {left} {sign} {right} )", value

    def solve(self, question: str) -> str:
        value, rest = self._read(f"( {question} )".split())
        assert not rest
        return str(value)

    def _read(self, words: list[str]) -> tuple[int, list[str]]:
        """The value of the part that the words begin with, and the words after it."""
        if words[0] != "(":
            return int(words[0]), words[1:]
        x, rest = self._read(words[1:])
        sign, rest = rest[0], rest[1:]
        y, rest = self._read(rest)
        return OPERATIONS[sign](x, y) % self.modulus, rest[1:]

    def key(self, question: str) -> str:
        return question

    def companions(self) -> Mapping[str, Problems]:
        return {"longer": replace(self, operators=self.operators + 2)}
