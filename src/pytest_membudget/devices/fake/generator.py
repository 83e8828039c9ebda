"""Generators of random numbers that may name the virtual device, and the states of all of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch

from .known_values import KnownValues
from .ordinal import own_device, place

_Real = torch.Generator
#: A CUDA generator's state: seed and offset (CUDAGeneratorImpl::set_state,
#: aten/src/ATen/cuda/CUDAGeneratorImpl.cpp, 2.13).
_STATE = struct.Struct("<Qq")


class _AnyGenerator(type(_Real)):  # type: ignore[misc] # its metatype differs by release
    """Makes ``torch.default_generator`` an instance of the replacement of ``torch.Generator``."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)


class VirtualGenerator(_Real, metaclass=_AnyGenerator):
    """``torch.Generator`` that may name the virtual device; it draws nothing there."""

    #: what is known of states that were made into fake tensors
    known = KnownValues()
    _device: torch.device
    _offset = 0

    def __new__(cls, device: Any = "cpu") -> VirtualGenerator:
        """A generator for ``device``; one for cuda wraps a CPU generator."""
        wanted = torch.device(device)
        behind = "cpu" if wanted.type == "cuda" else wanted
        generator: VirtualGenerator = super().__new__(cls, behind)  # type: ignore[call-arg] # a C type
        generator._device = own_device() if wanted.type == "cuda" else wanted
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override] # read-only in C too
        """The device that was asked for."""
        return self._device

    def manual_seed(self, seed: int) -> VirtualGenerator:
        """From here on it draws from the start of ``seed``."""
        self._offset = 0
        super().manual_seed(seed)
        return self

    def get_state(self) -> torch.Tensor:
        """Seed and offset, 16 bytes, of one for cuda."""
        if self._device.type != "cuda":
            return super().get_state()
        seed = self.initial_seed() % 2**64
        return torch.tensor(list(_STATE.pack(seed, self._offset)), dtype=torch.uint8, device="cpu")

    def set_state(self, new_state: torch.Tensor) -> VirtualGenerator:
        """``new_state`` is its state; one of unknown values (of a file) changes nothing."""
        if new_state.dtype is not torch.uint8 or new_state.device.type != "cpu":
            raise TypeError("RNG state must be a torch.ByteTensor")
        if self._device.type != "cuda":
            _set_state(_Real.set_state, self, new_state)
        elif new_state.numel() != _STATE.size:
            raise RuntimeError("RNG state is wrong size")
        elif (values := _values(new_state)) is not None:
            with torch._C._DisableTorchDispatch():
                seed, offset = _STATE.unpack(bytes(values.tolist()))
            self.manual_seed(seed)
            self._offset = offset
        return self

    def get_offset(self) -> int:
        """How many numbers were drawn, as far as was reported."""
        return self._offset if self._device.type == "cuda" else super().get_offset()

    def set_offset(self, offset: int) -> VirtualGenerator:
        """Take ``offset`` numbers for drawn."""
        if self._device.type == "cuda":
            self._offset = offset
        else:
            super().set_offset(offset)
        return self

    def clone_state(self) -> VirtualGenerator:
        """Another one in the same state."""
        return VirtualGenerator(self._device).set_state(self.get_state())

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, new_state: torch.Generator) -> VirtualGenerator:
        """Its state is that of ``new_state``, another generator."""
        return self.set_state(new_state.get_state())


class DefaultGenerators(Sequence[VirtualGenerator]):
    """``torch.cuda.default_generators``: one for each GPU of the node."""

    def __init__(self) -> None:
        self._made: dict[int, VirtualGenerator] = {}

    def __len__(self) -> int:
        return place().node_gpus

    def __getitem__(self, index: Any) -> Any:
        number = range(len(self))[index]
        if isinstance(number, range):
            return tuple(self[one] for one in number)
        if number not in self._made:
            self._made[number] = VirtualGenerator("cuda")
            self._made[number]._device = torch.device("cuda", number)
        return self._made[number]


def install_generator(known: KnownValues) -> None:
    """Let ``torch.Generator(device="cuda")`` be made, and states be set that were saved and loaded."""
    VirtualGenerator.known = known
    torch.Generator = VirtualGenerator  # type: ignore[misc]
    own: Any = torch

    def set_rng_state(new_state: torch.Tensor) -> None:
        _set_state(_Real.set_state, torch.default_generator, new_state)

    own.set_rng_state = own.random.set_rng_state = set_rng_state


def _set_state(set_state: Any, generator: torch.Generator, new_state: torch.Tensor) -> None:
    """Set the state of a generator of the host's, where its values are known."""
    values = _values(new_state)
    if values is not None:
        set_state(generator, values)


def _values(state: torch.Tensor) -> torch.Tensor | None:
    """The bytes of ``state`` as a real tensor, where they are known."""
    with torch._C._DisableTorchDispatch():
        values = VirtualGenerator.known.of(state)
        return None if values is None else values.clone(memory_format=torch.contiguous_format)
