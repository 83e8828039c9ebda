"""What backward computes again: whole layers, some of them, or all but the costly operators' results."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from ..scenarios.job import Checkpointing
from .parts import Decoder

_ATEN = torch.ops.aten
#: Whose results stay: products and attention, as torchtitan's list (``_op_sac_save_list``,
#: torchtitan/distributed/activation_checkpoint.py, v0.2.0), in which every second product is computed again.
_KEPT = frozenset(
    {
        _ATEN.mm.default,
        _ATEN._scaled_dot_product_efficient_attention.default,
        _ATEN._scaled_dot_product_flash_attention.default,
        _ATEN._scaled_dot_product_cudnn_attention.default,
    }
)


def checkpoint_layers(decoder: Decoder, checkpointing: Checkpointing) -> None:
    """Make backward compute ``decoder``'s layers again as ``checkpointing`` says."""
    mode = checkpointing.mode
    if mode == "full":
        decoder.recompute_layers()
    elif mode != "none":
        for number, layer in enumerate(decoder.layers):
            if mode == "per_operator":
                context = functools.partial(create_selective_checkpoint_contexts, _policy())
                decoder.layers[number] = checkpoint_wrapper(
                    layer, context_fn=context, preserve_rng_state=False
                )
            elif number % checkpointing.every == 0:
                decoder.layers[number] = checkpoint_wrapper(layer, preserve_rng_state=False)


def _policy() -> Any:
    """A layer's policy: its forward and its recomputation count products the same way."""
    products = {False: 0, True: 0}

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if operator == _ATEN.mm.default:
            products[context.is_recompute] += 1
            if products[context.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if operator in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE

    return policy
