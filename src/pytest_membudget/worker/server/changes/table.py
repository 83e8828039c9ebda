"""The changes by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .checkpointing import checkpoint_blocks
from .chunked_cross_entropy import chunk_cross_entropy
from .contract import Apply
from .eight_bit_states import use_eight_bits
from .expandable_segments import use_expandable_segments
from .half_batch import halve_batch
from .optimizer_options import use_fused, use_single_tensor
from .step_in_backward import step_in_backward

#: The names are those of ``advice.changes.CHANGES``.
APPLY: Final[Mapping[str, Apply]] = {
    "checkpointing": checkpoint_blocks,
    "chunked_cross_entropy": chunk_cross_entropy,
    "eight_bit_states": use_eight_bits,
    "expandable_segments": use_expandable_segments,
    "fused": use_fused,
    "half_batch": halve_batch,
    "single_tensor": use_single_tensor,
    "step_in_backward": step_in_backward,
}
