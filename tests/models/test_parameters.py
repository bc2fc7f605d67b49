"""The hash of weights, against bytes written out by hand."""

from __future__ import annotations

import hashlib
import struct

import torch

from internalize.models.parameters import digest_of


def test_a_digest_is_that_of_names_and_bytes_in_their_order() -> None:
    W = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True).t()  # not contiguous: read by columns
    b = torch.tensor([0.25], dtype=torch.float64)
    written = b"W" + struct.pack("<4f", 1.0, 0.5, -2.0, 3.0) + b"b" + struct.pack("<d", 0.25)
    assert digest_of([("W", W), ("b", b)]) == hashlib.blake2b(written, digest_size=16).hexdigest()
