"""Problems in words against their oracles, published rows, and splits that share nothing."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from internalize.errors import BadInput
from internalize.tasks.text import draw_splits, find_problems
from internalize.tasks.text.arithmetic import Multiplication

NAMES = ["multiplication:3x2", "addition:4", "expressions:mod11:5", "reachability:11:4", "semiautomaton:S3:6"]
NAMES += ["semiautomaton:regex:(0|1)*11:6"]  # whose answers are yes and no


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_the_oracles_and_so_are_the_companions(name: str) -> None:
    problems = find_problems(name)
    for family in (problems, *problems.companions().values()):
        source = random.Random(1)
        for _ in range(100):
            problem = family.draw(source)
            assert problem.answer == family.solve(problem.question)
            assert problem.question.split() == problem.question.split(" ")  # words between single spaces


@pytest.mark.parametrize(
    ("a", "b", "line"),
    [
        (2365, 4347, "5 6 3 2 * 7 4 3 4||5 5 5 6 1 + 0 0 6 4 9 0 ( 5 5 1 1 1 1 ) + 0 0 5 9 0 7 0 "
                     "( 5 5 6 0 2 8 0 ) + 0 0 0 0 6 4 9 0 #### 5 5 6 0 8 2 0 1"),
        (3719, 3349, "9 1 7 3 * 9 4 3 3||1 7 4 3 3 + 0 6 7 8 4 1 ( 1 3 2 2 8 1 ) + 0 0 7 5 1 1 1 "
                     "( 1 3 9 7 9 2 1 ) + 0 0 0 7 5 1 1 1 #### 1 3 9 4 5 4 2 1"),
    ],
)  # fmt: skip
def test_multiplication_is_written_as_published(a: int, b: int, line: str) -> None:
    """Two rows of Internalize_CoT_Step_by_Step's own 4 × 4 files."""
    problem = Multiplication(4, 4).problem(a, b)
    assert f"{problem.question}||{' '.join(problem.steps)} #### {problem.answer}" == line


def test_steps_follow_from_one_another() -> None:
    problem = find_problems("expressions:mod11:6").draw(random.Random(3))
    values = []
    for step in problem.steps:
        x, sign, y, _, value = step.split()
        assert eval(f"({x}) {sign} ({y})") % 11 == int(value)
        values.append(value)
    assert len(values) == 6
    assert values[-1] == problem.answer
    graph = find_problems("reachability:8:3").draw(random.Random(3))
    edges = graph.question.partition(" : ")[0].split(" , ")
    start = graph.question.partition(" : ")[2].split()[0]
    for before, after in zip([start, *graph.steps], graph.steps, strict=False):
        assert f"{before} > {after}" in edges
    addition = find_problems("addition:3").draw(random.Random(3))
    digits = [step.split()[0] for step in addition.steps]
    assert addition.answer.split() == [*digits, addition.steps[-1].split()[1]]


def local_rules(question: str) -> dict[str, str]:
    """What somebody would answer who never follows an edge from the start."""
    graph, _, rest = question.partition(" : ")
    start, asked = rest.partition(" ? ")[::2]
    edges = [edge.split(" > ") for edge in graph.split(" , ")]
    words, candidates = graph.split(), asked.split()
    sources, targets = ([edge[i] for edge in edges] for i in (0, 1))
    before = {node: [a for a, b in edges if b == node] or [node] for node in candidates}
    choose = {
        "fewest edges out": sources.count,
        "fewest edges in": targets.count,
        "mentioned first": words.index,
        "asked first": candidates.index,
        "smallest number": lambda node: int(node[1:]),
        "number near the start's": lambda node: abs(int(node[1:]) - int(start[1:])),
        "near the start in the list": lambda node: abs(words.index(node) - words.index(start)),
        "busiest predecessor": lambda node: -sum(words.count(other) for other in before[node]),
        "predecessor mentioned first": lambda node: min(map(words.index, before[node])),
    }
    return {name: min(candidates, key=rule) for name, rule in choose.items()}


@pytest.mark.parametrize("name", ["reachability:10:3", "reachability:14:2", "reachability:8:3"])
def test_no_local_rule_tells_which_node_can_be_reached(name: str) -> None:
    """A rule that looks at the candidates alone is right as often as a coin (within 5 standard errors)."""
    problems, source = find_problems(name), random.Random(5)
    drawn = [problems.draw(source) for _ in range(2000)]
    said = [(rule, node == row.answer) for row in drawn for rule, node in local_rules(row.question).items()]
    right = Counter(rule for rule, good in said if good)
    assert len(right) == 9
    assert all(abs(count / 2000 - 0.5) < 0.056 for count in right.values()), right
    for row in drawn[:200]:
        words, asked = row.question.split(), row.question.split()[-2:]
        assert [(words.count(node), f"{node} >" in row.question) for node in asked] == [(2, False)] * 2


def test_factors_exchanged_never_stand_on_both_sides() -> None:
    problems = find_problems("multiplication:1x1")  # 100 questions: without care the sides would overlap
    sides = draw_splits(problems, {"test": 15, "train": 60}, seed=0)
    keys = {side: {problems.key(row.question) for row in rows} for side, rows in sides.items()}
    assert len(sides["train"]) == 60
    assert not keys["test"] & keys["train"]
    questions = {row.question for row in sides["train"]}
    assert len(questions) == 60
    assert any(" * ".join(reversed(q.split(" * "))) in questions - {q} for q in questions)
    with pytest.raises(BadInput, match="too few problems: only 4 of 5"):
        draw_splits(find_problems("semiautomaton:C2:2"), {"train": 5}, seed=0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("multiplikation:4x4", r"unknown problems .*did you mean 'multiplication'\?"),
        ("multiplication:4", "must have the form multiplication:4x4"),
        ("addition:0", "numbers lie in 1…100"),
        ("reachability:7:3", "two paths of 3 hops need at least 8 nodes"),
        ("semiautomaton:C3", "must have the form semiautomaton:C3:8"),
        ("semiautomaton:Z3:4", "unknown task 'Z3'"),
    ],
)
def test_a_wrong_name_is_refused_with_what_would_be_right(name: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        find_problems(name)
