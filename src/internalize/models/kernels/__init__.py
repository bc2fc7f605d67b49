"""CPU kernels compiled by numba: fused attention for small heads, and the row-wise parts between products.

Imported only by `internalize.models.fast`, so that the package itself does not need numba at import.
"""
