"""One Megatron-core transformer layer as a tape, and how recomputation changes it.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553:
megatron/core/transformer/transformer_layer.py, mlp.py, megatron/core/fusions/fused_bias_gelu.py,
fused_bias_swiglu.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..model import Experts, FeedForward, Layer
from ..tape import Operator, Tape, Tensor, backward, forward
from .megatron_attention import attention
from .megatron_experts import experts
from .megatron_linears import column_linear, dropout_add, gating, norm, row_linear
from .megatron_sizes import MegatronSizes


def layer_tape(sizes: MegatronSizes, layer: Layer) -> Tape:
    """One layer, from ``x`` to ``y``: norms before each block, as Megatron-core has them."""
    operators = (
        *attention(sizes, layer),
        *dropout_add(sizes, "attention_add", "attention_out", "x", "middle", layer.dropout),
        *_second_block(sizes, layer),
        *dropout_add(sizes, "mlp_add", "mlp_out", "middle", "y", layer.dropout),
    )
    operators = _without_offloaded(sizes, _without_outputs(sizes, operators))
    return Tape((sizes.of("x", sizes.rows, sizes.hidden, formula="s*b*h*2"),), operators, ("y",))


def _second_block(sizes: MegatronSizes, layer: Layer) -> Iterator[Operator]:
    yield norm(sizes, layer.norm, "mlp_norm", "middle", "mlp_normed")
    if isinstance(layer.feed_forward, Experts):
        yield from experts(sizes, layer.feed_forward, "mlp_normed", "mlp_out")
        return
    inside = tuple(feed_forward(sizes, layer.feed_forward, "mlp", "mlp_normed", "mlp_out"))
    if "mlp" in _recomputed(sizes):
        yield as_one(sizes, "mlp", inside, "mlp_normed", "mlp_out", sizes.rows)
    else:
        yield from inside


def feed_forward(
    sizes: MegatronSizes, block: FeedForward, name: str, read: str, made: str
) -> Iterator[Operator]:
    """Two products with an activation between them.

    The fused activations (``bias_gelu_impl``, ``bias_swiglu_impl``) save their input alone; torch's own gelu
    does too, behind a sum with the bias where there is one.
    """
    width = block.intermediate * (2 if block.gated else 1)
    yield column_linear(sizes, f"{name}.fc1", read, f"{name}.up", width)
    yield from activation(sizes, block, name, sizes.tokens, sizes.split(block.intermediate))
    yield row_linear(sizes, f"{name}.fc2", f"{name}.active", made, block.intermediate)


def activation(
    sizes: MegatronSizes, block: FeedForward, name: str, rows: int, width: int
) -> Iterator[Operator]:
    """From ``NAME.up`` to ``NAME.active``."""
    up, active = f"{name}.up", sizes.of(f"{name}.active", rows, width, formula="s*b*f/t*2")
    read = up
    if sizes.options.bias_activation_fusion:
        yield Operator(f"{name}.act", (up,), (active,), saves=(up,))
        return
    if block.bias:
        biased = sizes.of(f"{name}.biased", rows, width * (2 if block.gated else 1))
        yield Operator(f"{name}.bias", (up,), (biased,))
        read = biased.name
    if not block.gated:
        yield Operator(f"{name}.act", (read,), (active,), saves=(read,))
        return
    yield from gating(name, read, active)


def as_one(
    sizes: MegatronSizes, name: str, inside: tuple[Operator, ...], read: str, made: str, rows: int
) -> Operator:
    """A checkpointed part: it keeps what it reads, the rest is made again in backward."""
    inner = Tape((Tensor(read, 0),), inside, (made,))
    out = sizes.of(made, rows, sizes.hidden)
    return Operator(
        name,
        (read,),
        (out,),
        saves=(read,),
        weights=tuple(weight for operator in inside for weight in operator.weights),
        forward_scratch_bytes=max(0, forward(inner, saves=False).peak_bytes - out.bytes),
        backward_scratch_bytes=backward(inner, "freed").peak_bytes,
    )


def _recomputed(sizes: MegatronSizes) -> tuple[str, ...]:
    how = sizes.job.checkpointing
    return how.modules if how.mode == "selective" else ()


#: Of ``recompute_modules``, those whose outputs go after forward and are made again before they are read
#: (``CheckpointWithoutOutput``, megatron/core/tensor_parallel/random.py): the outputs, and what they come
#: from.
_MADE_AGAIN = {
    "layernorm": ("normed", "mlp_normed"),
    "mla_up_proj": ("q", "k", "v", "q_up.normed", "kv_up.normed"),
}


def _without_outputs(sizes: MegatronSizes, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """Operators that do not save what is made again."""
    outputs = {name for module in _recomputed(sizes) for name in _MADE_AGAIN.get(module, ())}
    if not sizes.job.model.decoder.groups[0][0].attention.latent:
        outputs -= set(_MADE_AGAIN["mla_up_proj"])
    return _unsaved(operators, outputs)


def _unsaved(operators: tuple[Operator, ...], names: set[str]) -> tuple[Operator, ...]:
    """Tensors ``names`` are there again during a backward, and not from forward on."""
    if not names:
        return operators
    made = {tensor.name: tensor.bytes for operator in operators for tensor in operator.makes}
    found = []
    for operator in operators:
        gone = [name for name in operator.saves if name in names]
        again = sum(made.get(name, 0) for name in gone)
        kept = tuple(name for name in operator.saves if name not in names)
        scratch = operator.backward_scratch_bytes + again
        found.append(replace(operator, saves=kept, backward_scratch_bytes=scratch) if gone else operator)
    return tuple(found)


#: Of ``offload_modules``, what goes to the host: what is saved while the module runs
#: (megatron/core/pipeline_parallel/fine_grained_activation_offload.py).
_OFFLOADED = {
    "attn_norm": ("x",),
    "qkv_linear": ("normed", "q_down.out", "kv_down.out", "q_up.normed", "kv_up.normed"),
    "core_attn": ("q", "k", "v", "probabilities", "dropped"),
    "attn_proj": ("context",),
    "mlp_norm": ("middle",),
    "expert_fc1": ("expert_tokens",),
    "moe_act": ("experts.up",),
}
#: ``min_offloaded_tensor_size``, in elements.
_LEAST_OFFLOADED = 1024 * 1024


def _without_offloaded(sizes: MegatronSizes, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """Tensors on the host are there again for the backward that reads them."""
    made = {tensor.name: tensor.bytes for operator in operators for tensor in operator.makes}
    made["x"] = sizes.bytes(sizes.rows, sizes.hidden)
    large = {name for name, size in made.items() if size >= sizes.bytes(_LEAST_OFFLOADED)}
    wanted = {name for module in sizes.options.offload_modules for name in _OFFLOADED.get(module, ())}
    return _unsaved(operators, wanted & large)
