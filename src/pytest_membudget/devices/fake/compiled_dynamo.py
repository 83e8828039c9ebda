"""Dynamo on the virtual device: functions that were replaced, frames with DTensors, optimizers' states."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from .mode import VirtualMode

#: Modules of torch whose functions the device replaces; dynamo knows them by what they were.
_REPLACED_IN = ("torch", "torch.cuda", "torch.accelerator", "torch.cuda.memory", "torch.cuda.random")

#: (module, attribute path, what it is for): see ``private``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._dynamo.trace_rules", "get_torch_obj_rule_map", "compiled regions: functions replaced here"),
    (
        "torch._dynamo.variables.torch",
        "TorchInGraphFunctionVariable._get_handlers",
        "compiled regions: functions replaced here",
    ),
    ("torch._dynamo.variables.torch", "constant_fold_functions", "compiled regions: functions replaced here"),
    (
        "torch._dynamo.variables.torch",
        "constant_fold_functions_need_guards",
        "compiled regions: functions replaced here",
    ),
    ("torch._dynamo.variables.optimizer", "OptimizerVariable.call_method", "compiled optimizer steps"),
    ("torch._dynamo.convert_frame", "CatchErrorsWrapper.__call__", "compiled regions: DTensors, DDP's cuts"),
    ("torch._dynamo.types", "ConvertFrameReturn", "compiled regions: DTensors"),
    ("torch._dynamo.types", "FrameExecStrategy", "compiled regions: DTensors"),
    ("torch.utils._python_dispatch", "_disable_current_modes", "compiled regions: DDP's cuts"),
)


def functions_before() -> dict[str, dict[str, Any]]:
    """Torch's functions before the device is installed, which dynamo learns while they are what they are."""
    with contextlib.suppress(ImportError, AttributeError):  # ``PARTS`` are checked when they are used
        from torch._dynamo import trace_rules
        from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

        trace_rules.get_torch_obj_rule_map()
        TorchInGraphFunctionVariable._get_handlers()
    return {name: dict(vars(sys.modules[name])) for name in _REPLACED_IN}


def introduce_replaced(functions_then: dict[str, dict[str, Any]]) -> None:
    """Let dynamo take the present functions for those in ``functions_then``."""
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import torch as functions

    own: Any = functions
    tables: list[dict[Any, Any]] = [
        trace_rules.get_torch_obj_rule_map(),
        own.TorchInGraphFunctionVariable._get_handlers(),
        own.constant_fold_functions,
        own.constant_fold_functions_need_guards,
    ]
    for module, before in functions_then.items():
        now = vars(sys.modules[module])
        for name, old in before.items():
            new = now.get(name)
            if new is not old and callable(new) and callable(old):
                _same_in(tables, old, new)
                if hasattr(old, "__wrapped__") and not hasattr(
                    new, "__wrapped__"
                ):  # what dynamo compares with
                    new.__wrapped__ = old.__wrapped__


def _same_in(tables: list[dict[Any, Any]], old: Any, new: Any) -> None:
    for table in tables:
        with contextlib.suppress(TypeError):  # not hashable
            if old in table:
                table.setdefault(new, table[old])


def install_frames(keep_eager: Callable[[Any], None]) -> None:
    """Have frames that work on DTensors run as they are: ``keep_eager`` is called with what holds them.

    Dynamo keeps modes away while it traces a frame, but not where DDP cuts a graph by its buckets.
    """
    from torch._dynamo.convert_frame import CatchErrorsWrapper
    from torch._dynamo.types import ConvertFrameReturn
    from torch.utils._python_dispatch import _disable_current_modes

    callbacks: Any = CatchErrorsWrapper
    original = callbacks.__call__

    def call(callback: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes(), warnings.catch_warnings():
            # dynamo looks at the gradient of every input; of a fake one that is no leaf, torch warns
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a")
            if (holder := _holder_of_dtensors(frame)) is not None:
                keep_eager(holder)
                return ConvertFrameReturn(_eagerly(holder), apply_to_code=False)
            return original(callback, frame, *args, **kwargs)

    callbacks.__call__ = call


def _holder_of_dtensors(frame: Any) -> Any:
    """What in a frame holds DTensors, as tensor parallelism has them: a module, or itself; None without."""
    from torch._dynamo import trace_rules

    package = sys.modules.get("torch.distributed.tensor")
    if package is None or trace_rules.check(frame.f_code):  # such a frame is not compiled anyway
        return None
    for value in frame.f_locals.values():
        tensors = value.parameters() if isinstance(value, nn.Module) else (value,)
        if any(isinstance(tensor, package.DTensor) for tensor in tensors):
            return value
    return None


def _eagerly(holder: Any) -> Any:
    """Run a frame as it is, with all it calls; but below a module of FSDP's each layer has tensors again."""
    types: Any = importlib.import_module("torch._dynamo.types")
    skip, default = types.FrameAction.SKIP, types.FrameAction.DEFAULT
    fsdp = sys.modules.get("torch.distributed.fsdp")
    is_fsdp = fsdp is not None and isinstance(holder, fsdp.FSDPModule)
    return types.FrameExecStrategy(skip, default if is_fsdp else skip)


def install_streams() -> None:
    """What compiled code asks for its stream by; from 2.15 on that is a function of C++, which wants CUDA."""
    import torch

    for name in ("torch._dynamo.utils", "torch._dynamo.guards"):
        module: Any = importlib.import_module(name)
        if hasattr(module, "get_current_stream"):
            module.get_current_stream = lambda device: torch.accelerator.current_stream(device)


def install_optimizers(mode: VirtualMode) -> None:
    """Make the states of a compiled optimizer in ``mode``: that is done while dynamo traces, without any."""
    from torch._dynamo.variables.optimizer import OptimizerVariable

    variables: Any = OptimizerVariable
    original = variables.call_method

    def call_method(variable: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        with mode if name == "_init_group" else contextlib.nullcontext():
            return original(variable, tx, name, *args, **kwargs)

    variables.call_method = call_method
