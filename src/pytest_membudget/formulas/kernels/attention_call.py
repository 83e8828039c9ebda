"""One call of ``scaled_dot_product_attention``, as its kernels see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """Sizes of the operands; widths are of a head, keys and values may have fewer heads than queries."""

    batch: int
    heads: int
    key_heads: int
    value_heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    element_bytes: int
    has_mask: bool = False
    has_dropout: bool = False

    @property
    def matrices(self) -> int:
        """Score matrices: one a query head and sequence."""
        return self.batch * self.heads

    @property
    def rows(self) -> int:
        """Rows of scores: one a query."""
        return self.matrices * self.queries

    @property
    def is_half(self) -> bool:
        """In 16 bits."""
        return self.element_bytes < 4
