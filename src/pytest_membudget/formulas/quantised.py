"""What bitsandbytes stores for a quantised weight, tensor by tensor.

Read in bitsandbytes 0.50.2: ``Linear4bit`` and ``Linear8bitLt`` in bitsandbytes/nn/modules.py,
``quantize_4bit``, ``quantize_blockwise``, ``get_4bit_type`` and ``int8_vectorwise_quant`` in
bitsandbytes/functional.py. Every weight has separate tables. 4-bit storage: ``bnb_4bit_quant_storage``'s
default, uint8.
"""

from __future__ import annotations

from math import prod
from typing import Final

from .parameter_tensors import Quantised

_BLOCK: Final = 64
"""Elements that share a scale in 4-bit storage (``blocksize``'s default)."""
_NESTED_BLOCK: Final = 256
"""Scales that share a scale, with double quantisation."""
_FP32: Final = 4
_TABLE_4_BIT: Final = 16
"""Values of a 4-bit type (``QuantState.code``)."""
_TABLE_8_BIT: Final = 256
"""Values of the 8-bit type that scales are quantised to (``state2.code``)."""


def quantised_storages(shape: tuple[int, ...], base: Quantised) -> tuple[tuple[str, int], ...]:
    """Name and bytes of each tensor that is kept for a weight of ``shape`` [out, in], stored as ``base``."""
    elements = prod(shape)
    if base == "int8":
        return ("CB", elements), ("SCB", shape[0] * _FP32)
    packed = ("packed", -(-elements // 2))
    blocks = -(-elements // _BLOCK)
    code = ("code", _TABLE_4_BIT * _FP32)
    if base != "nf4-double":
        return packed, ("absmax", blocks * _FP32), code
    nested = -(-blocks // _NESTED_BLOCK)
    return (
        packed,
        ("absmax", blocks),
        code,
        ("nested absmax", nested * _FP32),
        ("nested code", _TABLE_8_BIT * _FP32),
        ("offset", _FP32),
    )


def quantised_bytes(shape: tuple[int, ...], base: Quantised) -> int:
    """All of them together: NF4 takes 4.5 bits an element and 64 bytes, with double quantisation 4.127."""
    return sum(size_bytes for _, size_bytes in quantised_storages(shape, base))
