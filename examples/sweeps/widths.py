"""Does width help at a fixed size of heads? A sweep made in Python, where one field is computed from another.

internalize sweep examples/sweeps/widths.py:WIDTHS --dry-run
internalize collect examples/sweeps/widths.py:WIDTHS
"""

from internalize.sweeps import sweep_of

HEAD_SIZE = 2
SIZES = [16, 32, 64]

WIDTHS = sweep_of(
    "widths",
    "chain",
    {"task": "C2", "horizon": 6, "method": "left", "iterations": 6_000, "model.depth": 1, "optimizer.lr": 1e-3},
    zipped={"model.width": SIZES, "model.heads": [width // HEAD_SIZE for width in SIZES]},
    seeds=5,
)
