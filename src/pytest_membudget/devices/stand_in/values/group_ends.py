"""Where the groups of a grouped matrix product end, which it reads from the card to multiply one by one."""

from typing import Any

import torch


def group_ends(
    first: torch.Tensor, second: torch.Tensor, offsets: torch.Tensor | None = None, *_: Any
) -> float | torch.Tensor:
    """``(groups,)`` on the host: where each of equal groups ends; 0 where the groups are a dimension.

    The arguments are those of ``aten::_grouped_mm``: the groups are parts of the one dimension that is not of
    both matrices, or of the one that is summed.
    """
    if offsets is None:
        return 0
    divided = second.shape[1] if first.dim() == 3 else first.shape[0 if second.dim() == 3 else 1]
    groups = len(offsets)
    return torch.tensor([(group + 1) * divided // groups for group in range(groups)], dtype=offsets.dtype)
