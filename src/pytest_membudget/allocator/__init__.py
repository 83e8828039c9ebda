"""A model of PyTorch's CUDA caching allocator: which bytes a sequence of requests would hold.

Pure Python, no torch: requests go in, addresses and the counters of ``torch.cuda.memory_stats`` come out.

``AllocatorSettings``   what ``PYTORCH_ALLOC_CONF`` says
``CachingAllocator``    the allocator of one device
``Block``               what a request was given
``OutOfMemory``         a request that the device cannot serve
``SegmentState``        a segment and its blocks, as ``torch.cuda.memory_snapshot`` lists them
"""

from __future__ import annotations

from .blocks import Block, BlockState, SegmentState
from .caching import CachingAllocator
from .device_memory import OutOfMemory
from .settings import AllocatorSettings

__all__ = [
    "AllocatorSettings",
    "Block",
    "BlockState",
    "CachingAllocator",
    "OutOfMemory",
    "SegmentState",
]
