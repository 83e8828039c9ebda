"""How transformers' decoder families (5.23.0) write one layer: what shapes alone do not say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from .experts import Routing
from .latent import Turning
from .norms import RmsStyle

#: How queries, keys and values come about. ``separate``: three projections. ``sliced``: slices of the last
#: dimension of one result (Phi-3). ``split``: ``Tensor.split`` of it (GPT-2). ``chunked``: parts of each head
#: (NeoX). ``falcon``: indexed and made contiguous.
Projections = Literal["separate", "sliced", "split", "chunked", "falcon"]


@dataclass(frozen=True, slots=True)
class Style:
    """What differs between families."""

    rms: RmsStyle = "llama"
    projections: Projections = "separate"
    joins_heads: bool = False
    """A part of each head turns, and is joined with the rest: heads lie as [b, a, s, d] then."""
    always_masked: bool = False
    """A mask is always given to the core (Falcon)."""
    table: str | None = None
    """Type of the rotary tables; None: the residual stream's."""
    norms_after_transpose: bool = False
    """Norms of queries and keys run on [b, a, s, d] (Gemma 3, Phi), not on [b, s, a, d]."""
    scales_query: bool = False
    """Queries are multiplied by a number (OPT)."""
    casts_turned: bool = False
    """Turned queries and keys are cast back to their type (OLMo 2)."""
    sums: Literal["sequential", "attention+mlp+x", "mlp+attention+x", "in-place"] = "sequential"
    """How a parallel layer adds its parts up; ``in-place``: ``mlp += attention`` (Falcon)."""
    routing: Routing = "softmax"
    turning: Turning = "interleaved"
    """Of latent attention."""
    holds_attended: bool = False
    """A variable of the layer holds what attention gave (GPT-2)."""
    norms_sums: bool = False
    """Norms behind a block are of its sum with the residual stream (BERT), not of its output (OLMo 2)."""
    upcasts: bool = True
    """The model's own loss casts logits to fp32."""
    eager: bool = False
    """No kernel of ``scaled_dot_product_attention`` will do (Gemma 2's soft cap)."""
    softcap: bool = False


_LLAMA: Final = Style()
_STYLES: Final = MappingProxyType(
    {
        "Gemma": Style(rms="gemma"),
        "Gemma2": Style(rms="gemma", eager=True, softcap=True),
        "Gemma3": Style(rms="gemma", norms_after_transpose=True),
        "Gemma3Text": Style(rms="gemma", norms_after_transpose=True),
        "Olmo2": Style(rms="olmo", casts_turned=True, table="fp32"),
        "Phi": Style(sums="attention+mlp+x", joins_heads=True, norms_after_transpose=True),
        "Phi3": Style(projections="sliced", joins_heads=True),
        "GPT2": Style(projections="split", holds_attended=True),
        "GPTNeoX": Style(projections="chunked", joins_heads=True, sums="mlp+attention+x"),
        "Falcon": Style(projections="falcon", always_masked=True, sums="in-place"),
        "OPT": Style(scales_query=True, norms_sums=True),
        "Bert": Style(norms_sums=True, upcasts=False),
        "Roberta": Style(norms_sums=True, upcasts=False),
        "ViT": Style(upcasts=False),
        "T5": Style(rms="t5", upcasts=False),
        "MT5": Style(rms="t5", upcasts=False),
        "Mixtral": Style(routing="normalised in fp32"),
        "Qwen3Moe": Style(routing="normalised"),
        "DeepseekV2": Style(routing="plain", turning="complex"),
        "DeepseekV3": Style(routing="sigmoid"),
        "GptOss": Style(rms="olmo", eager=True),
    }
)
_TASK: Final = re.compile(r"(For[A-Z]\w*|LMHeadModel|EncoderModel|TextModel|Model)$")


def family_of(architecture: str) -> str:
    """The class's name without its task: ``Llama`` of ``LlamaForCausalLM``."""
    return _TASK.sub("", architecture)


def style_of(architecture: str) -> Style:
    """The style of the class ``architecture``; Llama's if it has none."""
    return _STYLES.get(family_of(architecture), _LLAMA)
