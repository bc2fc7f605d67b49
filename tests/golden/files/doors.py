"""A task of a user's own: which of three doors is open."""

from internalize import Semiautomaton, semiautomaton


def doors() -> Semiautomaton:
    return semiautomaton("doors", [[0, 1, 2], [1, 2, 0], [2, 2, 2]])
