"""Follows the collectives of a rank with their tensors, and what FSDP2 keeps for them.

Each operator of ``c10d`` runs unchanged, in C++, called by a function of this module. That is registered for
the device's dispatch key, so that C++ calls it too: DistributedDataParallel, functional collectives.
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch

from ...tracking.roles.tensor_parts import tensors_in
from ...tracking.running_code.source import SourceFinder
from .kernels import kernel_of

#: Code that keeps buffers for its collectives alone: what it hands to one is such a buffer.
_KEEPERS = tuple(
    os.path.join("torch", *path)
    for path in (
        ("distributed", "fsdp", ""),
        ("distributed", "algorithms", ""),
        ("nn", "parallel", "distributed.py"),
    )
)
_ENGINE_ENTRY = torch.autograd.graph._engine_run_backward.__code__
#: Frames between C++ and a function that is registered for an operator: a mode's method and its wrappers.
_DISPATCHERS = frozenset(
    {"__torch_dispatch__", "wrapper", "inner", "_fn", "__call__", "handle_torch_function"}
)

#: Devices whose tensors the process groups of a rank serve.
_KEYS = ("CUDA", "CPU")

#: Called with a collective's tensors, and whether they are buffers kept for collectives.
NoteCollective = Callable[..., object]
#: Called before a collective with its name, its operator, its arguments and the frame that has called it.
Before = Callable[[str, Any, Sequence[Any], FrameType | None], Any]
#: Called after it with its name, its arguments and the result of ``Before``.
After = Callable[[str, Sequence[Any], Any], object]
#: Makes of a function one whose kernels nobody follows.
Quiet = Callable[[Callable[..., Any]], Callable[..., Any]]
#: Called with a parameter and its gradient.
SeeGradient = Callable[[torch.Tensor, torch.Tensor], object]


def follow_collectives(
    before: Before,
    after: After = lambda operator, args, known: None,
    quiet: Quiet = lambda function: function,
) -> object:
    """Call ``before`` and ``after`` each collective of this process, as long as the result is referenced."""
    library: Any = torch.library.Library("c10d", "IMPL")
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
        for name in names:
            for key in _KEYS:
                if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
                    call = quiet(kernel_of(name, key))
                    run = _following(call, name, before, after)
                    library.impl(name.removeprefix("c10d::"), run, key, with_keyset=True)
    return library


def _following(call: Callable[..., Any], name: str, before: Before, after: After) -> Callable[..., Any]:
    operator = name.removeprefix("c10d::")
    func = getattr(torch.ops.c10d, operator).default

    def run(keys: Any, *args: Any) -> Any:
        known = before(operator, func, args, sys._getframe().f_back)
        result = call(keys, *args)
        after(operator, args, known)
        return result

    return run


def note_tensors(
    note: NoteCollective, args: Sequence[Any], frame: FrameType | None, source: SourceFinder
) -> None:
    """Call ``note`` with the CUDA tensors of the collective that ``frame`` calls."""
    kept = _is_keepers(frame, source)
    for tensor in tensors_in(args):
        if tensor.is_cuda:
            note(tensor, kept=kept)


def install_gathered(note_collective: NoteCollective, see_gradient: SeeGradient) -> None:
    """Record FSDP2's all-gathered parameters, and their gradients before they are reduced, from here on.

    The gathered tensors are kept, and their storages resized: filled before each all-gather, emptied after
    use. The unsharded parameters are in no module, so hooks on modules do not see their gradients.
    """
    from torch.distributed.fsdp._fully_shard import _fsdp_param, _fsdp_param_group

    kind: Any = _fsdp_param.FSDPParam
    group_kind: Any = _fsdp_param_group.FSDPParamGroup
    allocate, reshard = kind.alloc_all_gather_outputs, kind.to_sharded_post_forward
    reduce = group_kind.post_backward

    def alloc_all_gather_outputs(parameter: Any) -> None:
        allocate(parameter)
        for output in parameter.all_gather_outputs:
            note_collective(output, kept=True)

    def to_sharded_post_forward(parameter: Any, *args: Any, **kwargs: Any) -> None:
        reshard(parameter, *args, **kwargs)
        note_collective(parameter._sharded_post_forward_param_data, kept=True)

    def post_backward(group: Any, *args: Any, **kwargs: Any) -> None:
        _see_gathered_gradients(group, see_gradient)
        reduce(group, *args, **kwargs)
        _see_gathered_gradients(group, see_gradient)  # without a reduction, cast for a later one

    kind.alloc_all_gather_outputs = alloc_all_gather_outputs
    kind.to_sharded_post_forward = to_sharded_post_forward
    group_kind.post_backward = post_backward


def _see_gathered_gradients(group: Any, see_gradient: SeeGradient) -> None:
    for parameter in group.fsdp_params:
        whole = getattr(parameter, "_unsharded_param", None)
        if whole is not None:
            for gradient in (whole.grad, parameter.unsharded_accumulated_grad):
                if gradient is not None:
                    see_gradient(whole, gradient)


def _is_keepers(frame: FrameType | None, source: SourceFinder) -> bool:
    """Whether such code asked for the collective that ``frame`` runs: FSDP, DDP in Python or C++."""
    if _called_by_engine(frame):
        return True
    while frame is not None and not source.shows(frame.f_code.co_filename):
        if any(part in frame.f_code.co_filename for part in _KEEPERS):
            return True
        frame = frame.f_back
    return False


def _called_by_engine(frame: FrameType | None) -> bool:
    """Whether ``frame`` is the call into the autograd engine; no frame at all is a thread of the engine's."""
    while frame is not None and frame.f_code.co_name in _DISPATCHERS:
        frame = frame.f_back
    return frame is None or frame.f_code is _ENGINE_ENTRY
