"""Rounding up, as kernels lay out what they take."""


def up(size: int, step: int) -> int:
    """``size``, rounded up to a multiple of ``step``."""
    return -(-size // step) * step
