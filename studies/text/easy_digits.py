"""Training rows of multiplication, easy ones among them: half of the second number's digits are only 0 or 1.

A product that is not written any more is then often nothing, or the first number itself, and the digits of the
answer hang on it little by little instead of all at once. All other digits of all rows are uniform. Questions
of the files that are named last are left out.

    python studies/text/easy_digits.py data/mult3/easy.jsonl 3 80800 0 data/mult3/{valid,test}.jsonl
    python studies/text/easy_digits.py data/mult4/easy.jsonl 4 40400 40400 data/mult4/{valid,test}.jsonl

writes 80,800 rows for 3 × 3, all of them easy, and as many for 4 × 4, half of them.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from internalize.tasks.text.arithmetic import Multiplication, draw_number

EASY = 0.5


def second_number(places: int, source: random.Random) -> int:
    """Of exactly so many digits."""
    digits = [source.randrange(2) if source.random() < EASY else source.randrange(10) for _ in range(places)]
    digits[-1] = digits[-1] or source.randrange(1, 10)
    return sum(digit * 10**i for i, digit in enumerate(digits))


def rows(places: int, easy: int, others: int, left_out: set[str]) -> list[dict[str, object]]:
    """The easy ones first; no question twice."""
    problems, source = Multiplication(places, places), random.Random(0)
    found: dict[str, dict[str, object]] = {}
    while len(found) < easy + others:
        a = draw_number(places, False, source)
        b = second_number(places, source) if len(found) < easy else draw_number(places, False, source)
        one = problems.problem(a, b)
        if problems.key(one.question) not in left_out:
            found[one.question] = {"question": one.question, "steps": list(one.steps), "answer": one.answer}
    return list(found.values())


if __name__ == "__main__":
    out, places, easy, others, *beside = sys.argv[1:]
    problems = Multiplication(int(places), int(places))
    lines = [line for name in beside for line in Path(name).read_text(encoding="utf-8").splitlines()]
    taken = {problems.key(json.loads(line)["question"]) for line in lines}
    made = rows(int(places), int(easy), int(others), taken)
    Path(out).write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
