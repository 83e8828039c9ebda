"""The private parts of torch that the virtual device uses, by name and purpose."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..errors import UnsupportedTorch

OLDEST = (2, 11)

#: (module, attribute path, what it is for). tests/devices/traced/test_private.py has one test a row.
PRIVATE_PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._C", "_ensureCUDADeviceGuardSet", "a no-op CUDA guard, so that autograd accepts cuda tensors"),
    ("torch._C", "_current_graph_task_id", "whether a backward is running"),
    ("torch._C", "_current_autograd_node", "which backward node allocates"),
    ("torch.autograd", "_get_sequence_nr", "which stream a backward node runs on"),
    ("torch._C", "_storage_Use_Count", "whether a gradient may be added to in place"),
    ("torch._C", "_swap_tensor_impl", "moving fake parameters in Module.to"),
    ("torch._C", "_dispatch_has_kernel_for_dispatch_key", "which operators are composite"),
    ("torch", "Tensor._use_count", "whether a gradient may be added to in place"),
    ("torch.autograd.graph", "_engine_run_backward", "distinguishing the autograd engine from other callers"),
    ("torch._subclasses.fake_tensor", "_DISPATCH_META_HANDLERS", "the engine's questions for a device"),
    ("torch._subclasses.fake_tensor", "FakeTensorMode.dispatch", "running an operator on fake tensors"),
    ("torch._subclasses.fake_tensor", "FakeTensorMode.avoid_device_init", "keeping torch off the driver"),
    ("torch._subclasses.fake_tensor", "init_gpu_context", "keeping torch off the driver"),
    (
        "torch._subclasses.fake_tensor",
        "FakeTensorMode.can_run_unsafe_fallback",
        "naming operators without fake kernels",
    ),
    ("torch._C", "_select_conv_backend", "convolutions as CUDA runs them"),
    ("torch._C", "_conv_determine_backend_memory_format", "convolutions as CUDA lays them"),
    ("torch._C", "_ConvBackend.CudnnTranspose", "convolutions as CUDA runs them"),
    ("torch._prims_common", "suggest_memory_format", "convolutions as CUDA lays them"),
    ("torch._C", "_set_dispatch_mode", "the device in threads"),
    ("torch._C", "_set_only_lift_cpu_tensors", "the device in threads"),
    ("torch._C", "_DisableTorchDispatch", "reading what is known of values"),
    ("torch._C", "_functorch.is_functorch_wrapped_tensor", "parameters inside torch.func"),
    ("torch._functorch.eager_transforms", "_autograd_grad", "refusing transforms of torch.func.grad"),
    ("torch._functorch.eager_transforms", "grad_increment_nesting", "torch.func.grad without wrappers"),
    ("torch._functorch.eager_transforms", "_wrap_all_tensors", "torch.func.grad without wrappers"),
    ("torch._functorch.eager_transforms", "_create_differentiable", "torch.func.grad without wrappers"),
    ("torch._functorch.eager_transforms", "_undo_create_differentiable", "torch.func.grad without wrappers"),
    ("torch._C", "_functorch.peek_interpreter_stack", "torch.func.grad without wrappers"),
    ("torch._higher_order_ops.flex_attention", "create_fw_bw_graph", "flex attention's examples"),
    ("torch._utils", "_restore_device_fake_mode", "counting what torch.load puts on cuda"),
    ("torch.library", "_impls", "extensions' kernels that are Python code"),
    ("torch._library.simple_registry", "singleton.find", "extensions' fake kernels"),
    ("torch._ops", "OpOverload.redispatch", "extensions' kernels that are Python code"),
    ("torch._VF", "lstm", "recurrent layers as cuDNN's"),
    ("torch.nn.modules.rnn", "_rnn_impls", "recurrent layers as cuDNN's"),
    ("torch.nn.modules.rnn", "RNNBase.flatten_parameters", "recurrent layers' flat weights"),
    ("torch", "_cudnn_rnn", "recurrent layers as cuDNN's"),
    ("torch.utils.data.dataloader", "_BaseDataLoaderIter", "loaders' workers in the test's process"),
    ("torch.utils.data._utils.worker", "WorkerInfo", "loaders' workers in the test's process"),
    ("torch.utils.data.dataloader", "DataLoader._get_iterator", "loaders' workers in the test's process"),
    ("torch.optim.optimizer", "_foreach_supported_types", "CUDA's foreach default"),
    ("torch.utils._device", "_device_constructors", "torch.device as a context, for torch.tensor"),
    ("torch.utils._foreach_utils", "_foreach_supported_types", "CUDA's foreach default in clipping"),
    (
        "torch.utils.backend_registration",
        "_setup_privateuseone_for_python_backend",
        "the engine's accelerator",
    ),
)


def check_torch() -> None:
    """Raise ``UnsupportedTorch`` if this torch is too old, or lacks a part that the device needs."""
    if torch_release() < OLDEST:
        raise UnsupportedTorch(
            f"torch {torch.__version__} is too old for the virtual device: it is made for torch "
            f"{OLDEST[0]}.{OLDEST[1]} and later; install a newer torch"
        )
    check_parts(PRIVATE_PARTS)


def check_parts(parts: Iterable[tuple[str, str, str]]) -> None:
    """Raise ``UnsupportedTorch`` if this torch lacks one of ``parts``: modules, attribute paths, purposes."""
    if missing := _missing(parts, importlib.import_module):
        raise UnsupportedTorch(
            f"torch {torch.__version__} is not a torch that the virtual device was made for: it has no "
            + f"{missing}. Install a torch that this release names as tested, or a newer pytest-membudget."
        )


def checked(
    change: Callable[[Any], None], parts: Iterable[tuple[str, str, str]], releases: str
) -> Callable[[Any], None]:
    """``change``, of a module of another package than torch, where that has what it changes.

    ``releases``: those that have, as in ``bitsandbytes 0.50``. What it gives raises ``UnsupportedTorch``. Who
    imports the module may catch that: it is noted as refused.
    """
    name = releases.split()[0]

    def apply(module: Any) -> None:
        if missing := _missing((part for part in parts if part[0] == module.__name__), lambda _: module):
            reason = (
                f"this {name} is not one that the virtual device was made for: it has no {missing}. "
                f"Install {releases}, or a newer pytest-membudget."
            )
            from .stand_in.values.refusals import note_refusal  # imports parts that another torch may lack

            note_refusal(reason)
            raise UnsupportedTorch(reason)
        change(module)

    return apply


def _missing(parts: Iterable[tuple[str, str, str]], load: Callable[[str], Any]) -> str:
    return "; no ".join(
        f"{name}.{path} ({purpose})" for name, path, purpose in parts if not _has(load, name, path)
    )


def torch_release() -> tuple[int, int]:
    """Major and minor of the installed torch."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if found is None:
        raise UnsupportedTorch(
            f"torch's version is {str(torch.__version__)!r}, which names no release; install torch "
            f"{OLDEST[0]}.{OLDEST[1]} or later"
        )
    return int(found[1]), int(found[2])


def _has(load: Callable[[str], Any], module: str, path: str) -> bool:
    try:
        found = load(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return False
    return True
