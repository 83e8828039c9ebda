"""Number types and their sizes, by the names that configurations use."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from ..errors import UsageMistake

#: bits an element; names as torchtitan and Hugging Face write them
_BITS = {
    "fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int64": 64, "int32": 32,
    "bool": 8, "nf4": 4, "fp4": 4, "int4": 4,
}  # fmt: skip
_ALIASES = {
    "float64": "fp64", "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16",
    "half": "fp16", "float8": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "uint8": "int8",
}  # fmt: skip


@cache
def number_type(name: str) -> str:
    """The one name of a number type, from any of its names. Raises ``UsageMistake`` for an unknown one."""
    plain = name.removeprefix("torch.").lower()
    plain = _ALIASES.get(plain, plain)
    if plain not in _BITS:
        raise UsageMistake(f"{name!r} is no number type; write one of {', '.join(_BITS)}")
    return plain


@cache
def element_bytes(name: str) -> Fraction:
    """Bytes an element of the number type ``name``: a half for 4-bit types, without their scales."""
    return Fraction(_BITS[number_type(name)], 8)


def bytes_for(elements: int, name: str) -> int:
    """Whole bytes that ``elements`` of the number type ``name`` take, rounded up."""
    return -(-elements * _BITS[number_type(name)] // 8)
