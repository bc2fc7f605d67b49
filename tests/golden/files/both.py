"""A circuit of a user's own: two parities, and whether both are one."""

from internalize.tasks.circuits import Circuit, Gate


def circuit() -> Circuit:
    gates = (Gate("a", "xor", ("x1", "x2", "x3")), Gate("b", "xor", ("x4", "x5")), Gate("y", "and", ("a", "b")))
    return Circuit("both", 6, gates, "y")
