"""torchvision's ``nms``, which keeps as many boxes as data says, and takes a table of all pairs of them.

Its operators are known by name: they are there once torchvision is imported. Read in
torchvision/csrc/ops/cuda/nms_kernel.cu (pytorch/vision at 01d5d107).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from ....hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, tensor_bytes
from .known_shapes import NMS, Shape
from .shape_bounds import Bound, BoundRule, share_of

#: Boxes whose overlaps with one are the bits of a number of 64.
_BITS: Final = 64
_LONG: Final = 8


def kept_boxes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """(boxes, scores, iou_threshold): the places of the boxes that are kept, all of them at worst."""
    count, taken = share_of(args[0].shape[0], "true_fraction", "all kept", "kept in")
    return Bound([Shape((count,), (1,), torch.long)], taken)


def nms_memory(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """The order of the scores, the boxes in it, and a bit for each pair of boxes."""
    boxes = args[0]
    count = boxes.shape[0]
    if not count:
        return []
    return [count * _LONG, tensor_bytes(boxes), count * math.ceil(count / _BITS) * _LONG]


TORCHVISION_RULES: Final[Mapping[str, Rule]] = {NMS: nms_memory}
TORCHVISION_BOUNDS: Final[Mapping[str, BoundRule]] = {NMS: kept_boxes}
