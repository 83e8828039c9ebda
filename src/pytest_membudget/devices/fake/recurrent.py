"""Recurrent layers as a GPU runs them: one call of cuDNN's, on weights that lie in one flat buffer.

``_cudnn_rnn`` and its derivative are in every build, and so is what autograd saves for it; the choice of it
and the code around it are C++ of CUDA builds: ``_cudnn_impl``, ``try_get_weight_buf`` and
``copy_weights_to_flat_buf_views`` of aten/src/ATen/native/cudnn/RNN.cpp, ``_cudnn_rnn_cast_reflatten`` of
aten/src/ATen/cudnn/AutocastRNN.cpp and ``cudnn_is_acceptable`` (pytorch/pytorch 2.6.0).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from .recurrent_kernels import register_recurrent_kernels

#: cudnnRNNMode_t
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_TYPES = (torch.float16, torch.float32, torch.float64)


def install_recurrent_layers(see_parameter: Callable[[torch.Tensor], None]) -> list[Any]:
    """Let recurrent layers run cuDNN's kernel; ``see_parameter`` is called with moved parameters.

    Gives what must be kept alive.
    """
    functions: Any = torch._VF
    implementations: Any = torch.nn.modules.rnn._rnn_impls
    for name in _MODES:
        own = _on_cudnn(name, getattr(functions, name))
        setattr(functions, name, own)
        if name.upper() in implementations:
            implementations[name.upper()] = own
    _install_flattening(see_parameter)
    return register_recurrent_kernels()


def _on_cudnn(name: str, layer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(layer)
    def run(*args: Any) -> Any:
        if not _is_acceptable(args[0]):
            return layer(*args)
        packed = isinstance(args[3], (list, tuple))  # (data, batch_sizes, hx, weights, ...)
        tensor, hidden, weights, has_biases, layers, dropout, train, bidirectional = (
            (args[0], *args[2:9]) if packed else args[:8]
        )
        state, cell = hidden if name == "lstm" else (hidden, None)
        width = (cell if cell is not None else state).shape[2]
        projected = state.shape[2] if state.shape[2] != width else 0
        stride = (4 if has_biases else 2) + bool(projected)
        missing = 0 if has_biases else 2 * _GATES[name] * width * layers * (2 if bidirectional else 1)
        tensor, weights, flat, state, cell = _as_autocast(tensor, weights, missing, state, cell)
        kernel: Any = torch._cudnn_rnn
        output, last, last_cell, _, _ = kernel(
            *(tensor, weights, stride, flat, state, cell, _MODES[name], width, projected, layers),
            *(not packed and args[8], dropout, train, bidirectional),
            *(_batch_sizes(tensor, args[1], state) if packed else [], None),
        )
        return (output, last, last_cell) if name == "lstm" else (output, last)

    return run


def _is_acceptable(tensor: Any) -> bool:
    on_cuda = isinstance(tensor, FakeTensor) and tensor.device.type == "cuda"
    return on_cuda and torch._C._get_cudnn_enabled() and tensor.dtype in _TYPES and tensor.numel() > 0


def _batch_sizes(data: torch.Tensor, sizes: torch.Tensor, state: torch.Tensor) -> list[int]:
    """As many as there are steps, the largest first, and all that there are: the rest are not known."""
    steps, batch = sizes.shape[0], state.shape[1]
    return [batch, data.shape[0] - batch, *[0] * (steps - 2)] if steps > 1 else [batch]


def _as_autocast(
    tensor: torch.Tensor,
    weights: Sequence[torch.Tensor],
    missing: int,
    state: torch.Tensor,
    cell: torch.Tensor | None,
) -> tuple[torch.Tensor, Sequence[torch.Tensor], torch.Tensor | None, torch.Tensor, torch.Tensor | None]:
    """In autocast, whatever its type, all in half precision and the weights copied to a flat buffer."""
    if not torch.is_autocast_enabled("cuda") or weights[0].dtype == torch.float16:
        return tensor, weights, _flat_buffer(weights, missing), state, cell
    with torch.autocast("cuda", enabled=False):
        flat = torch.zeros(_numbers(weights) + missing, dtype=torch.float16, device=tensor.device)
        views = [view.copy_(weight) for view, weight in zip(_views(flat, weights), weights, strict=True)]
        halves = (one.half() if one is not None else None for one in (tensor, state, cell))
        tensor, state, cell = halves  # type: ignore[assignment]
    return tensor, views, flat, state, cell


def _flat_buffer(weights: Sequence[torch.Tensor], missing: int) -> torch.Tensor | None:
    """The one buffer that all of ``weights`` lie in; None where they do not, and cuDNN's call copies them."""
    storage = weights[0].untyped_storage()
    count = _numbers(weights) + missing
    if any(weight.untyped_storage()._cdata != storage._cdata for weight in weights):
        return None
    if storage.nbytes() < count * weights[0].element_size():
        return None
    flat: torch.Tensor = weights[0].detach().new_empty(0)
    return flat.set_(storage, 0, (count,), (1,))


def _numbers(weights: Sequence[torch.Tensor]) -> int:
    return sum(weight.numel() for weight in weights)


def _views(flat: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors in ``flat``'s storage, one after the other, which autograd takes for separate tensors."""
    views, offset = [], 0
    for weight in weights:
        strides = [math.prod(weight.shape[index + 1 :]) for index in range(weight.dim())]
        view = flat.new_empty(0).set_(flat.untyped_storage(), offset, tuple(weight.shape), tuple(strides))
        views.append(view)
        offset += weight.numel()
    return views


def _install_flattening(see_parameter: Callable[[torch.Tensor], None]) -> None:
    """``flatten_parameters`` moves the weights to a new flat buffer each time, as on CUDA."""
    kind: Any = nn.RNNBase
    original = kind.flatten_parameters

    @functools.wraps(original)
    def flatten_parameters(module: nn.RNNBase) -> None:
        weights: list[Any] = list(module._flat_weights)
        complete = len(weights) == len(module._flat_weights_names)
        acceptable = complete and all(_is_acceptable(weight) for weight in weights)
        one_type = len({weight.dtype for weight in weights if isinstance(weight, torch.Tensor)}) == 1
        if not acceptable or not one_type or len({id(weight) for weight in weights}) != len(weights):
            original(module)
            return
        directions = 2 if module.bidirectional else 1
        gates = _GATES[module.mode.lower()]
        missing = 0 if module.bias else 2 * gates * module.hidden_size * module.num_layers * directions
        with torch.no_grad():
            _flatten(weights, missing)
        for weight in weights:
            see_parameter(weight)

    kind.flatten_parameters = flatten_parameters


def _flatten(weights: Sequence[torch.Tensor], missing: int) -> None:
    flat = weights[0].new_zeros(_numbers(weights) + missing)
    for view, weight in zip(_views(flat, weights), weights, strict=True):
        view.copy_(weight)
        weight.set_(view)  # type: ignore[call-overload]
