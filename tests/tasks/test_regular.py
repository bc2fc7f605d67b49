"""Regular languages against Python's own regular expressions on every short word; and tasks with outputs."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize.constructions import build_general
from internalize.curricula import find_curriculum
from internalize.errors import BadInput
from internalize.sequences import Renderer, vocabulary_of
from internalize.tasks import Semiautomaton, parse_task
from internalize.tasks.diagram import draw_diagram
from internalize.tasks.inputs import all_inputs
from internalize.tasks.names import data_of, task_of
from internalize.tasks.semiautomaton import semiautomaton

DIV3 = {
    "r0": {"0": "r0", "1": "r1"},
    "r1": {"0": "r2", "1": "r0"},
    "r2": {"0": "r1", "1": "r2"},
}
"""The remainder modulo 3 of a number in binary, highest digit first."""


def expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(["a", "b", "[ab]", "."]),
        lambda part: st.one_of(
            st.tuples(part, part).map("".join),
            st.tuples(part, part).map(lambda two: f"({two[0]}|{two[1]})"),
            st.tuples(part, st.sampled_from("*+?")).map(lambda two: f"({two[0]}){two[1]}"),
        ),
        max_leaves=7,
    )


def answers(task: Semiautomaton, length: int) -> dict[str, str]:
    """What the task says of every word of that length."""
    (symbols,) = all_inputs(task.symbols, length, task.symbols**length)
    said = task.trace(symbols)[:, -1].tolist()
    words = ("".join(task.symbol_names[s] for s in row) for row in symbols.tolist())
    return {word: task.state_names[q] for word, q in zip(words, said, strict=True)}


@given(expressions())
def test_an_expression_says_what_python_says(text: str) -> None:
    task = parse_task(f"regex:a?{text}")
    for length in range(1, 7):
        for word, said in answers(task, length).items():
            assert (said == "yes") == (re.fullmatch(f"a?{text}", word) is not None), word


@given(expressions())
def test_no_two_states_do_the_same(text: str) -> None:
    """Some word that tells them apart has fewer symbols than there are states."""
    task = parse_task(f"regex:{text}b")
    assert task.output is not None
    behaviours = set()
    for state in range(task.inner_states):
        words = (w for n in range(task.inner_states) for w in product(range(task.symbols), repeat=min(n, 9)))
        said = []
        for word in words:
            q = state
            for symbol in word:
                q = int(task.table[q, symbol])
            said.append(int(task.output[q]))
            if len(said) > 2000:
                break
        behaviours.add(tuple(said))
    assert len(behaviours) == task.inner_states


def test_sizes_that_are_known() -> None:
    found = [
        parse_task(f"regex:{text}").inner_states for text in ("(0|1)*11", "(0|1)*1(0|1)(0|1)", "0*", r"a\*b")
    ]
    assert found == [3, 8, 1, 5]
    assert parse_task(r"regex:a\*b").symbol_names == ("*", "a", "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [("(a", "a ) is missing"), ("a)", "a ) too many at 2"), ("*a", "has nothing to stand on"),
     ("", "names no symbol"), ("a b", "must not have spaces"), ("[ab", "a ] is missing"),
     ("a|b\\", "ends too early"),
     ("(a|b)*a" + "(a|b)" * 11, "needs more than 2000 states")],
)  # fmt: skip
def test_a_bad_expression_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadInput) as problem:
        parse_task(f"regex:{text}")
    assert problem.value.field == "task"
    assert words in problem.value.message


def test_a_file_of_att_is_the_expression_that_it_means(tmp_path: Path) -> None:
    path = tmp_path / "ends_in_11.fsm"
    path.write_text("0 0 a\n0 1 b\n1 2 b\n1 0 a 0.5\n2\n2 2 b\n2 0 a\n")
    expected = parse_task("regex:(a|b)*bb")
    task = parse_task(str(path))
    assert (task.name, task.state_names) == ("ends_in_11", ("0", "1", "2", "no", "yes"))
    assert torch.equal(task.table, expected.table)
    partial = tmp_path / "ab.att"
    partial.write_text("start middle a\nmiddle end b\nend\n")
    assert answers(parse_task(str(partial)), 2) == {"aa": "no", "ab": "yes", "ba": "no", "bb": "no"}


def test_the_state_that_is_never_left_takes_no_name_of_the_users(tmp_path: Path) -> None:
    path = tmp_path / "taken.fsm"
    path.write_text("dead' B a\nB dead' a\nB B b\nB\n")
    task = parse_task(str(path))
    assert task.state_names[:3] == ("dead'", "B", "dead")
    assert answers(task, 2) == {"aa": "no", "ab": "yes", "ba": "no", "bb": "no"}


def test_the_first_line_begins_in_the_initial_state_whatever_it_says(tmp_path: Path) -> None:
    path = tmp_path / "even.fsm"
    path.write_text("0\n1 0 a\n0 1 a\n")
    assert [answers(parse_task(str(path)), length) for length in (1, 2)] == [{"a": "no"}, {"aa": "yes"}]


def test_an_escaped_backslash_escapes_nothing() -> None:
    assert parse_task(r"regex:\\|a").symbol_names == ("\\", "a")


@pytest.mark.parametrize(
    ("text", "words"),
    [("0 1 a\n0 2 a\n1\n", "line 2: from 0 the symbol a leads to 1 already"),
     ("0 1 a\n", "has no accepting state"),
     ("0 1 a b\n1\n", "line 1: has an output"), ("1\n", "has no transition"),
     ("0 1 <eps>\n1\n", "without a symbol"),
     ("0 1 a\n1 1 a\nlocked open\n", "line 3: must be `from to symbol` or an accepting state"),
     ("0 1 a 1 2\n", "line 1: must be `from to symbol`")],
)  # fmt: skip
def test_a_bad_file_names_the_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.fsm").write_text(text)
    with pytest.raises(BadInput) as problem:
        parse_task(str(tmp_path / "bad.fsm"))
    assert words in str(problem.value)


def test_the_chain_shows_states_and_the_answer_the_output() -> None:
    task = semiautomaton("div3", DIV3, accepting=["r0"])
    for length in (1, 2, 5):
        for word, said in answers(task, length).items():
            assert said == ("yes" if int(word, 2) % 3 == 0 else "no")
    symbols = torch.tensor([[1, 1, 0, 1]])  # thirteen
    renderer = Renderer(vocabulary_of(task, 4, False), 4, task.initial_state)
    curriculum, _ = find_curriculum("left", 4, {})
    shown = [renderer.text(renderer.answer(task.trace(symbols), curriculum.shown(stage))) for stage in (1, 4)]
    assert shown == [["q:r1 q:r0 q:r0 q:no EOS"], ["q:no EOS"]]
    assert (
        int(renderer.read(renderer.answer(task.trace(symbols), (4,))).final_state) == task.trace(symbols)[0, -1]
    )
    construction = build_general(task, 4)
    (every,) = all_inputs(2, 4, 16)
    assert torch.equal(construction.answer(every), task.trace(every)[:, -1])


def test_ways_to_write_the_same_task() -> None:
    by_name = semiautomaton("t", DIV3, initial_state="r1", outputs={"r0": "zero", "r1": "one", "r2": "two"})
    rows: list[list[int | str]] = [["r0", 1], [2, "r0"], [1, 2]]
    mixed = semiautomaton("t", rows, list(DIV3), ["0", "1"], 1, outputs=["zero", "one", "two"])
    numbered = semiautomaton("t", {0: {"a": 0, "b": 1}, 1: {"b": 0, "a": 2}, 2: {"a": 1, "b": 2}})
    again = task_of(data_of(by_name))
    for task in (mixed, again):
        assert torch.equal(task.table, by_name.table)
        assert task.output is not None
        assert by_name.output is not None
        assert torch.equal(task.output, by_name.output)
        assert (task.state_names, task.initial_state) == (by_name.state_names, by_name.initial_state)
    assert torch.equal(numbered.table, by_name.table[:3])
    texts = [text.get_text() for text in draw_diagram(by_name).axes[0].texts]
    assert {"r0/zero", "r1/one", "r2/two"} <= set(texts)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"outputs": ["a", "b"]}, "outputs: must be 3"),
     ({"outputs": [["a"], "b", "c"]}, r"outputs\[0\]: must be a word without spaces, got \['a'\]"),
     ({"outputs": {"r0": ["a"], "r1": "b", "r2": "c"}}, r"outputs\[0\]: must be a word"),
     ({"state_names": [["r0"], "r1", "r2"]}, r"states\[0\]: must be a word"),
     ({"outputs": {"r0": "a"}}, "outputs: has nothing for the state r1"),
     ({"accepting": ["r9"]}, "accepting: there is no state 'r9'"),
     ({"outputs": ["r1", "a", "a"]}, "names of states too"),
     ({"accepting": ["r0"], "outputs": ["a"] * 3}, "must be left out"),
     ({"initial_state": "r7"}, "there is no state"),
     ({"rows": DIV3 | {"r2": {"0": "r1"}}}, r"transitions\[r2\]: has nothing for the symbol 1"),
     ({"rows": DIV3 | {"r2": {"0": "r1", "1": "x"}}}, r"transitions\[2\]\[1\]: there is no state 'x'")],
)  # fmt: skip
def test_what_does_not_fit_is_named(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"name": "bad", "rows": DIV3}
    with pytest.raises(BadInput, match=words):
        semiautomaton(**(arguments | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["[0-2]*", "^(0|1)*11$", "(0|1){3}", r"\d+", r"a\b"])
def test_signs_of_other_expressions_are_no_letters(text: str) -> None:
    with pytest.raises(BadInput, match="known here"):
        parse_task(f"regex:{text}")


def test_signs_can_be_meant_as_letters() -> None:
    assert parse_task(r"regex:(\^|\-|[\-\$])*").symbol_names == ("$", "-", "^")
    assert parse_task("regex:a-b").symbol_names == ("-", "a", "b")


def test_states_that_are_called_by_numbers(tmp_path: Path) -> None:
    """In YAML 1 is a number. Of states 1, 2 and 3 it names the first, and does not count to the second."""
    (tmp_path / "ring.yaml").write_text(
        "transitions: {1: {a: 2}, 2: {a: 3}, 3: {a: 1}}\ninitial_state: 1\naccepting: [2]\n"
    )
    task = parse_task(str(tmp_path / "ring.yaml"))
    assert task.state_names[task.initial_state] == "1"
    said = task.trace(torch.zeros(1, 1, dtype=torch.int64))[0, -1]
    assert task.state_names[said] == "yes"


def test_the_same_task_answers_in_the_same_words(tmp_path: Path) -> None:
    """accepting [0] and accepting [1] have the same table: the first answer to occur is numbered first."""
    tasks = []
    for chosen in (0, 1):
        rows = {"transitions": [[0, 1], [1, 0]], "accepting": [chosen]}
        (tmp_path / f"accepts-{chosen}.json").write_text(json.dumps(rows))
        tasks.append(parse_task(str(tmp_path / f"accepts-{chosen}.json")))
    assert torch.equal(tasks[0].table, tasks[1].table)
    assert not tasks[0].is_same_as(tasks[1])
    assert parse_task("C2").is_same_as(parse_task("C_2"))
    assert not parse_task("C2").is_same_as(tasks[0])
