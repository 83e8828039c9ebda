"""Device memory that PyTorch's reduction kernels allocate, and free before they return.

A sum, norm or maximum over much input for few outputs is split over thread blocks, which meet in a buffer
and count themselves in semaphores. How it is split: ``setReduceConfig`` in ATen/native/cuda/Reduce.cuh, as in
the headers of the CUDA wheels 2.11.0 to 2.15.0 (the same in all). Orders of dimensions, and how an input too
large for 32-bit offsets is halved: ``reorder_dimensions``, ``coalesce_dimensions`` and ``get_dim_to_split``
in aten/src/ATen/TensorIterator.cpp of pytorch/pytorch 2.6.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..hardware.gpus import Gpu

#: ``maxThreadsPerMultiProcessor`` where it is not 2,048. CUDA C++ Programming Guide 13.0, technical
#: specifications by compute capability.
_THREADS_PER_MULTIPROCESSOR = {
    (7, 5): 1024,
    (8, 6): 1536,
    (8, 7): 1536,
    (8, 9): 1536,
    (12, 0): 1536,
    (12, 1): 1536,
}
_WARP = 32
_BLOCK_THREADS = 512
_FEWEST_VALUES, _MOST_VALUES = 16, 256  # a thread's, where input is split over blocks
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NumberTypes:
    """The types of one reduction kernel."""

    input_bytes: int
    """One number of the input."""
    partial_bytes: int
    """One partial result: ``arg_t``."""
    output_bytes: int
    """One number of the output."""
    vector: int = 4
    """Numbers that a thread loads at once: ``input_vec_size``."""
    sums_in_output: bool = True
    """Whether partial results fit the output, where input is too large for 32-bit offsets."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a reduction's iterator; strides in numbers, 0 in the output where reduced."""

    size: int
    output_stride: int
    input_stride: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor's numbers lie; strides and offset in numbers."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


def reduction_buffers(layout: Layout, reduced: frozenset[int], numbers: NumberTypes, gpu: Gpu) -> list[int]:
    """Bytes of the buffer and of the semaphores, to reduce a tensor over its dimensions ``reduced``."""
    if not math.prod(layout.shape):
        return []
    dims = iterator_dimensions(layout.shape, layout.strides, reduced)
    sums: list[int] = []
    if not numbers.sums_in_output and not _fits_32_bits(dims, numbers):
        sums = [numbers.partial_bytes * _outputs(dims)]
    while not _fits_32_bits(dims, numbers):
        dims = _larger_half(dims, numbers)
    return sums + _buffer_and_semaphores(dims, layout.offset, numbers, gpu)


def iterator_dimensions(
    shape: tuple[int, ...], strides: tuple[int, ...], reduced: frozenset[int]
) -> list[Dimension]:
    """Fastest first, reduced dimensions before the others, neighbours that can be one joined."""
    dims: list[Dimension] = []
    step = 1
    for index in reversed(range(len(shape))):
        dims.append(Dimension(shape[index], 0 if index in reduced else step, strides[index]))
        step *= 1 if index in reduced else shape[index]
    return _joined(_ordered(dims))


def _ordered(dims: list[Dimension]) -> list[Dimension]:
    for index in range(1, len(dims)):
        at = index
        for before in reversed(range(index)):
            order = _should_swap(dims[before], dims[at])
            if order < 0:
                break
            if order > 0:
                dims[before], dims[at] = dims[at], dims[before]
                at = before
    return dims


def _should_swap(first: Dimension, second: Dimension) -> int:
    if (first.output_stride == 0) != (second.output_stride == 0):
        return 1 if second.output_stride == 0 else -1
    for one, other in (
        (first.output_stride, second.output_stride),
        (first.input_stride, second.input_stride),
    ):
        if one == 0 or other == 0:
            continue
        if one != other:
            return 1 if one > other else -1
        if first.size > second.size:
            return 1
    return 0


def _joined(dims: list[Dimension]) -> list[Dimension]:
    joined = dims[:1]
    for dim in dims[1:]:
        last = joined[-1]
        fits = (
            last.size * last.output_stride == dim.output_stride
            and last.size * last.input_stride == dim.input_stride
        )
        if last.size == 1:
            joined[-1] = dim
        elif dim.size == 1 or fits:
            joined[-1] = Dimension(last.size * dim.size, last.output_stride, last.input_stride)
        else:
            joined.append(dim)
    return joined


def _fits_32_bits(dims: list[Dimension], numbers: NumberTypes) -> bool:
    count = math.prod(dim.size for dim in dims)
    input_end = 1 + numbers.input_bytes * sum((dim.size - 1) * dim.input_stride for dim in dims)
    output_end = 1 + numbers.output_bytes * sum((dim.size - 1) * dim.output_stride for dim in dims)
    return max(count, input_end, output_end) <= _INT32_MAX


def _larger_half(dims: list[Dimension], numbers: NumberTypes) -> list[Dimension]:
    """``with_32bit_indexing`` halves the dimension that reaches furthest."""

    def extent(dim: Dimension) -> int:
        reach = max(dim.output_stride * numbers.output_bytes, dim.input_stride * numbers.input_bytes)
        return (dim.size - 1) * reach

    widest = max(reversed(range(len(dims))), key=lambda index: extent(dims[index]))
    half = replace(dims[widest], size=math.ceil(dims[widest].size / 2))
    return [*dims[:widest], half, *dims[widest + 1 :]]


def _outputs(dims: list[Dimension]) -> int:
    return math.prod(dim.size for dim in dims if dim.output_stride)


def _buffer_and_semaphores(dims: list[Dimension], offset: int, numbers: NumberTypes, gpu: Gpu) -> list[int]:
    outputs = _outputs(dims)
    inputs = math.prod(dim.size for dim in dims) // outputs
    reduced_dims = sum(dim.output_stride == 0 for dim in dims)
    along_input = not dims or reduced_dims == len(dims)
    along_input = along_input or dims[0].input_stride < dims[reduced_dims].input_stride
    wide, high = (inputs, outputs) if along_input else (outputs, inputs)
    fastest = 1 if not dims else dims[0 if along_input else reduced_dims].input_stride
    vector = 1
    if fastest == 1 and along_input and wide >= 128 and reduced_dims == 1:
        wide //= numbers.vector
    elif fastest == 1 and not along_input:
        vector = _output_vector(dims, reduced_dims, offset)
        wide //= vector
    width, height = _block(wide, high, _BLOCK_THREADS // vector)
    values = math.ceil(inputs / width) if along_input else inputs
    columns = 1 if along_input else width  # outputs that a block works on side by side
    if values < min(height * 16, _MOST_VALUES):
        return []
    values = math.ceil(inputs / (width * height if along_input else height))
    blocks = math.ceil(outputs // vector / columns)
    split = _blocks_an_output(values, blocks, width * height, gpu)
    if split == 1:
        return []
    lanes = 1 if along_input else width * vector
    return [numbers.partial_bytes * outputs * split * lanes, 4 * blocks]


def _output_vector(dims: list[Dimension], reduced_dims: int, offset: int) -> int:
    others = [dim.input_stride for index, dim in enumerate(dims) if index != reduced_dims]
    numbers = (offset, dims[reduced_dims].size, *others)
    return next(vector for vector in (4, 2, 1) if all(number % vector == 0 for number in numbers))


def _block(wide: int, high: int, threads: int) -> tuple[int, int]:
    """Width and height of a thread block: ``set_block_dimension``."""
    wide, high = (1 << (min(max(size, 1), threads).bit_length() - 1) for size in (wide, high))
    height = min(high, threads // min(wide, _WARP))
    return min(wide, threads // height), height


def _blocks_an_output(values: int, blocks: int, threads: int, gpu: Gpu) -> int:
    """Over how many blocks each output's input is split, where a thread would have ``values``."""
    per_multiprocessor = _THREADS_PER_MULTIPROCESSOR.get(gpu.capability, 2048) // threads
    target = gpu.multiprocessor_count * per_multiprocessor
    if values < _MOST_VALUES or blocks > target:
        return 1
    least, most = math.ceil(values / _MOST_VALUES), math.ceil(values / _FEWEST_VALUES)
    return max(min(math.ceil(target / blocks), most), least)
