"""Regular languages as tasks: is the input a word of the language? A regular expression, or a file of a DFA.

`regex:(0|1)*11` asks whether the whole input matches. Its symbols are the characters that occur in it. There
are `|`, `*`, `+`, `?`, brackets, `.` for any symbol, `[ab]` for one of some, and `\\` before a character that
would mean something else. The automaton is made by Brzozowski's derivatives: the derivative of a language by a
symbol is what may follow that symbol, so languages are states; then it is made as small as possible.

A file in the text format of AT&T's FSM library and OpenFst (`.fsm` or `.att`) has one transition on each line,
`from to symbol`, and every accepting state on a line of its own; the first line begins in the initial state.
Where a transition is missing the word is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from internalize.configs.files import read_text
from internalize.errors import BadInput, require
from internalize.tasks.semiautomaton import Semiautomaton, semiautomaton

MOST_STATES = 2_000
"""A regular expression can need a state for every set of its places."""
SPECIAL = "|*+?()[].\\"
FOREIGN = "^${}"
"""Signs of other expressions, which have no meaning here; and - inside [ ]."""


@dataclass(frozen=True)
class Language:
    """A regular language: `nothing`, `empty` (the empty word), a `symbol`, or made of others."""

    kind: str
    symbol: str = ""
    parts: tuple[Language, ...] = ()

    @property
    def has_empty_word(self) -> bool:
        if self.kind == "concatenation":
            return all(part.has_empty_word for part in self.parts)
        if self.kind == "union":
            return any(part.has_empty_word for part in self.parts)
        return self.kind in ("empty", "repetition")


NOTHING, EMPTY = Language("nothing"), Language("empty")


def union(parts: tuple[Language, ...]) -> Language:
    """Order and repetition do not count, so that equal languages are mostly equal objects."""
    flat: set[Language] = set()
    for part in parts:
        flat |= set(part.parts) if part.kind == "union" else {part}
    flat -= {NOTHING}
    if len(flat) <= 1:
        return flat.pop() if flat else NOTHING
    return Language("union", parts=tuple(sorted(flat, key=repr)))


def concatenation(first: Language, second: Language) -> Language:
    if NOTHING in (first, second):
        return NOTHING
    if EMPTY in (first, second):
        return second if first == EMPTY else first
    if first.kind == "concatenation":  # brackets to the right, always
        return concatenation(first.parts[0], concatenation(first.parts[1], second))
    return Language("concatenation", parts=(first, second))


def repetition(part: Language) -> Language:
    if part.kind in ("repetition", "empty", "nothing"):
        return part if part.kind == "repetition" else EMPTY
    return Language("repetition", parts=(part,))


@cache
def derivative(language: Language, symbol: str) -> Language:
    """What may follow the symbol in words of the language that begin with it."""
    if language.kind == "symbol":
        return EMPTY if language.symbol == symbol else NOTHING
    if language.kind == "union":
        return union(tuple(derivative(part, symbol) for part in language.parts))
    if language.kind == "repetition":
        return concatenation(derivative(language.parts[0], symbol), language)
    if language.kind == "concatenation":
        first, second = language.parts
        after = concatenation(derivative(first, symbol), second)
        return union((after, derivative(second, symbol))) if first.has_empty_word else after
    return NOTHING


class Parser:
    """Reads a regular expression from left to right."""

    def __init__(self, text: str, field: str) -> None:
        self.text, self.field, self.at = text, field, 0
        escaped = re.findall(r"\\(.)", text)
        self.alphabet = sorted({c for c in text if c not in SPECIAL} | set(escaped))
        require(bool(self.alphabet), field, f"regex:{text} names no symbol")
        good = not any(c.isspace() for c in self.alphabet)
        require(good, field, "a regular expression must not have spaces: symbols are printed between them")

    def parse(self) -> Language:
        found = self.alternatives()
        require(self.at == len(self.text), self.field, f"regex:{self.text}: a ) too many at {self.at + 1}")
        return found

    def alternatives(self) -> Language:
        found = [self.sequence()]
        while self.next() == "|":
            self.at += 1
            found.append(self.sequence())
        return union(tuple(found))

    def sequence(self) -> Language:
        found = EMPTY
        while self.next() not in ("", "|", ")"):
            part = self.single()
            while self.next() in ("*", "+", "?") and self.next():
                sign = self.take()
                again = repetition(part)
                part = {"*": again, "+": concatenation(part, again), "?": union((part, EMPTY))}[sign]
            found = concatenation(found, part)
        return found

    def single(self) -> Language:
        c = self.take()
        if c == "(":
            found = self.alternatives()
            self.expect(")")
            return found
        if c == "[":
            chosen = [self.character(FOREIGN + "-")]
            while self.next() not in ("", "]"):
                chosen.append(self.character(FOREIGN + "-"))
            self.expect("]")
            return union(tuple(Language("symbol", one) for one in chosen))
        if c == ".":
            return union(tuple(Language("symbol", one) for one in self.alphabet))
        self.at -= 1
        return Language("symbol", self.character())

    def character(self, foreign: str = FOREIGN) -> str:
        """foreign: signs that mean more elsewhere; whoever writes them would be surprised to get letters."""
        c = self.take()
        escaped = c == "\\"
        c = self.take() if escaped else c
        where = f"regex:{self.text}: {c} at {self.at}"
        if escaped:
            require(not c.isalnum(), self.field, f"{where} needs no \\; classes such as \\d are not known here")
            return c
        require(c not in SPECIAL, self.field, f"{where} has nothing to stand on")
        told = "the whole input must match, and every symbol is named by itself"
        require(c not in foreign, self.field, f"{where} is not known here: {told}; as a symbol it is \\{c}")
        return c

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        require(self.at < len(self.text), self.field, f"regex:{self.text} ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def expect(self, sign: str) -> None:
        require(self.next() == sign, self.field, f"regex:{self.text}: a {sign} is missing at {self.at + 1}")
        self.at += 1


def from_expression(text: str, field: str) -> Semiautomaton:
    """The smallest automaton that answers whether the whole input matches."""
    parser = Parser(text, field)
    start, symbols = parser.parse(), parser.alphabet
    number, rows = {start: 0}, []
    for language in (waiting := [start]):  # grows while it is gone through
        row = []
        for symbol in symbols:
            following = derivative(language, symbol)
            if following not in number:
                number[following] = len(number)
                waiting.append(following)
                require(len(number) <= MOST_STATES, field, f"regex:{text} needs more than {MOST_STATES} states")
            row.append(number[following])
        rows.append(row)
    rows, accepting = smallest(rows, [language.has_empty_word for language in number])
    names = [f"s{q}" for q in range(len(rows))]
    return semiautomaton(f"regex:{text}", rows, names, symbols, accepting=accepting)


def smallest(rows: list[list[int]], accepts: list[bool]) -> tuple[list[list[int]], list[int]]:
    """Moore's way: states stay together as long as no symbol leads them apart. State 0 stays state 0."""
    group = [int(accept != accepts[0]) for accept in accepts]
    while True:
        seen: dict[tuple[int, ...], int] = {}
        finer = [
            seen.setdefault((group[q], *(group[target] for target in row)), len(seen))
            for q, row in enumerate(rows)
        ]
        if len(seen) == len(set(group)):
            break
        group = finer
    first = {g: q for q, g in reversed(list(enumerate(finer)))}
    merged = [[finer[target] for target in rows[first[g]]] for g in range(len(seen))]
    return merged, [g for g in range(len(seen)) if accepts[first[g]]]


def read_fsm(path: Path, field: str) -> Semiautomaton:
    """Read and check a file in AT&T's format; every problem is one line that names the file and its line."""
    where = f"{field} ({path.name})"
    targets: dict[str, dict[str, str]] = {}
    accepting: list[str] = []
    for count, line in enumerate(read_text(path, field).splitlines(), start=1):
        words = line.split()
        at = f"{where} line {count}"
        if len(words) in (1, 2):
            good = len(words) == 1 or _is_number(words[1])
            require(good, at, f"must be `from to symbol` or an accepting state, got {line!r}")
            accepting.append(words[0])
            targets.setdefault(words[0], {})  # the first line begins in the initial state, whatever it says
        elif len(words) in (3, 4):
            source, target, symbol = words[:3]
            good = len(words) == 3 or _is_number(words[3])
            require(good, at, "has an output: only acceptors are read, not transducers")
            require(
                symbol not in ("<eps>", "@0@"), at, "moves without a symbol: make the automaton deterministic"
            )
            for state in (source, target):
                targets.setdefault(state, {})
            known = targets[source].get(symbol, target)
            require(known == target, at, f"from {source} the symbol {symbol} leads to {known} already")
            targets[source][symbol] = target
        else:
            require(not words, at, f"must be `from to symbol` or an accepting state, got {line!r}")
    require(any(targets.values()), where, "has no transition")
    require(bool(accepting), where, "has no accepting state: a line with its name alone")
    complete(targets)
    try:
        return semiautomaton(path.stem, targets, accepting=accepting)
    except BadInput as error:
        raise BadInput(where, str(error)) from None


def complete(targets: dict[str, dict[str, str]]) -> None:
    """Symbols in the same order everywhere; what is missing leads to a state that is never left."""
    symbols = sorted({symbol for row in targets.values() for symbol in row})
    dead = "dead"
    while dead in targets:
        dead += "'"
    if any(len(row) < len(symbols) for row in targets.values()):
        targets[dead] = {}
    for state, row in targets.items():
        targets[state] = {symbol: row.get(symbol, dead) for symbol in symbols}


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
