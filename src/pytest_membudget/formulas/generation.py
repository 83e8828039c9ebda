"""The moments of inference: the prompt's forward, and the last token's, whose KV cache is largest."""

from ..components import ACTIVATIONS, PARAMETERS, TEMPORARIES, WORKSPACES
from .activations import UNFUSED, element_type
from .model_states import States
from .moments import WORKSPACE_BYTES, Moment
from .ranks import Rank


def generated(rank: Rank, states: States) -> tuple[Moment, ...]:
    """The prompt's forward, and the last token's, whose cache is largest."""
    job, generation = rank.job, rank.job.generation
    assert generation is not None
    size = element_type(rank)
    held = {PARAMETERS: states.parameters, WORKSPACES: WORKSPACE_BYTES}
    every = generation.prompt + generation.new_tokens
    is_static = generation.cache == "static"
    prompt = _cache_bytes(rank, every if is_static else generation.prompt)
    longest = _cache_bytes(rank, every)
    # a longer copy of one layer's keys and values is made before the old one goes
    copied = 0 if is_static else longest / sum(rank.layers.values())
    logits = job.micro_batch * rank.decoder.shape.vocab * (size + 4) if rank.is_last else 0
    forward = max(_working_bytes(rank, generation.prompt), logits)
    return (
        Moment("the prompt", {**held, ACTIVATIONS: prompt, TEMPORARIES: forward}),
        Moment("the last token", {**held, ACTIVATIONS: longest + copied, TEMPORARIES: logits}),
    )


def _cache_bytes(rank: Rank, tokens: int) -> float:
    """Keys and values of ``tokens`` a sequence, in all layers."""
    tensor, size = rank.job.degrees.tensor_parallel_degree, element_type(rank)
    one = sum(number * layer.cached / min(tensor, layer.kv_heads) for layer, number in rank.layers.items())
    return rank.job.micro_batch * tokens * size * one


def _working_bytes(rank: Rank, tokens: int) -> float:
    """A layer's forward: the hidden states, their norm, and the widest block's linears."""
    job, hidden, size = rank.job, rank.decoder.shape.hidden, element_type(rank)
    tensor, most = job.degrees.tensor_parallel_degree, 0.0
    for layer in rank.layers:
        width = layer.matrices * (layer.width * (layer.experts_per_token or 1) + layer.shared_intermediate)
        heads = 2 * layer.heads * layer.head_dim + layer.cached
        scores = 2 * layer.heads * tokens if job.attention in UNFUSED else 0
        most = max(most, (max(width, heads + scores)) / tensor)
    return job.micro_batch * tokens * size * (2 * hidden + most)
