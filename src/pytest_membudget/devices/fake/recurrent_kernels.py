"""Fake kernels of cuDNN's recurrent layers, and of the fused GRU cell for releases that have none.

cuDNN keeps a reserve for backward whose size only the library knows. Two sizes are published, of one script's
stacks (pytorch/pytorch#2895, comment of 2017-10-04, Tesla P100): 736,000,000 bytes for LSTM and 864,000,000
for GRU. Its parameter counts (3,038,090 and 2,279,370) fit 4 layers 320 wide; the steps of all samples are
not given. 25,000 of them, with 320 fp32 numbers, make both figures to the byte if an LSTM layer keeps 5 of
its widths, a GRU layer 6, and one more lies between two layers. This is an inference, and the figure taken
here; for plain RNNs none is published, and one width a layer is assumed. Later releases of cuDNN, dropout,
two directions and half precision have not been compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, contiguous_copy_bytes, tensor_bytes

aten = torch.ops.aten

#: Widths that a layer keeps for each step: by cudnnRNNMode_t (ReLU, tanh, LSTM, GRU).
_KEPT_A_LAYER: Final = (1, 1, 5, 6)

#: What a fused GRU cell saves for backward, in hidden sizes (GRU_WORKSPACE_MULTIPLIER of
#: aten/src/ATen/native/cuda/RNN.cu, 2.13).
_GRU_SAVES: Final = 5


def reserve_bytes(
    steps_of_samples: int, width: int, layers: int, directions: int, mode: int, number: int
) -> int:
    """What cuDNN keeps of a forward pass: ``steps_of_samples`` steps of all samples together."""
    kept = directions * (_KEPT_A_LAYER[mode] * layers + layers - 1)
    return steps_of_samples * width * kept * number


def register_recurrent_kernels() -> list[torch.library.Library]:
    """Register them; they hold as long as the libraries live."""
    library = torch.library.Library("aten", "IMPL", "Meta")
    for name, kernel in (("_thnn_fused_gru_cell", _gru), ("_thnn_fused_gru_cell_backward", _gru_backward)):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own makes no reserve
        library.impl("_cudnn_rnn", _cudnn_rnn, allow_override=True)
        library.impl("_cudnn_rnn_backward", _cudnn_rnn_backward, allow_override=True)
    return [library]


def _cudnn_rnn(
    tensor: torch.Tensor,
    weights: Sequence[torch.Tensor],
    stride: int,
    flat: torch.Tensor | None,
    state: torch.Tensor,
    cell: torch.Tensor | None,
    mode: int,
    width: int,
    projected: int,
    layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
    dropout_state: torch.Tensor | None,
) -> tuple[torch.Tensor, ...]:
    directions = 2 if bidirectional else 1
    out_width = (projected or width) * directions
    if batch_sizes:
        batch, samples = batch_sizes[0], tensor.shape[0]
        output = tensor.new_empty(samples, out_width)
    else:
        steps, batch = (tensor.shape[1], tensor.shape[0]) if batch_first else tensor.shape[:2]
        samples = steps * batch
        output = tensor.new_empty(steps, batch, out_width)
        output = output.transpose(0, 1) if batch_first else output
    last = state.new_empty(layers * directions, batch, projected or width)
    last_cell = state.new_empty(0) if cell is None else cell.new_empty(layers * directions, batch, width)
    kept = reserve_bytes(samples, width, layers, directions, mode, tensor.element_size()) if train else 0
    reserve = tensor.new_empty(kept, dtype=torch.uint8)
    if flat is None:
        biases = 0 if stride > 3 else 2 * (1, 1, 4, 3)[mode] * width * layers * directions
        flat = tensor.new_empty(sum(weight.numel() for weight in weights) + biases)
    return output, last, last_cell, reserve, flat


def _cudnn_rnn_backward(
    tensor: torch.Tensor,
    weights: Sequence[torch.Tensor],
    stride: int,
    flat: torch.Tensor,
    state: torch.Tensor,
    cell: torch.Tensor | None,
    output: torch.Tensor,
    *rest: Any,
) -> tuple[Any, ...]:
    batch_first, train, batch_sizes, mask = rest[7], rest[9], rest[11], rest[14]
    if not train:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")
    flipped = batch_first and not batch_sizes
    shape = tensor.transpose(0, 1).shape if flipped else tensor.shape
    gradient = tensor.new_empty(shape)
    gradient = gradient.transpose(0, 1) if flipped else gradient
    of_state = state.new_empty(state.shape)
    of_cell = cell.new_empty(cell.shape) if cell is not None else None
    return gradient, of_state, of_cell, _weight_gradients(flat, weights) if mask[3] else []


def _weight_gradients(flat: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Views of one buffer, of the weights' own: biases that a layer lacks are in it too."""
    gradients = torch.empty_like(flat)
    views, offset = [], 0
    for weight in weights:
        views.append(gradients[offset : offset + weight.numel()].view(weight.shape))
        offset += weight.numel()
    return views


def run_temporaries(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_cudnn_rnn``: its input is copied to be contiguous, steps first."""
    tensor, batch_first, batch_sizes = args[0], args[10], args[14]
    return contiguous_copy_bytes(tensor.transpose(0, 1) if batch_first and not batch_sizes else tensor)


def backward_temporaries(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_cudnn_rnn_backward``: copies of input and gradient, steps first; zeros where no gradient came."""
    tensor, output, gradient = args[0], args[6], args[7]
    zeros = [
        tensor_bytes(like)
        for like, given in ((output, gradient), (args[4], args[8]), (args[5], args[9]))
        if given is None and like is not None
    ]
    copied = [one for one in (tensor, gradient) if one is not None]
    if args[14] and not args[18]:
        copied = [one.transpose(0, 1) for one in copied]
    return zeros + contiguous_copy_bytes(*copied)


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


RECURRENT_RULES: Final[Mapping[Any, Rule]] = {
    aten._cudnn_rnn.default: run_temporaries,
    aten._cudnn_rnn_backward.default: backward_temporaries,
}
