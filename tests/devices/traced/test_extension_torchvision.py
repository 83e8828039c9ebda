"""torchvision's nms: how many boxes it keeps is data; its table of pairs is memory."""

import math

import torch

import pytest_membudget

BOXES = 1000
BLOCK = 512


def rounded(size):
    return math.ceil(size / BLOCK) * BLOCK


def with_operator():
    """As torchvision defines it, and its kernel for fakes, which cannot tell the size."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

    def nms(dets, scores, iou_threshold):
        count = torch.library.get_ctx().new_dynamic_size()
        return dets.new_empty(count, dtype=torch.long)

    torch.library.register_fake("torchvision::nms", nms, lib=library)
    return library


def kept(share):
    library = with_operator()
    boxes, scores = torch.rand(BOXES, 4, device="cuda"), torch.rand(BOXES, device="cuda")
    if share is None:
        result = torch.ops.torchvision.nms(boxes, scores, 0.5)
    else:
        with pytest_membudget.assume(true_fraction=share):
            result = torch.ops.torchvision.nms(boxes, scores, 0.5)
    count, kind = len(result), str(result.dtype)
    del library
    return [count, kind]


def test_all_boxes_are_kept_at_worst(trace):
    """Beside boxes, scores and the result: the order of the scores, boxes in it, 16 numbers for each box."""
    run = trace(kept, None)

    assert run.value == [BOXES, "torch.int64"]
    sizes = [16 * BOXES, 4 * BOXES, 8 * BOXES, 8 * BOXES, 16 * BOXES, BOXES * 16 * 8]
    assert run.allocated == sum(map(rounded, sizes))
    assert "torchvision.nms.default (once): taken to be all kept, the worst case" in run.report.assumptions[0]
    assert run.report.not_modelled == ()


def test_a_share_is_kept_where_it_is_assumed(trace):
    run = trace(kept, 0.1)

    assert run.value == [100, "torch.int64"]
    assert "taken to be kept in 0.1 of it, by assume()" in run.report.assumptions[0]
