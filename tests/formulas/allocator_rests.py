"""What the caching allocator counts of a Megatron-LM rank's lasting tensors beyond their sizes.

A tensor of 10 MiB and more has a segment of its own, a multiple of 2 MiB; smaller ones share segments of
20 MiB. What is left of a block behind a tensor, if it is 1 MiB or less, is not split off and counts as
allocated (c10/cuda/CUDACachingAllocator.cpp: ``get_allocation_size``, ``should_split``). So the order in
which tensors are made decides, which is Megatron-LM's: parameters, gradient buffer, fp32 copies
(``setup_model_and_optimizer``), and in the first step Adam's moments, parameter by parameter.
"""

from __future__ import annotations

from pytest_membudget.formulas.implementations.megatron_static import (
    _gradients,
    _parameters,
    _states,
    is_distributed,
)
from pytest_membudget.formulas.replay.fitting import Fitting


def rests_bytes(stage, tensors, *, moments_too):
    """Unsplit rests of what is made before the first step, and with ``moments_too`` of Adam's moments.

    Moments in segments of their own: in the first step there are also free blocks, left by activations, that
    they may lie in without a rest.
    """
    memory = Fitting()
    sizes = [*_before_the_step(stage, tensors), *(_moments(stage, tensors) if moments_too else ())]
    return sum(memory.place(size_bytes).size_bytes - size_bytes for size_bytes in sizes)


def _before_the_step(stage, tensors):
    gradients = [term.bytes for term in _gradients(stage, tensors)]
    if is_distributed(stage):
        copies = [term.bytes for term in _states(stage, tensors) if term.name.startswith("fp32")]
        return [*(term.bytes for term in _parameters(stage, tensors)), *gradients, *copies]
    ordered = in_order(tensors)
    return [*(tensor.bytes for tensor in ordered), *gradients, *(4 * tensor.elements for tensor in ordered)]


def _moments(stage, tensors):
    if is_distributed(stage):
        return [term.bytes for term in _states(stage, tensors) if term.name.startswith("exp_avg")]
    return [4 * tensor.elements for tensor in in_order(tensors) for _ in range(2)]


def in_order(tensors):
    """The model's order: embedding, layer by layer, the rest."""
    layers = [tensor for tensor in tensors if tensor.layer == "layers"]
    depth = max((tensor.count for tensor in layers), default=0)
    return [
        *(tensor for tensor in tensors if tensor.layer == "embedding"),
        *(tensor for number in range(depth) for tensor in layers if number < tensor.count),
        *(tensor for tensor in tensors if tensor.layer not in ("embedding", "layers")),
    ]
