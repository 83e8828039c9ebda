"""What a decoder layer keeps for backward: Korthikanti et al., *Reducing Activation Recomputation in Large
Transformer Models* (arXiv:2205.05198), section 4, for other layers than GPT's too.

With sequence s, micro-batch b, hidden size h, heads a, tensor-parallel size t, in 16 bits: ``sbh(10 + 24/t +
5as/(ht))`` a layer, ``sbh/t (34 + 5as/h)`` with sequence parallelism.
"""

from dataclasses import dataclass

from .decoder import Shape
from .model_states import TYPE_BYTES, is_adapted
from .ranks import Rank, expert_tensor_degree

#: Attention whose scores are matrices in memory.
UNFUSED = ("eager", "math")


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes of a layer and micro-batch, by what recomputation does with them."""

    whole: float
    """All of it, without ``scores``."""
    scores: float
    """The ``5as^2b`` of attention that is not fused."""
    entry: float
    """The layer's input, which full recomputation keeps."""
    costly: float
    """Its input, attention's output and every second product: what ``per_operator`` keeps (torchtitan)."""


def tokens_of(rank: Rank) -> float:
    """Tokens of a micro-batch on a rank of context parallelism."""
    job = rank.job
    return job.micro_batch * job.sequence / job.degrees.context_parallel_degree


def element_type(rank: Rank) -> int:
    """Bytes of an activation: of what products run in, fp8's outside of the linears."""
    kind = rank.job.precision.compute_type
    return 2 if rank.is_megatron or kind == "fp8" else TYPE_BYTES[kind]


def kept_of(layer: Shape, rank: Rank) -> Kept:
    """What ``layer`` keeps of one micro-batch."""
    tokens, size, hidden = tokens_of(rank), element_type(rank), rank.decoder.shape.hidden
    tensor = rank.job.degrees.tensor_parallel_degree
    rows = rank.row_degree
    whole_rows = _norms(layer, hidden, rank) + _inputs(layer, hidden, rank)
    block = layer.shared_intermediate if layer.experts else layer.width
    split = _attention(layer, rank) + _of_width(block, layer, rank)
    products = _products(layer, rank)
    attended = size * layer.heads * layer.value_dim / tensor
    return Kept(
        tokens * (whole_rows / rows + split / tensor + _experts(layer, rank) / rows),
        tokens * _scores(layer, rank) / tensor,
        tokens * size * hidden / rows,
        tokens * (size * hidden / rows + attended + products / 2),
    )


def _norms(layer: Shape, hidden: int, rank: Rank) -> float:
    """Inputs of the norms, and a byte a number of the dropouts' masks.

    RMSNorm written in operators, as transformers, torchtune and torchtitan of 2024 have it, keeps its input
    in fp32, and where its weight is trained what it is multiplied with; a kernel or compiled code the input
    alone.
    """
    size = element_type(rank)
    one = size
    if layer.norm_vectors == 1 and not rank.is_megatron and not rank.job.compiled:
        one = 4 + (0 if rank.job.adapter is not None else size)
    return layer.norms * one * hidden + (2 * hidden if layer.dropout else 0)


def _inputs(layer: Shape, hidden: int, rank: Rank) -> float:
    """The norms' outputs, which the first linears keep."""
    attention = linear_type(("q_proj", "k_proj", "v_proj", "q_a_proj"), rank)
    has_dense = not layer.experts or layer.shared_intermediate
    return hidden * (attention + (linear_type(("gate_proj", "up_proj"), rank) if has_dense else 0))


def linear_type(names: tuple[str, ...], rank: Rank) -> int:
    """Bytes of a linear's kept input: none where its weight is frozen and has no adapter.

    Transformer Engine keeps it in fp8; torchao's float8 linears keep it as it came (Float8Linear, 0.15).
    """
    adapter = rank.job.adapter
    if adapter is not None and not any(is_adapted(name, adapter) for name in names):
        return 0
    return 1 if rank.is_megatron and rank.job.model.values.get("fp8-format") else element_type(rank)


def _attention(layer: Shape, rank: Rank) -> float:
    """Queries, keys, values and the output, which the last linear keeps too."""
    size = element_type(rank)
    found = size * (layer.heads + layer.kv_heads) * layer.head_dim
    found += size * layer.kv_heads * layer.value_dim
    output = size if rank.job.attention not in UNFUSED else linear_type(("o_proj",), rank)
    found += output * layer.heads * layer.value_dim
    # of latent attention each narrow projection's output, and its norm's
    return found + 2 * size * (layer.kv_rank + layer.query_rank) + size * layer.rope_dim


def _of_width(width: int, layer: Shape, rank: Rank) -> float:
    """Gate, up, the activation and the product; without a gate the activation's input and output.

    Compiled code computes the activation again.
    """
    size, last = element_type(rank), linear_type(("down_proj",), rank)
    before = 1 if not layer.gated else 2 if rank.job.compiled else 3
    return width * (before * size + last)


def _experts(layer: Shape, rank: Rank) -> float:
    """Tokens evenly over experts: each one's copies on their way in and out, and the blocks' own."""
    if not layer.experts:
        return 0
    size, hidden = element_type(rank), layer.hidden
    split = expert_tensor_degree(rank)
    gathered = split if rank.job.degrees.sequence_parallel else 1
    one = 2 * size * hidden + _of_width(layer.width, layer, rank) / split
    router = 4 * 2 * layer.experts  # its logits and shares in fp32
    return layer.experts_per_token * gathered * one + router


def _scores(layer: Shape, rank: Rank) -> float:
    """A token's row of scores a head: the softmax's output, with dropout its mask and result too.

    transformers' eager attention has its softmax in fp32 and a copy in 16 bits; Megatron-LM's kernel does
    not.
    """
    if rank.job.attention not in UNFUSED:
        return 0
    size = element_type(rank)
    one = 2 * size + 1 if layer.dropout else size
    wide = 4 if size == 2 and not rank.is_megatron else 0
    return layer.heads * rank.job.sequence * (one + wide)


def _products(layer: Shape, rank: Rank) -> float:
    """Results of a layer's linears, a token."""
    width = layer.width * (layer.experts_per_token if layer.experts else 1) + layer.shared_intermediate
    split = layer.heads * layer.head_dim + layer.cached + (layer.matrices - 1) * width
    tensor = rank.job.degrees.tensor_parallel_degree
    return element_type(rank) * (split / tensor + 2 * layer.hidden)
