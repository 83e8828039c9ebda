"""The analytic side of a traced step: the same order, reckoned."""

from pytest_membudget.analytic.implementations import blocks_of
from pytest_membudget.analytic.inputs.hugging_face import read_config
from pytest_membudget.analytic.job import Checkpointing, Job, Optimizer, Precision
from pytest_membudget.analytic.moments import Step, moments_of, peak_of
from pytest_membudget.analytic.parameters import inventory_of
from pytest_membudget.analytic.pipeline import stages_of
from pytest_membudget.analytic.sharding import local_tensors
from pytest_membudget.analytic.states import resident_terms, step_temporaries
from pytest_membudget.analytic.terms import Term, total_bytes
from pytest_membudget.components import INPUTS, WORKSPACES
from pytest_membudget.cublas import cublas_workspace_bytes
from pytest_membudget.gpus import find_gpu

KINDS = {"bfloat16": "bf16", "float32": "fp32"}


def job_of(order, gpu):
    config = {**order["config"], "model_type": order["model_type"], "architectures": [order["model_class"]]}
    kind = KINDS[order.get("dtype", "bfloat16")]
    policy = Precision("autocast", kind, "bf16") if order.get("autocast") else Precision("pure", kind)
    attention = order.get("attention", "flash" if kind == "bf16" or order.get("autocast") else "efficient")
    optimizer = Optimizer(
        implementation="fused" if order.get("optimizer", {}).get("fused") else "foreach",
        in_backward=bool(order.get("in_backward")),
    )
    return Job(
        read_config(config),
        micro_batch=order.get("rows", 2),
        sequence=order.get("length", 512),
        attention=attention,
        precision=policy,
        optimizer=optimizer,
        checkpointing=Checkpointing("full" if order.get("checkpointing") else "none"),
        gpu=gpu,
        **order.get("job", {}),
    )


def analytic_of(order, gpu):
    """The moment of the peak, and all moments."""
    job = job_of(order, gpu)
    (stage,) = stages_of(job)
    tensors = local_tensors(stage, inventory_of(job.model))
    workspace = cublas_workspace_bytes(find_gpu(gpu).capability, (2, 13))
    until = order.get("until", "step")
    threads = 1 if until == "forward" else 2
    static = [
        Term(INPUTS, "tokens", job.micro_batch * (job.sequence if job.model.vocab else 1) * 8),
        Term(WORKSPACES, "cuBLAS workspaces", threads * workspace),
    ]
    if until == "step":
        static += resident_terms(tensors, job)
    else:
        static += [
            term for term in resident_terms(tensors, job) if term.component in ("parameters", "frozen_parameters")
        ]
    temporaries = step_temporaries(tensors, job) if until == "step" and not job.optimizer.in_backward else ()
    gradients = "freed" if order.get("in_backward") else "kept"
    step = Step(tuple(static), blocks_of(stage), gradients=gradients, optimizer_temporaries=temporaries)
    moments = moments_of(step)
    if until == "forward":
        moments = [moment for moment in moments if moment.name.startswith("forward")]
    return peak_of(moments), moments


def bytes_of(moment):
    return total_bytes(moment.terms)
