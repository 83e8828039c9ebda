"""Activation memory of a transformer layer, as Korthikanti et al. published it, and the ZeRO paper's table.

V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198v1),
table 2 and section 4; S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
Parameter Models" (arXiv 1910.02054v3), figure 1. They are for comparison: estimates come from the tapes of
``implementations``, which also know norms' statistics, biases, and layers of other kinds.

Letters are the papers': ``s`` sequence, ``b`` micro-batch, ``h`` hidden, ``a`` heads, ``t`` tensor-parallel
ranks, ``L`` layers, ``p`` pipeline stages, ``m`` model chunks a stage, ``v`` vocabulary. 16-bit activations,
one-byte masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The paper's letters."""

    s: int
    b: int
    h: int
    a: int
    t: int = 1

    @property
    def sbh(self) -> int:
        """Elements of a layer's input."""
        return self.s * self.b * self.h

    @property
    def attention(self) -> Fraction:
        """``5*a*s/h``: softmax, its dropout's mask and output, for each element of the input."""
        return Fraction(5 * self.a * self.s, self.h)


def layer_bytes(
    shape: LayerShape, *, sequence_parallel: bool = False, recompute: Recompute = "none"
) -> Fraction:
    """Bytes that one layer keeps for backward on one rank (table 2).

    none: ``sbh(10 + 24/t + 5as/(ht))``, which without tensor parallelism is ``sbh(34 + 5as/h)``; with
    sequence parallelism ``sbh/t (34 + 5as/h)``. ``selective`` leaves the ``5as/h`` out; ``full`` keeps the
    input, ``2sbh``, which the paper does not divide by ``t``.
    """
    t = shape.t
    if recompute == "full":
        return Fraction(2 * shape.sbh)
    attention = shape.attention if recompute == "none" else Fraction(0)
    if sequence_parallel:
        return Fraction(shape.sbh, t) * (34 + attention)
    return shape.sbh * (10 + Fraction(24, t) + attention / t)


def first_stage_bytes(
    shape: LayerShape,
    layers: int,
    *,
    pipeline: int = 1,
    chunks: int = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "none",
) -> Fraction:
    """Bytes on a rank of the first pipeline stage, which holds most micro-batches (section 4.2.3).

    1F1B holds ``p`` micro-batches of ``L/p`` layers: ``L`` layers' worth; the interleaved schedule
    ``L (1 + (p-1)/(p*m))``.
    """
    ahead = Fraction(pipeline - 1, pipeline * chunks) if chunks > 1 else Fraction(0)
    one = layer_bytes(shape, sequence_parallel=sequence_parallel, recompute=recompute)
    return one * layers * (1 + ahead)


def ends_bytes(shape: LayerShape, vocab: int, *, pipeline: int = 1) -> Fraction:
    """What embedding and output layer add with sequence parallelism (section 4.3).

    ``sbhp/t`` for the embedding's dropout of ``p`` micro-batches and, without pipeline stages,
    ``4sbh/t (1 + v/h)`` for the last norm, the output layer's input and the fp32 logits.
    """
    embedding = Fraction(shape.sbh * pipeline, shape.t)
    output = Fraction(4 * shape.sbh, shape.t) * (1 + Fraction(vocab, shape.h))
    return embedding + (output if pipeline == 1 else 0)


def zero_bytes(parameters: int, ranks: int, stage: Literal[0, 1, 2, 3]) -> Fraction:
    """Model states of mixed-precision Adam on one of ``ranks`` ranks (ZeRO, figure 1).

    Parameters and gradients of 2 bytes, and ``K = 12`` bytes of optimizer states: ``16 psi``; stage 1
    ``4 psi + 12 psi / N``; stage 2 ``2 psi + 14 psi / N``; stage 3 ``16 psi / N``.
    """
    whole = {0: 16, 1: 4, 2: 2, 3: 0}[stage]
    return Fraction(parameters * whole) + Fraction(parameters * (16 - whole), ranks)
