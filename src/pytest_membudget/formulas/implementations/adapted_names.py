"""Which linear layers of a tape have adapters: peft's targets name modules as the implementation does."""

from __future__ import annotations

from collections.abc import Iterator

from ..job import Adapter
from ..model import Model
from ..naming import LayerNames
from ..tensor_names import names_of

_ALL = "all-linear"


def adapted_names(model: Model, adapter: Adapter | None) -> frozenset[str]:
    """The names of adapted layers on transformers' tapes; experts' own projections are not among them."""
    if adapter is None:
        return frozenset()
    names = names_of(model.architecture)
    found = {
        own
        for own, path in (*_modules(names.layer), ("lm_head", names.head))
        if any(path == target or path.endswith(f".{target}") for target in adapter.targets)
    }
    if _ALL in adapter.targets:
        found |= {own for own, _ in _modules(names.layer)}
    return frozenset(found)


def _modules(layer: LayerNames) -> Iterator[tuple[str, str]]:
    """A layer's linear modules: their names on tapes and their paths."""
    attention, cross, block = layer.attention, layer.cross, layer.feed_forward
    for own, name in (
        ("q_proj", attention.query),
        ("k_proj", attention.key),
        ("v_proj", attention.value),
        ("o_proj", attention.output),
        ("qkv_proj", attention.fused),
        ("c_attn", attention.fused),
        ("query_key_value", attention.fused),
        ("q_a_proj", attention.query_down),
        ("q_b_proj", attention.query_up),
        ("kv_a_proj_with_mqa", attention.kv_down),
        ("kv_b_proj", attention.kv_up),
        ("q", attention.query),
        ("k", attention.key),
        ("v", attention.value),
        ("o", attention.output),
    ):
        yield own, f".{attention.prefix}{name}"
    for own, name in (("cross q", cross.query), ("cross k", cross.key), ("cross v", cross.value)):
        yield own, f".{cross.prefix}{name}"
    for own, name in (
        ("gate_proj", block.gate),
        ("up_proj", block.up),
        ("up_proj", block.plain_up),
        ("down_proj", block.down),
        ("gate_up_proj", block.fused),
    ):
        yield own, f".{block.prefix}{name}"
    shared = layer.experts.shared
    for own, name in (("gate_proj", shared.gate), ("up_proj", shared.up), ("down_proj", shared.down)):
        prefix = shared.prefix.rstrip(".").rsplit(".", 1)[-1]
        yield f"{prefix}.{own}", f".{shared.prefix}{name}"
