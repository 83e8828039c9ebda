"""The plain Llama, or a stage of it, as the steps of recipes see it."""

from __future__ import annotations

from typing import Any

from .llama import Llama
from .parts import Decoder
from .tensor_plans import llama_plan


def decoder_of_llama(llama: Llama) -> Decoder:
    """``llama`` with its parts."""
    head: Any = llama.head
    return Decoder(
        llama,
        llama.layers,
        hidden=llama.hidden,
        logits=llama,
        loss=llama.loss,
        head=head,
        recompute_layers=llama.recompute_layers,
        tensor_plan=lambda sequence_parallel: llama_plan(llama, sequence_parallel),
    )
