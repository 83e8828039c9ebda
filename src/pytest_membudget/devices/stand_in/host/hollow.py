"""Operators on hollow host tensors: their results are made and not computed, and are hollow too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map_only

from .fills import LARGE_BYTES, NAMES, Fills, Kernel, is_dense
from .kernel_calls import KernelCall
from .memory import HostMemory
from .reads import READS, HostReads
from .shapes import host_tensors, result_shapes

#: Operators that change what a tensor's storage is.
_EXEMPT: Final = frozenset(("_pin_memory", "is_set_to", "resize_", "resize_as_", "set_"))
#: Zeros times a number are zeros.
_SCALING: Final = (torch.ops.aten.mul_.Tensor, torch.ops.aten.mul_.Scalar)


class HollowTensors:
    """The operators of host tensors, replaced for the rest of the process by ``install``.

    What fills is replaced at once; all others by ``follow_operators``, before anything can be hollow. A
    process that has no large host tensor computes as always.
    """

    def __init__(self, memory: HostMemory, reads: HostReads) -> None:
        self._memory = memory
        self._fills = Fills(memory)
        self._reads = reads
        self._library: Any = torch.library.Library("aten", "IMPL")
        self._waiting: list[tuple[str, Kernel]] = []

    def install(self) -> None:
        """Replace what fills; make what ``follow_operators`` needs, once for all forks of this process."""
        for name in NAMES:
            if _is_known(name):
                self._replace(name, self._fills.replacement(name, _kernel_of(name)))
        for name in _computing():
            replacement = self._reading if name.partition(".")[0] in READS else self._computing
            self._waiting.append((name, replacement(_overload(name), _kernel_of(name))))

    def follow_operators(self) -> None:
        """There is a large tensor, which may become hollow: replace all that computes."""
        waiting, self._waiting = self._waiting, []
        for name, function in waiting:
            self._replace(name, function)

    def _replace(self, name: str, function: Kernel) -> None:
        self._library.impl(name, function, "CPU", with_keyset=True)

    def _reading(self, operator: Any, compute: KernelCall) -> Kernel:
        count, reads = self._memory.hollow_blocks, self._reads

        def read(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if count.value:
                for tensor in host_tensors((args, kwargs)):
                    reads.note(tensor)
            return compute(keys, args, kwargs)

        return read

    def _computing(self, operator: Any, compute: KernelCall) -> Kernel:
        memory, count = self._memory, self._memory.hollow_blocks
        written = _written_arguments(operator)
        scales = operator in _SCALING

        def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if compute.is_again():
                return compute(keys, args, kwargs)
            if scales and self._is_scaled_zero(*args):
                return args[0]
            if not count.value:
                return compute(keys, args, kwargs)
            if not any(memory.is_hollow(tensor) for tensor in host_tensors((args, kwargs))):
                return compute(keys, args, kwargs)
            return self._skip(operator, written, lambda: compute(keys, args, kwargs), args, kwargs)

        return run

    def _is_scaled_zero(self, tensor: torch.Tensor, factor: object) -> bool:
        """Whether ``tensor`` is large, zero, and stays so, as an optimizer's new states do at first."""
        if tensor.nbytes < LARGE_BYTES or not isinstance(factor, (int, float)) or not math.isfinite(factor):
            return False
        return factor >= 0 and is_dense(tensor) and self._memory.is_untouched(tensor)

    def _skip(
        self, operator: Any, written: list[Any], compute: Callable[[], Any], args: Any, kwargs: Any
    ) -> Any:
        """The results of ``operator`` on hollow tensors; small ones are computed from what is there."""
        targets = [_argument(index, name, args, kwargs) for index, name in written]
        if not any(tensor.nbytes >= LARGE_BYTES for tensor in host_tensors((args, kwargs))):
            results = compute()
        else:
            try:
                results = self._unwritten(operator, targets, args, kwargs)
            except (NotImplementedError, RuntimeError):  # its shape depends on what the tensors hold
                results = compute()
        for tensor in host_tensors((targets, results)):
            self._memory.set_hollow(tensor, True)
        return results

    def _unwritten(self, operator: Any, targets: list[Any], args: Any, kwargs: Any) -> Any:
        if targets:
            _count_steps(operator, args)
            return _returned(operator, targets)
        return tree_map_only(torch.Tensor, _empty_like, result_shapes(operator, args, kwargs))


def _computing() -> Iterator[str]:
    """The names of the operators that compute host tensors from others."""
    for qualified in torch._C._dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        if namespace != "aten" or name in NAMES or name.partition(".")[0] in _EXEMPT:
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(qualified, "CPU"):
            continue
        schema = _overload(name)._schema
        takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
        if takes_tensors and not _gives_views(schema) and not _writes_out(schema):
            yield name


def _gives_views(schema: Any) -> bool:
    aliases = [argument.alias_info for argument in (*schema.arguments, *schema.returns)]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _writes_out(schema: Any) -> bool:
    """Whether results go where a keyword says. What kernels call of that kind is behind another operator."""
    return any(argument.kwarg_only and argument.is_out for argument in schema.arguments)


def _is_known(name: str) -> bool:
    return bool(torch._C._dispatch_has_kernel(f"aten::{name}"))


def _kernel_of(name: str) -> KernelCall:
    return KernelCall(_overload(name), torch.library.get_kernel(f"aten::{name}", "CPU"))


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _written_arguments(operator: Any) -> list[tuple[int, str]]:
    arguments = enumerate(operator._schema.arguments)
    return [
        (index, argument.name)
        for index, argument in arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _argument(index: int, name: str, args: Any, kwargs: Any) -> Any:
    return kwargs[name] if name in kwargs else args[index] if index < len(args) else None


def _returned(operator: Any, targets: list[Any]) -> Any:
    count = len(operator._schema.returns)
    if count == 0:
        return None
    return targets[0] if count == 1 else tuple(targets[:count])


def _count_steps(operator: Any, args: Any) -> None:
    """A fused optimizer counts its steps, whose numbers are small and stay real."""
    names = [argument.name for argument in operator._schema.arguments]
    if "state_steps" in names and len(args) > names.index("state_steps"):
        torch._foreach_add_(args[names.index("state_steps")], 1)


def _empty_like(shape: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype, device="cpu")
