"""Memory seen both by torch (for products) and by numba (for what lies between them)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from internalize.models.step import Precision


def operand_type(precision: Precision) -> torch.dtype:
    """Of what products read."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def as_array(tensor: Tensor) -> Any:
    """The same memory for numba, which sees bfloat16 as uint16."""
    if tensor.dtype == torch.bfloat16:
        return tensor.detach().view(torch.int16).numpy().view(np.uint16)
    return tensor.detach().numpy()


class Buffer:
    """A tensor and the array over its memory; `rows` gives the first ones of both."""

    __slots__ = ("array", "tensor")

    def __init__(self, tensor: Tensor, array: Any = None) -> None:
        self.tensor = tensor
        self.array = as_array(tensor) if array is None else array

    @classmethod
    def zeros(cls, *shape: int, dtype: torch.dtype = torch.float32) -> Buffer:
        return cls(torch.zeros(shape, dtype=dtype))

    def rows(self, count: int) -> Buffer:
        return Buffer(self.tensor[:count], self.array[:count])
