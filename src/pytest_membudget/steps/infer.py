"""The inference step: prefill, then decoding with a key-value cache."""

import inspect

import torch
from torch import Tensor, nn

from .models import field, logits_of, refuse_training_mode


@torch.inference_mode()
def inference_step(model: nn.Module, input_ids: Tensor, *, new_tokens: int) -> Tensor:
    """Prefill the prompt, then decode greedily one token at a time: token ids ``(batch, new_tokens)``.

    ``input_ids`` is ``(batch, prompt length)``, without padding. Equivalent to::

        output = model(input_ids=input_ids, use_cache=True)
        tokens = [output.logits[:, -1:].argmax(-1)]
        for _ in range(new_tokens - 1):
            output = model(input_ids=tokens[-1], past_key_values=output.past_key_values, use_cache=True)
            tokens.append(output.logits[:, -1:].argmax(-1))

    under ``torch.inference_mode()``: Hugging Face's calling convention, and any model's that keeps to it. As
    ``generate`` does, it asks for the last position's logits only (``logits_to_keep=1``) where the model
    takes that. No token ends the text early: the cache grows to its full length.

    Raises ``TypeError`` for a model of another convention, ``ValueError`` for one in training mode or for
    ``new_tokens`` below 1.
    """
    if new_tokens < 1:
        raise ValueError(f"new_tokens={new_tokens!r}: give the number of tokens to decode, at least 1")
    refuse_training_mode(model, "model")
    options, cache_name = _decoding_options(model), _cache_name(model)
    token, cache = _decode(model, cache_name, input_ids=input_ids, **options)
    tokens = [token]
    for _ in range(new_tokens - 1):
        token, cache = _decode(model, cache_name, input_ids=token, **{cache_name: cache}, **options)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


def _cache_name(model: nn.Module) -> str:
    """What the model calls its key-value cache: Hugging Face's do so by ``cache`` in transformers 5.24."""
    parameters = inspect.signature(model.forward).parameters
    return "cache" if "cache" in parameters and "past_key_values" not in parameters else "past_key_values"


def _decoding_options(model: nn.Module) -> dict[str, object]:
    parameters = inspect.signature(model.forward).parameters
    missing = [name for name in ("input_ids", "past_key_values", "use_cache") if name not in parameters]
    if missing and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise TypeError(
            f"{type(model).__name__}.forward takes no {' and no '.join(missing)}: inference_step calls a "
            "model as Hugging Face does, model(input_ids=, past_key_values=, use_cache=True); for another "
            "convention write the loop itself"
        )
    return {"use_cache": True} | ({"logits_to_keep": 1} if "logits_to_keep" in parameters else {})


def _decode(model: nn.Module, cache_name: str, **inputs: object) -> tuple[Tensor, object]:
    output = model(**inputs)
    cache = field(output, cache_name)
    if cache is None:
        raise TypeError(
            f"{type(model).__name__} returned no past_key_values with use_cache=True: let it return its "
            "key-value cache with the logits"
        )
    return logits_of(output, "model")[:, -1:].argmax(-1), cache
