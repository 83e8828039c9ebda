"""The analytic side of a traced step: the same order, reckoned; and the two beside each other."""

from pytest_membudget.components import OPTIMIZER_STATES, ROUNDING
from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.job import Checkpointing, Job, Optimizer, Precision

KINDS = {"bfloat16": "bf16", "float32": "fp32"}


def model_of(order):
    """The model of ``order``, from its configuration."""
    classes = {"model_type": order["model_type"], "architectures": [order["model_class"]]}
    return read_config(order["config"] | classes)


def job_of(order, gpu="A100-80GB", **changes):
    """The job that the body ``training`` of ``order`` is."""
    kind = KINDS[order.get("dtype", "bfloat16")]
    is_half = kind == "bf16" or order.get("autocast")
    settings = {
        "micro_batch": order.get("rows", 2),
        "sequence": order.get("length", 512),
        "attention": "flash" if is_half else "efficient",
        "precision": Precision("autocast", kind, "bf16")
        if order.get("autocast")
        else Precision("pure", kind),
        "optimizer": Optimizer(
            implementation="fused" if order.get("fused") else "foreach",
            in_backward=bool(order.get("in_backward")),
        ),
        "checkpointing": Checkpointing("full" if order.get("checkpointing") else "none"),
        "gpu": gpu,
    }
    return Job(model_of(order), **(settings | changes))


def compared(traced, job):
    """Requested bytes at the peak: traced and analytic, without what rounding adds."""
    (figure,) = estimate(job)
    return requested(traced), figure.peak.bytes


def compared_backward(traced, job):
    """The same where the body ends with its first backward: no optimizer has been there."""
    (figure,) = estimate(job)
    moments = [moment for moment in figure.moments if moment.name.startswith(("forward", "backward"))]
    return requested(traced), max(map(_without_states, moments))


def requested(traced):
    return traced.report.peak_bytes - traced.report.components[ROUNDING]


def _without_states(moment):
    return sum(term.bytes for term in moment.terms if term.component != OPTIMIZER_STATES)
