"""Low-rank adapters by peft, and bases quantised by bitsandbytes."""

from dataclasses import replace
from typing import Any

import peft
import torch
from torch import nn

from ..scenarios.job import Adapter
from .program import Build, Decoder


def adapted(decoder: Decoder, adapter: Adapter) -> Decoder:
    """``decoder`` with adapters that are trained, on a base that is not."""
    targets: Any = list(adapter.targets)
    if adapter.targets == ("all-linear",):
        targets = "all-linear"
    model = decoder.model
    if adapter.casts_rest:
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    config = peft.LoraConfig(
        r=adapter.rank,
        target_modules=targets,
        lora_dropout=adapter.dropout,
        use_dora=adapter.kind == "dora",
        task_type="CAUSAL_LM",
    )
    return replace(decoder, model=peft.get_peft_model(model, config))


def quantised(build: Build, adapter: Adapter) -> Decoder:
    """The decoder with the linears of its layers in 4 bits, each quantised on the GPU as it is loaded."""
    import bitsandbytes
    from transformers import BitsAndBytesConfig
    from transformers.integrations import replace_with_bnb_linear

    with torch.device("meta"):
        decoder = build()
    model: Any = decoder.model
    compute = model.dtype
    quantisation = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=adapter.base == "nf4-double",
        bnb_4bit_compute_dtype=compute,
    )
    replace_with_bnb_linear(model, ["lm_head"], quantisation)
    model.is_loaded_in_4bit = True
    for module in model.modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            _load(module, compute)
        else:
            module.to_empty(device="cuda", recurse=False)  # from meta
    model.tie_weights()
    return decoder


def _load(linear: Any, number_type: torch.dtype) -> None:
    import bitsandbytes

    whole = torch.empty(linear.out_features, linear.in_features, dtype=number_type, device="cuda")
    old = linear.weight
    linear.weight = bitsandbytes.nn.Params4bit(
        whole,
        requires_grad=False,
        quant_type=old.quant_type,
        compress_statistics=old.compress_statistics,
        quant_storage=old.quant_storage,
        module=linear,
    ).cuda()
    if linear.bias is not None:
        linear.bias = nn.Parameter(torch.empty_like(linear.bias, device="cuda"), requires_grad=False)
