"""A job: a model, how it is run, and how it is laid out over GPUs. Plain values, checked where they are read.

The names of parallel degrees are torchtitan's (``ParallelDims``, torchtitan/distributed/parallel_dims.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .megatron_options import MegatronOptions
from .model import Model

#: Whose code runs: it decides what a layer keeps for backward.
Implementation = Literal["transformers", "torchtitan", "megatron"]
AttentionKernel = Literal["flash", "efficient", "cudnn", "math", "unfused"]
Compiled = Literal["layers", "loss"]
Offload = Literal["parameters", "gradients", "optimizer_states", "activations"]


@dataclass(frozen=True, slots=True)
class Precision:
    """Number types, and who converts between them."""

    policy: Literal["pure", "autocast", "fsdp", "megatron"] = "pure"
    """``pure``: all in the parameters' type. ``autocast``: products in ``compute``, with its cache of cast
    weights. ``fsdp``: FSDP2's MixedPrecisionPolicy, gathered and computed in ``compute``, gradients reduced
    in ``reduce``. ``megatron``: parameters in ``compute``, gradient buffers and optimizer's copy in fp32."""
    parameters: str = "bf16"
    compute: str | None = None
    """None: as ``parameters``."""
    reduce: str | None = None
    gradients: str | None = None
    """Of gradients that are kept; None: as ``parameters``."""

    @property
    def compute_type(self) -> str:
        """What products run in."""
        return self.compute or self.parameters


@dataclass(frozen=True, slots=True)
class Optimizer:
    """How parameters are updated."""

    name: str = "adamw"
    """adamw, adam, nadam, radam, adamax, adadelta, adagrad, asgd, rmsprop, rprop, sgd, adafactor, lion, muon.
    Muon is for matrices of hidden layers alone; AdamW updates the rest."""
    implementation: Literal["foreach", "fused", "loop"] | None = None
    """None: the optimizer's own default on CUDA: foreach where torch has it as one, a loop else."""
    library: Literal["torch", "transformers", "bitsandbytes", "torchao", "megatron"] = "torch"
    bits: Literal[32, 16, 8, 4] | None = None
    """Of a state's element; None: as the parameter's type (torch), or the library's default."""
    is_paged: bool = False
    """States lie in unified memory and can leave the card (bitsandbytes)."""
    amsgrad: bool = False
    momentum: bool = False
    nesterov: bool | None = None
    """None: the optimizer's own default: Muon's is True, SGD's False."""
    centered: bool = False
    has_first_moment: bool = False
    """Adafactor with beta1."""
    keeps_master: bool = False
    """A copy of the parameters in fp32."""
    has_l2: bool = False
    """Weight decay by way of the gradients (``weight_decay`` of SGD, Adam and others; AdamW's, Muon's and
    Lion's goes to the parameters at once and takes no memory)."""
    is_fp8: bool = False
    """torchao's AdamWFp8: 8-bit states that are floats, without a table."""
    in_32_bits: tuple[str, ...] = ()
    """Whose states bitsandbytes keeps in 32 bits: ends of names, or places as ``embedding`` (its
    ``GlobalOptimManager``; StableEmbedding and Hugging Face's Trainer do it for embeddings)."""
    in_backward: bool = False
    """Each parameter is updated, and its gradient freed, as soon as it is there."""
    clips_gradients: bool = False


@dataclass(frozen=True, slots=True)
class Adapter:
    """Low-rank adapters on a frozen base."""

    rank: int
    targets: tuple[str, ...]
    """Ends of the adapted modules' names: ``q_proj``; ``all-linear``: every linear layer but the head."""
    is_dora: bool = False
    number_type: str = "fp32"
    """Of the adapters' parameters: peft casts them to fp32 where the base is 16-bit or quantised."""
    base: Literal["nf4", "nf4-double", "int8", "fp4"] | None = None
    """The frozen linears' quantised storage; None: the model's own type."""
    casts_rest: bool = False
    """peft's ``prepare_model_for_kbit_training``: what is not quantised becomes fp32."""
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """What is recomputed in backward."""

    mode: Literal["none", "full", "selective", "per_operator"] = "none"
    """``full``: whole layers. ``selective``: attention's core (Megatron), or every ``every``-th layer
    (torchtitan). ``per_operator``: all but the results of the costly operators (torchtitan's ``op``)."""
    every: int = 1
    """Every how many layers one is checkpointed."""
    layers: int | None = None
    """Megatron's recompute-num-layers: of a uniform group, or of each stage."""
    is_by_block: bool = False
    """Megatron's ``block`` method: the first ``layers`` of each stage, and no other."""
    modules: tuple[str, ...] = ("core_attn",)
    """Of Megatron's selective mode."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The head's logits and the loss."""

    kind: Literal["full", "chunked", "fused", "none"] = "full"
    """``full``: all logits at once. ``chunked``: the sequence in ``chunks`` pieces, one at a time.
    ``fused``: a kernel that never has all of them (Liger, cut cross entropy)."""
    chunks: int = 1
    upcasts: bool = True
    """Logits are made fp32 before the loss (Hugging Face, torchtitan)."""
    holds_logits: bool = False
    """A variable of the loop holds the logits through backward and step (``outputs = model(...)``)."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """Over how many GPUs each dimension goes; their product is the number of GPUs."""

    data_parallel_replicate_degree: int = 1
    data_parallel_shard_degree: int = 1
    tensor_parallel_degree: int = 1
    context_parallel_degree: int = 1
    pipeline_parallel_degree: int = 1
    expert_parallel_degree: int = 1
    """Of the data and context parallel ranks (and with ``expert_tensor_parallel_degree`` 1 the tensor
    parallel ones), how many share the experts: it does not multiply the number of GPUs."""
    expert_tensor_parallel_degree: int | None = None
    """None: as ``tensor_parallel_degree``."""
    sequence_parallel: bool = False
    """Norms and dropouts work on their part of the sequence."""
    pipeline_parallel_schedule: Literal["1F1B", "Interleaved1F1B", "GPipe"] = "1F1B"
    virtual_stages: int = 1
    """Model chunks a rank, with the interleaved schedule."""

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return (
            self.data_parallel_replicate_degree
            * self.data_parallel_shard_degree
            * self.tensor_parallel_degree
            * self.context_parallel_degree
            * self.pipeline_parallel_degree
        )


@dataclass(frozen=True, slots=True)
class DataParallel:
    """What data-parallel ranks share out among them."""

    kind: Literal["ddp", "zero1", "zero2", "zero3", "fsdp2", "megatron", "megatron_distributed"] = "fsdp2"
    """``zero1/2/3`` with DeepSpeed's meaning; ``megatron_distributed``: its distributed optimizer."""
    reshards_after_forward: bool = True
    keeps_last_layer: bool = False
    """The last layer stays whole all the same: backward wants it at once (torchtitan until 2025-07)."""
    wraps_ends: bool = False
    """Embedding, and final norm with head, are separate groups (torchtitan); else they are in the root,
    whole from the start of forward to the end of backward."""
    bucket_mib: float = 25.0
    """DDP's bucket_cap_mb."""
    gradient_as_bucket_view: bool = False


@dataclass(frozen=True, slots=True)
class Generation:
    """Inference: a prompt, then tokens one by one."""

    new_tokens: int
    cache: Literal["dynamic", "static", "paged", "none"] = "dynamic"
    """``dynamic``: grown by concatenation; ``static``: allocated whole; ``paged``: in blocks."""
    cache_type: str | None = None
    """None: the compute type."""
    block_tokens: int = 16
    """Of a paged cache."""


@dataclass(frozen=True, slots=True)
class Job:
    """One step of training or one generation, on all its GPUs."""

    model: Model
    implementation: Implementation = "transformers"
    task: Literal["train", "generate"] = "train"
    micro_batch: int = 1
    """Sequences a data-parallel rank and micro-batch."""
    sequence: int = 2048
    """Tokens of one, before context parallelism splits it."""
    source_sequence: int | None = None
    """Tokens of an encoder's input; None: ``sequence``."""
    accumulation: int = 1
    """Micro-batches a step (with pipeline stages: those in the schedule)."""
    attention: AttentionKernel = "flash"
    precision: Precision = field(default_factory=Precision)
    optimizer: Optimizer = field(default_factory=Optimizer)
    adapter: Adapter | None = None
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    loss: Loss = field(default_factory=Loss)
    degrees: Degrees = field(default_factory=Degrees)
    data_parallel: DataParallel = field(default_factory=DataParallel)
    offload: frozenset[Offload] = frozenset()
    teacher: Model | None = None
    teacher_type: str | None = None
    """Of the teacher's parameters; None: the compute type."""
    generation: Generation | None = None
    gpu: str | None = None
    """A catalogued card: its workspaces and CUDA context."""
    zeroes_to_none: bool = True
    """``zero_grad(set_to_none=True)``, torch's default; False: gradients stay from the first step on."""
    expandable_segments: bool = False
    """``PYTORCH_ALLOC_CONF=expandable_segments:True``: what is reserved follows it."""
    cublas_workspace_config: str | None = None
    """CUBLAS_WORKSPACE_CONFIG of its processes, as ``:4096:8``; None: not set."""
    compiled: frozenset[Compiled] = frozenset()
    """What ``torch.compile`` has been given, a layer or the loss at a time (the whole model likewise)."""
    megatron: MegatronOptions | None = None
    """What Megatron-LM's own arguments say, with ``implementation="megatron"``; None: its defaults."""
