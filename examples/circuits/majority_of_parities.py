"""A circuit in Python: the majority of three parities, with the full parities and their prefixes as hints.

    internalize hints --circuit examples/circuits/majority_of_parities.py:circuit --preset laptop

The file is kept with the run, so it stands alone.
"""

from internalize.tasks.circuits import Circuit, Gate

GROUPS = ((1, 2, 3, 4, 5), (6, 7, 8, 9, 10), (11, 12, 13, 14, 15))


def circuit() -> Circuit:
    gates = []
    for g, group in enumerate(GROUPS, start=1):
        for t, bit in enumerate(group, start=1):
            before = (f"p{g}.{t - 1}",) if t > 1 else ()
            gates.append(Gate(f"p{g}.{t}", "xor", (*before, f"x{bit}")))
    label = Gate("y", "majority", tuple(f"p{g}.{len(group)}" for g, group in enumerate(GROUPS, start=1)))
    return Circuit("majority-of-parities", 15, (*gates, label), "y")
