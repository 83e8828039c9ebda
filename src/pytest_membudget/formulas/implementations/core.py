"""What a call of scaled dot-product attention is, whichever kernel takes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """One call: local heads ``a`` and ``g``, widths ``d`` and ``e`` are sizes of the tape."""

    queries: str = "s"
    keys: str = "s"
    is_causal: bool = True
    has_mask: bool = False
    """A mask tensor is given: windows, padding, T5's positions."""
    dropout: float = 0.0
    repeats_heads: bool = True
    """Where there is a mask, transformers' sdpa repeats shared heads itself; Falcon's own call does not."""
    by_heads: bool = False
    """Queries lie as [b, a, s, d] (they were joined): so does what flash and cuDNN give, and it is copied."""
    is_eager: bool = False
    """The family's own code has it no other way."""
    softcap: bool = False
    """Scores are squeezed by a tanh (Gemma 2)."""
