"""Device memory that ordinary CUDA kernels of PyTorch take for themselves and give back before they return.

A trace on fake tensors does not run the kernels and so does not see it. Each family of operators has its
rules in a separate file, with its sources; attention's are in ``attention_temporaries``, and what is known
to be hidden but has no exact rule in ``unmodelled``. docs/how-it-works.md lists them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...hardware.gpus import Gpu
from .extension_torchvision import TORCHVISION_RULES
from .kernel_batch_norms import BATCH_NORM_RULES
from .kernel_convolutions import CONVOLUTION_RULES
from .kernel_copies import COPY_RULES
from .kernel_draws import DRAWING_RULES
from .kernel_elementwise import ELEMENTWISE_RULES
from .kernel_embeddings import EMBEDDING_RULES
from .kernel_layouts import Args, Rule
from .kernel_losses import LOSS_RULES
from .kernel_norms import NORM_RULES
from .kernel_pooling import POOLING_RULES
from .kernel_products import PRODUCT_RULES
from .kernel_scans import SCAN_RULES
from .kernel_searches import SEARCH_RULES
from .kernel_sorting import SORTING_RULES
from .kernel_sums import REDUCTION_RULES
from .recurrent_kernels import RECURRENT_RULES


def kernel_temporaries(func: Any, args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """Sizes in bytes of what ``func``'s kernel holds at once at its peak, without inputs and outputs."""
    rule = RULES.get(func) or EXTENSION_RULES.get(func.name())
    if rule is None or gpu.backend != "cuda":
        return []
    return [size for size in rule(args, kwargs, result, gpu) if size]


RULES: Final[Mapping[Any, Rule]] = {
    **REDUCTION_RULES,
    **SORTING_RULES,
    **SEARCH_RULES,
    **SCAN_RULES,
    **EMBEDDING_RULES,
    **NORM_RULES,
    **BATCH_NORM_RULES,
    **CONVOLUTION_RULES,
    **POOLING_RULES,
    **PRODUCT_RULES,
    **LOSS_RULES,
    **DRAWING_RULES,
    **COPY_RULES,
    **ELEMENTWISE_RULES,
    **RECURRENT_RULES,
}

#: By name: an extension's operators are there once it is imported.
EXTENSION_RULES: Final[Mapping[str, Rule]] = {**TORCHVISION_RULES}

KERNELS: Final = frozenset(RULES)
