"""Which of torch's attention kernels a recipe may take."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.nn.attention import SDPBackend, sdpa_kernel

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


@contextlib.contextmanager
def attention_backend(attention: str) -> Iterator[None]:
    """While this lasts, ``scaled_dot_product_attention`` has the backend that ``attention`` names, if any."""
    with sdpa_kernel(_BACKENDS[attention]) if attention in _BACKENDS else contextlib.nullcontext():
        yield
