"""torchtitan's own Trainer by its settings, with numbers of tokens in place of tokenizer and data."""

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torchtitan.protocols.train_spec as specs
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.config import JobConfig
from torchtitan.train import Trainer

from ..assumptions import IDENTICAL_RANKS, Assumption, assume
from ..scenarios.job import FACTORS, Job
from .program import MICRO_BATCHES, STEPS, job_of_program

#: Degrees that it has by the same names.
_PARALLELISM = (*FACTORS, "pipeline_parallel_schedule", "expert_parallel_degree")
_TYPES = {"fp32": "float32", "bf16": "bfloat16"}
_IMPLEMENTATIONS = {None: "fused", "foreach": "foreach", "fused": "fused", "loop": "for-loop"}


class Batches(BaseDataLoader):  # type: ignore[misc] # the library may not be installed
    """Tokens of the shape of a rank's batch, without end."""

    def __init__(self, job: Any) -> None:
        self._shape = job.training.local_batch_size, job.training.seq_len

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        while True:
            tokens = torch.zeros(self._shape, dtype=torch.int64)
            yield {"input": tokens}, tokens

    def state_dict(self) -> dict[str, Any]:
        """Nothing: there are no checkpoints."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing: there are no checkpoints."""


def run(job: Job) -> None:
    """Two steps of torchtitan's training loop."""
    name, _, flavor = job.model.values.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="membudget-") as folder:
        config = _configured(settings(job, name or "llama3", flavor, folder))
        _replace_data()
        # what the loop reads is logged: the loss, and the gradients' norm; a truth is whether trunc_normal_
        # draws weights once more, where that is not sure. Ranks differ in logs, seeds, stages, experts
        identical = Assumption({IDENTICAL_RANKS: True})
        with identical, assume(routing="balanced"), assume(value=1.0), assume(value=False):
            Trainer(config).train()


def _configured(values: Mapping[str, Any]) -> Any:
    """The configuration with ``values``, by section and field.

    Not by the command line, whose parser (tyro) draws random numbers.
    """
    config = JobConfig()
    for name, value in values.items():
        section, _, field = name.partition(".")
        setattr(config, section, dataclasses.replace(getattr(config, section), **{field: value}))
    return config


def _replace_data() -> None:
    """Take tokenizer and data out of each model's specification, and attention's masks of documents.

    One document a sequence: flex attention's masks, which want a compiler, become the causal one of SDPA.
    """
    original = specs.get_train_spec

    def get_train_spec(name: str) -> Any:
        spec = original(name)
        spec.build_tokenizer_fn = None
        spec.build_dataloader_fn = lambda job_config, **_: Batches(job_config)
        for shape in spec.model_args.values():
            if hasattr(shape, "attn_type"):
                shape.attn_type, shape.attn_mask_type = "sdpa", "causal"
        return spec

    specs.get_train_spec = get_train_spec


def settings(job: Job, name: str, flavor: str, folder: str) -> dict[str, Any]:
    """torchtitan's settings of ``job``: v0.2.2's names (torchtitan/config/job_config.py)."""
    degrees, precision = job.degrees, job.precision
    data_ranks = degrees.data_parallel_replicate_degree * degrees.data_parallel_shard_degree
    options: dict[str, Any] = {
        "job.dump_folder": folder,
        "model.name": name,
        "model.flavor": flavor,
        "training.steps": STEPS,
        "training.seq_len": job.sequence,
        "training.dtype": _TYPES[precision.parameters],
        "training.mixed_precision_param": _TYPES[precision.compute_type],
        "optimizer.name": {"adam": "Adam", "adamw": "AdamW"}[job.optimizer.name],
        "optimizer.implementation": _IMPLEMENTATIONS[job.optimizer.implementation],
        "lr_scheduler.warmup_steps": 0,
        **{f"parallelism.{name}": getattr(degrees, name) for name in _PARALLELISM},
        "training.enable_cpu_offload": "parameters" in job.offload,
        "compile.enable": job.compiled,
        **_checkpointing(job),
    }
    if degrees.pipeline_parallel_degree > 1:
        options["training.local_batch_size"] = job.micro_batch * job.accumulation
        options["parallelism.pipeline_parallel_microbatch_size"] = job.micro_batch
    else:
        options["training.local_batch_size"] = job.micro_batch
        micro_batches = min(job.accumulation, MICRO_BATCHES)
        options["training.global_batch_size"] = job.micro_batch * micro_batches * data_ranks
    if not job.data_parallel.reshards_after_forward:
        options["parallelism.fsdp_reshard_after_forward"] = "never"
    return options


def _checkpointing(job: Job) -> dict[str, str]:
    mode: str = job.checkpointing.mode
    options = {"activation_checkpoint.mode": "selective" if mode == "per_operator" else mode}
    if mode in ("selective", "per_operator"):
        every = "op" if mode == "per_operator" else str(job.checkpointing.every)
        options["activation_checkpoint.selective_ac_option"] = every
    return options


if __name__ == "__main__":
    run(job_of_program())
