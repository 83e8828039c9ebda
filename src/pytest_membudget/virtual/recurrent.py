"""Recurrent layers: traced as PyTorch's own fused cells, where a GPU would run cuDNN's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

RECURRENT = "cuDNN's recurrent layers: traced as PyTorch's own fused cells, step by step"

#: What a fused GRU cell saves for backward, in hidden sizes (GRU_WORKSPACE_MULTIPLIER of
#: aten/src/ATen/native/cuda/RNN.cu, 2.13).
_GRU_SAVES = 5

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def install_recurrent_layers(note: Callable[[str], None]) -> list[Any]:
    """Keep recurrent layers off cuDNN; ``note`` is told when one runs. Gives what must be kept alive."""
    functions: Any = torch._VF
    implementations: Any = torch.nn.modules.rnn._rnn_impls
    for name in _LAYERS:
        own = _without_cudnn(getattr(functions, name), note)
        setattr(functions, name, own)
        if name.upper() in implementations:
            implementations[name.upper()] = own
    return _install_gru_kernels()


def _without_cudnn(layer: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., Any]:
    @functools.wraps(layer)
    def run(*args: Any) -> Any:
        if not (isinstance(args[0], FakeTensor) and args[0].device.type == "cuda"):
            return layer(*args)
        note(RECURRENT)
        enabled = torch._C._get_cudnn_enabled()
        torch._C._set_cudnn_enabled(False)
        try:
            return layer(*args)
        finally:
            torch._C._set_cudnn_enabled(enabled)

    return run


def _install_gru_kernels() -> list[Any]:
    """Fake kernels for the fused GRU cell, for releases that have none."""
    library = torch.library.Library("aten", "IMPL", "Meta")
    for name, kernel in (("_thnn_fused_gru_cell", _gru), ("_thnn_fused_gru_cell_backward", _gru_backward)):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, kernel)
    return [library]


def _gru(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hidden: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, size = hidden.shape
    return hidden.new_empty(rows, size), hidden.new_empty(rows, size * _GRU_SAVES)


def _gru_backward(
    gradient: torch.Tensor, saved: torch.Tensor, has_bias: bool
) -> tuple[torch.Tensor | None, ...]:
    rows, size = saved.shape[0], saved.shape[1] // _GRU_SAVES
    biases = [gradient.new_empty(3 * size) if has_bias else None for _ in range(2)]
    gates = [gradient.new_empty(rows, 3 * size) for _ in range(2)]
    return *gates, gradient.new_empty(rows, size), *biases
