"""Device memory that PyTorch's losses take for themselves and give back before they return.

Read in aten/src/ATen/native/Loss.cpp, cuda/Loss.cu, cuda/NLLLoss2d.cu, cuda/LossCTC.cu and
cuda/MultiMarginLoss.cu of pytorch/pytorch 2.6.0. ``l1_loss``, ``kl_div``, ``cross_entropy`` and the margin
and cosine losses made of other operators are composed there, and each of their parts has its own rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .kernel_layouts import (
    INT64,
    Args,
    Rule,
    argument,
    contiguous_copy_bytes,
    contiguous_inputs,
    first_tensor,
    tensor_bytes,
)
from .kernel_sums import sum_temporaries

aten = torch.ops.aten

_NO_REDUCTION = 0  # at::Reduction::None


def pointwise_loss(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, target, reduction): every element's loss, then its mean or sum."""
    if argument(args, kwargs, 2, "reduction", 1) == _NO_REDUCTION:
        return []
    losses = _losses(args[0], args[1], first_tensor(result).dtype)
    return [tensor_bytes(losses), *_reduction(losses, result, gpu)]


def kept_loss(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, target, ..., reduction): every element's loss is the result's own storage; then the mean."""
    reduction = kwargs.get("reduction", args[-1] if isinstance(args[-1], int) else 1)
    if reduction == _NO_REDUCTION:
        return []
    losses = torch.empty(args[0].shape, dtype=args[0].dtype, device="meta")
    return [args[0].element_size(), *_reduction(losses, result, gpu)]


def loss_of_logits(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, target, weight, pos_weight, reduction): log-sigmoids, and weights of positives, then losses."""
    logits, target = args[:2]
    positives = argument(args, kwargs, 3, "pos_weight")
    losses = _losses(logits, target, first_tensor(result).dtype)
    reduced = argument(args, kwargs, 4, "reduction", 1) != _NO_REDUCTION
    held = [tensor_bytes(logits), tensor_bytes(losses) if reduced else 0]
    last = [*held, *(_reduction(losses, result, gpu) if reduced else [])]
    if positives is None:
        return last
    weights = math.prod(torch.broadcast_shapes(positives.shape, target.shape)) * logits.element_size()
    # weights go before the losses come; a loss that is not reduced is the result, and comes after them too
    first = [tensor_bytes(logits), tensor_bytes(positives), weights if reduced else 0]
    return max(first, last, key=sum)


def margin_loss_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``soft_margin_loss``'s: target's negative, its product with the input, and that one's exponential.

    The result comes when the first two are gone.
    """
    return 2 * [tensor_bytes(first_tensor(result))]


def class_loss(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``nll_loss``: (self, target, weight, reduction, ignore_index): read contiguous."""
    return contiguous_copy_bytes(*args[:3])


def class_loss_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``nll_loss``'s: (grad_output, self, target, weight, ...): read contiguous."""
    return contiguous_copy_bytes(*args[:4])


def pixel_loss(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``nll_loss2d``: contiguous only where it is reduced."""
    if argument(args, kwargs, 3, "reduction", 1) == _NO_REDUCTION:
        return contiguous_copy_bytes(args[2])
    return contiguous_copy_bytes(*args[:3])


def pixel_loss_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``nll_loss2d``'s: (grad_output, self, target, weight, reduction, ...): target and weight contiguous."""
    reduction = argument(args, kwargs, 4, "reduction", 1)
    return contiguous_copy_bytes(None if reduction == _NO_REDUCTION else args[2], args[3])


def alignments(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_ctc_loss``: (log_probs, targets, ...): both lengths and where targets begin, for each sample."""
    return 3 * [INT64 * args[0].shape[1]]


def alignments_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, ...)

    The chances of what follows, next to those of what came before that forward has kept.
    """
    return [tensor_bytes(args[6]), *alignments(args[1:], kwargs, result, gpu)]


def alignments_backward_bound(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """More where batch or alphabet are large: sums over blanks, and gradients made finite."""
    steps, batch, labels = args[1].shape
    if 2 * steps + 24 * batch // 10 + 2 * labels // 10 <= 450:
        return 0
    row_bytes = steps * batch * args[1].element_size()
    bound_bytes: int = tensor_bytes(args[6]) + 4 * row_bytes + tensor_bytes(args[1])
    return bound_bytes


def _losses(first: torch.Tensor, second: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    shape = torch.broadcast_shapes(first.shape, second.shape)
    return torch.empty(shape, dtype=dtype, device="meta")


def _reduction(losses: torch.Tensor, result: Any, gpu: Gpu) -> list[int]:
    output = torch.empty((), dtype=first_tensor(result).dtype, device="meta")
    return sum_temporaries(losses, None, output, gpu)


LOSS_RULES: Final[Mapping[Any, Rule]] = {
    aten.mse_loss.default: pointwise_loss,
    aten.smooth_l1_loss.default: pointwise_loss,
    aten.huber_loss.default: pointwise_loss,
    aten.binary_cross_entropy.default: kept_loss,
    aten.soft_margin_loss.default: kept_loss,
    aten.soft_margin_loss_backward.default: margin_loss_backward,
    aten.binary_cross_entropy_with_logits.default: loss_of_logits,
    aten.nll_loss_forward.default: class_loss,
    aten.nll_loss_backward.default: class_loss_backward,
    aten.nll_loss2d_forward.default: pixel_loss,
    aten.nll_loss2d_backward.default: pixel_loss_backward,
    aten._ctc_loss.default: alignments,
    aten._ctc_loss.Tensor: alignments,
    aten._ctc_loss_backward.default: alignments_backward,
    aten._ctc_loss_backward.Tensor: alignments_backward,
    aten.multi_margin_loss.default: contiguous_inputs(0, 1),
    aten.multi_margin_loss_backward.default: contiguous_inputs(0, 1, 2),
    aten.multilabel_margin_loss_forward.default: contiguous_inputs(0, 1),
    aten.multilabel_margin_loss_backward.default: contiguous_inputs(0, 1, 2, 5),
}
