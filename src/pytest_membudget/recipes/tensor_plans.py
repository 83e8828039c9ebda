"""Tensor parallelism in torch's styles: of transformers' models by their plans, and of the plain Llama."""

from typing import Any

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
)


def hugging_face_plan(causal: Any, sequence_parallel: bool) -> dict[str, Any]:
    """torch's styles of the modules of ``causal``, by its configuration's ``base_model_tp_plan``.

    With ``sequence_parallel`` what is between blocks is split along the sequence, as torchtitan's plan of
    Llama has it. Raises ``SystemExit`` for a model that has no plan, or a plan of other styles.
    """
    own = causal.config.base_model_tp_plan or {}
    styles = {"colwise", "rowwise"}
    if not own or not styles >= set(own.values()):
        others = ", ".join(sorted(set(own.values()) - styles)) or "no plan"
        raise SystemExit(
            f"tensor_parallel_degree: {type(causal).__name__} has {others}; write a script: entry"
        )
    body = causal.base_model_prefix
    between = Shard(1) if sequence_parallel else Replicate()
    plan: dict[str, Any] = {
        f"{body}.{name}": ColwiseParallel() if style == "colwise" else RowwiseParallel(output_layouts=between)
        for name, style in own.items()
    }
    plan[f"{body}.embed_tokens"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    plan["lm_head"] = ColwiseParallel(input_layouts=between, output_layouts=Replicate())
    if sequence_parallel:
        layer, whole = f"{body}.layers.*", Replicate()
        plan |= {
            f"{body}.norm": SequenceParallel(),
            f"{layer}.input_layernorm": SequenceParallel(),
            f"{layer}.post_attention_layernorm": SequenceParallel(),
            f"{layer}.mlp": PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(whole,)),
        }
        plan[f"{layer}.self_attn"] = PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": between},
            desired_input_kwarg_layouts={"hidden_states": whole},
        )
    return plan


def llama_plan(llama: Any, sequence_parallel: bool) -> dict[str, Any]:
    """The styles of the modules of the plain ``llama``, as torchtitan's plan of Llama has them."""
    between, layer = Shard(1) if sequence_parallel else Replicate(), "layers.*"
    columns = ("attention.q", "attention.k", "attention.v", "feed_forward.gate", "feed_forward.up")
    plan: dict[str, Any] = {f"{layer}.{name}": ColwiseParallel() for name in columns}
    plan |= {
        f"{layer}.{name}": RowwiseParallel(output_layouts=between)
        for name in ("attention.o", "feed_forward.down")
    }
    plan["embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    plan["head"] = ColwiseParallel(input_layouts=between, output_layouts=Replicate())
    if sequence_parallel:
        plan |= {f"{layer}.{name}": SequenceParallel() for name in ("attention_norm", "feed_forward_norm")}
        plan["norm"] = SequenceParallel()
        plan[f"{layer}.attention"] = PrepareModuleInput(
            input_layouts=(between, None), desired_input_layouts=(Replicate(), None)
        )
        plan[f"{layer}.feed_forward"] = PrepareModuleInput(
            input_layouts=(between,), desired_input_layouts=(Replicate(),)
        )
    lacks = {name for name in ("embedding", "norm", "head") if getattr(llama, name) is None}
    return {name: style for name, style in plan.items() if name not in lacks}
