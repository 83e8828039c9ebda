"""What a rank holds all the time (parameters, optimizer states), its gradients, and what its step makes.

Pure functions over a rank's tensors. One term a kind of tensor and of state: its bytes over its count are one
tensor's, so that they can be rounded to the allocator's blocks one by one. What lies in the host's memory
(step counters, paged and offloaded states) is in ``host_terms`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil

from ..components import FROZEN_PARAMETERS, GRADIENTS, OPTIMIZER_STATES, PARAMETERS, TEMPORARIES
from .job import Job, Optimizer
from .local_tensors import LocalTensor
from .number_types import bytes_for, number_type
from .optimizers.contract import Family, State, formula_of
from .optimizers.registry import family_of, implementation_of, is_for_adamw
from .optimizers.running import highest, in_groups, one_by_one, peak_of_rounds
from .quantised import quantised_storages
from .terms import Term

#: Elements a block of a foreach kernel takes: kChunkSize, ATen/native/cuda/MultiTensorApply.cuh, torch 2.13.
_FOREACH_CHUNK = 65536
_CLIP_SOURCE = "torch/nn/utils/clip_grad.py, torch 2.13.0"
_QUANTISED_SOURCE = "bitsandbytes/nn/modules.py, bitsandbytes 0.50.2"


def resident_terms(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """What is on the card between steps: parameters, trained and frozen, and optimizer states.

    With ZeRO 1 and 2 and Megatron's distributed optimizer the states are those of other shapes than the
    parameters: use ``parameter_terms`` and ``state_terms``, each with its own tensors.
    """
    return *parameter_terms(tensors, job), *state_terms(tensors, job)


def parameter_terms(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """The parameters on the card."""
    return () if "parameters" in job.offload else tuple(_parameters(tensors))


def state_terms(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """The optimizer's states on the card, master copies among them."""
    if "optimizer_states" in job.offload:
        return ()
    return tuple(term for term, on_host in _states(tensors, job) if not on_host)


def host_terms(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """What the host holds between steps: what is offloaded, torch's step counters, paged states.

    Paged states are unified memory, that moves to the card while there is room; PyTorch's allocator does not
    count it there either (bitsandbytes 0.50.2, ``get_paged``: cudaMallocManaged).
    """
    offloaded = "optimizer_states" in job.offload
    states = [term for term, on_host in _states(tensors, job) if on_host or offloaded]
    parameters = _parameters(tensors) if "parameters" in job.offload else ()
    return *parameters, *states


def _parameters(tensors: Iterable[LocalTensor]) -> Iterator[Term]:
    for tensor in tensors:
        component = PARAMETERS if tensor.is_trained else FROZEN_PARAMETERS
        if tensor.quantised is None:
            formula = formula_of(tensor.shape, tensor.number_type)
            yield Term(component, tensor.name, tensor.bytes * tensor.count, formula, "", tensor.count)
            continue
        for part, size_bytes in quantised_storages(tensor.shape, tensor.quantised):
            formula = formula_of(tensor.shape, tensor.quantised)
            name = f"{tensor.name}.{part}"
            yield Term(component, name, size_bytes * tensor.count, formula, _QUANTISED_SOURCE, tensor.count)


def _states(tensors: Sequence[LocalTensor], job: Job) -> Iterator[tuple[Term, bool]]:
    """Every state with whether it lies on the host."""
    trained = _trained(tensors)
    for tensor in trained if keeps_master(job) else ():
        if not _is_fp32(tensor.number_type):
            master = State("master", bytes_for(tensor.elements, "fp32"), formula_of(tensor.shape, "fp32"))
            yield _state_term(tensor, master, "the optimizer's fp32 copy"), False
    shared: dict[str, tuple[Term, bool]] = {}
    for tensor in _as_updated(trained, job):
        family, optimizer = _family(tensor, job.optimizer)
        for state in family.states(tensor, optimizer):
            yield _state_term(tensor, state, family.source), state.on_host
        for state in family.shared(tensor, optimizer):
            term = Term(OPTIMIZER_STATES, state.name, state.bytes, state.formula, family.source)
            shared[state.name] = (term, state.on_host)
    yield from shared.values()


def _state_term(tensor: LocalTensor, state: State, source: str) -> Term:
    name = f"{tensor.name}.{state.name}"
    return Term(OPTIMIZER_STATES, name, state.bytes * tensor.count, state.formula, source, tensor.count)


def keeps_master(job: Job) -> bool:
    """Whether the optimizer works on a copy of the parameters in fp32 (of those that are not fp32)."""
    return job.optimizer.keeps_master or job.precision.policy == "megatron"


def gradient_type(tensor: LocalTensor, job: Job) -> str:
    """The number type of the gradient that ``tensor`` keeps; Megatron's ``main_grad`` is fp32 by default."""
    default = "fp32" if job.precision.policy == "megatron" else tensor.number_type
    return job.precision.gradients or default


def gradient_terms(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """The gradients of all trained parameters, as they are held from one micro-batch to the next."""
    terms = []
    for tensor in _trained(tensors):
        kind = gradient_type(tensor, job)
        size_bytes = bytes_for(tensor.elements, kind) * tensor.count
        formula = formula_of(tensor.shape, kind)
        terms.append(Term(GRADIENTS, f"{tensor.name}.grad", size_bytes, formula, "", tensor.count))
    return tuple(terms)


def holds_gradients(job: Job) -> bool:
    """Whether gradients are there when a micro-batch begins: accumulated, zeroed in place, or buffers."""
    if job.optimizer.in_backward:
        return False
    return job.accumulation > 1 or not job.zeroes_to_none or job.precision.policy == "megatron"


def step_temporaries(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """What clipping and the optimizer's step make on the card, at the higher of their highest moments.

    In backward: of the parameter whose step makes most. Where the states are offloaded the step runs on the
    host: nothing here.
    """
    if "optimizer_states" in job.offload:
        return ()
    trained = _trained(tensors)
    seen = _as_updated(trained, job)
    if job.optimizer.in_backward:
        return highest(_step([replace(tensor, count=1)], job.optimizer) for tensor in seen)
    copies = _master_gradients(trained, job)
    step = (*copies, *_step(seen, job.optimizer))
    return highest([step, _clipping(trained, job)])


def host_step_temporaries(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """The same on the host, where the states are offloaded: torch's foreach is for cards alone."""
    if "optimizer_states" not in job.offload or job.optimizer.implementation == "fused":
        return ()
    return _step(_as_updated(_trained(tensors), job), replace(job.optimizer, implementation="loop"))


def not_modelled(job: Job) -> tuple[str, ...]:
    """What of the optimizer's step is not known, for reports."""
    text = family_of(job.optimizer).not_modelled
    return (text,) if text else ()


def bytes_a_parameter(optimizer: Optimizer, number_type: str, shape: tuple[int, ...]) -> float:
    """Bytes of state on the card for each element of a hidden layer's weight of ``shape``."""
    tensor = LocalTensor("weight", shape, "feed_forward", number_type)
    family = family_of(optimizer)
    states = family.states(tensor, optimizer)
    return sum(state.bytes for state in states if not state.on_host) / tensor.elements


def _trained(tensors: Iterable[LocalTensor]) -> tuple[LocalTensor, ...]:
    return tuple(tensor for tensor in tensors if tensor.is_trained)


def _is_fp32(name: str) -> bool:
    return number_type(name) == "fp32"


def _as_updated(tensors: Sequence[LocalTensor], job: Job) -> tuple[LocalTensor, ...]:
    """The tensors that the optimizer is given: fp32 copies where it has them."""
    kind = "fp32" if keeps_master(job) else None
    seen = [(tensor, kind or number_type(tensor.number_type)) for tensor in tensors]
    return tuple(t if t.number_type == own else replace(t, number_type=own) for t, own in seen)


def _family(tensor: LocalTensor, optimizer: Optimizer) -> tuple[Family, Optimizer]:
    if is_for_adamw(tensor, optimizer):
        optimizer = replace(optimizer, name="adamw")
    return family_of(optimizer), optimizer


def _master_gradients(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """Gradients made fp32 for the master copies, all before the step.

    DeepSpeed's ZeRO optimizers (deepspeed/runtime/zero/stage_1_and_2.py, 02aa38c, ``step``:
    ``single_grad_partition``).
    """
    if not keeps_master(job):
        return ()
    return tuple(
        Term(
            TEMPORARIES,
            f"{tensor.name}.grad in fp32",
            bytes_for(tensor.elements, "fp32") * tensor.count,
            formula_of(tensor.shape, "fp32"),
            "deepspeed/runtime/zero/stage_1_and_2.py, 02aa38c",
            tensor.count,
        )
        for tensor in tensors
        if not _is_fp32(gradient_type(tensor, job))
    )


def _step(tensors: Sequence[LocalTensor], optimizer: Optimizer) -> tuple[Term, ...]:
    """Several optimizers step one after the other."""
    of_each = in_groups(tensors, lambda tensor: is_for_adamw(tensor, optimizer))
    return highest(_one_step(some, _family(some[0], optimizer)[1]) for some in of_each)


def _one_step(tensors: Sequence[LocalTensor], optimizer: Optimizer) -> tuple[Term, ...]:
    family = family_of(optimizer)
    how = implementation_of(optimizer, family)
    if how == "fused":
        return ()
    if how == "loop":
        rounds = one_by_one(tensors, lambda tensor: ((tensor,), family.update(tensor, optimizer, how)))
        return peak_of_rounds(list(rounds), family.source)
    by_type = [in_groups(some, family.group) for some in in_groups(tensors, lambda t: t.number_type)]
    # which number type comes first is a hash map's choice (_group_tensors_by_device_and_dtype)
    orders = [[some for groups in order for some in groups] for order in (by_type, by_type[::-1])]
    return highest(
        peak_of_rounds([(some, family.update(some[0], optimizer, how)) for some in order], family.source)
        for order in orders
    )


def _clipping(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """``clip_grad_norm_``: a norm a gradient, and partial norms of each gradient's chunks; then one of all.

    Over lists by number type (foreach is its default on CUDA); as many partial norms a gradient as the
    largest of the list has chunks, in fp32 (ATen/native/cuda/ForeachReduceOp.cu, torch 2.13). Megatron's own
    kernel has a buffer of some hundred numbers, which is left out.
    """
    if not job.optimizer.clips_gradients or not tensors or job.optimizer.library == "megatron":
        return ()
    norms: list[Term] = []
    moments = []
    for some in in_groups(tensors, lambda t: gradient_type(t, job)):
        kind = gradient_type(some[0], job)
        number = sum(tensor.count for tensor in some)
        chunks = max(ceil(tensor.elements / _FOREACH_CHUNK) for tensor in some)
        size_bytes = bytes_for(1, kind) * number
        norms.append(Term(TEMPORARIES, "gradient norms", size_bytes, f"tensors*{kind}", _CLIP_SOURCE, number))
        partial = Term(TEMPORARIES, "partial norms", number * chunks * 4, "tensors*chunks*fp32", _CLIP_SOURCE)
        moments.append((*norms, partial))
    together = sum(term.bytes for term in norms)
    stack = Term(TEMPORARIES, "gradient norms stacked", together, "tensors", _CLIP_SOURCE)
    total = Term(TEMPORARIES, "total norm", bytes_for(1, kind), kind, _CLIP_SOURCE)
    return highest([*moments, (*norms, stack, total)])
