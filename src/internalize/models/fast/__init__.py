"""The fast CPU path: the plain path's numbers without autograd, over buffers that are used again.

    step = FastStep(model, gradient, precision="fp32", threads=1)     # called like PlainStep
    decoder = FastDecoder(model, batch)                               # prefill, then append token by token

Only this package and `internalize.models.kernels` import numba.
"""

from internalize.models.config import Precision
from internalize.models.fast.decoder import FastDecoder
from internalize.models.fast.step import FastStep

__all__ = ["FastDecoder", "FastStep", "Precision"]
