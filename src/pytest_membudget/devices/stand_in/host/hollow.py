"""Operators on hollow host tensors: their results are hollow too, and large ones are not computed."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map_only

from ....tracking.roles.computed import Computed
from ....tracking.roles.tensor_parts import tensors_in
from ....tracking.running_code.source import SourceFinder
from ...real.kernels import argument, kernel_of, operator_of, taking_numbers, written_arguments
from ..values.drawn_shares import DRAW
from ..values.following import Following
from ..values.supposed_values import COMPARES
from .fills import LARGE_BYTES, NAMES, Fills, Kernel, is_dense
from .memory import Hollow
from .reads import READS, HostReads
from .shapes import host_tensors, result_shapes
from .unknown_sizes import UnknownSizes, is_sized_by_data

#: Operators that change what a tensor's storage is.
_EXEMPT: Final = frozenset(("is_set_to", "resize_", "set_"))
_COPY: Final = torch.ops.aten.copy_.default
#: Zeros times a number are zeros. Where C++ multiplies by one, as for optimizers' lists, ``mul_`` ends in
#: ``mul.out`` of the number and the tensor, into the tensor (ATen/native/BinaryOps.cpp, 2.13).
_SCALING: Final = (torch.ops.aten.mul_.Tensor, torch.ops.aten.mul_.Scalar, torch.ops.aten.mul.out)


class HollowTensors:
    """The operators of host tensors, replaced for the rest of the process by ``install``.

    A process that has no hollow tensor computes as always.
    """

    def __init__(self, following: Following, source: SourceFinder, computed: Computed) -> None:
        """``following``: of the values on the cards, copies of which lie on the host."""
        self._computed = computed
        self._following = following
        self._memory = following.host
        self._fills = Fills(following.host, self._copied)
        self._sizes = UnknownSizes(following)
        #: of them
        self.reads = HostReads(following, source)
        self._library: Any = torch.library.Library("aten", "IMPL")

    def install(self) -> None:
        """Replace what fills, and all that computes: once for all forks of this process."""
        for name in NAMES:
            operator = _operator(name)
            fill = self._seen(operator, self._fills.replacement(name, host_kernel(name)))
            self._replace(name, self._seen_by_host(operator, fill))
        for name in computing_operators():
            operator, kernel = _operator(name), host_kernel(name)
            if name in READS:
                function = self._reading(operator, kernel)
            elif is_sized_by_data(operator):
                function = self._sizing(operator, kernel)
            else:
                function = self._computing(operator, kernel)
            self._replace(name, self._seen(operator, function))
        self.reads.install()

    def _replace(self, name: str, function: Kernel) -> None:
        self._library.impl(name, function, "CPU", with_keyset=True)

    def _seen(self, operator: Any, function: Kernel) -> Kernel:
        see = self._computed.seeing(operator)
        if see is None:
            return function

        def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
            result = function(keys, *args, **kwargs)
            see(args, result)
            return result

        return run

    def _seen_by_host(self, operator: Any, fill: Kernel) -> Kernel:
        following, draws = self._following, operator is DRAW

        def run(keys: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            following.see_host(tensor)
            result = fill(keys, tensor, *args, **kwargs)
            if draws:
                following.drawn.saw(operator, (tensor, *args), tensor)
            else:
                following.drawn.notes.forget(tensor)
            return result

        return run

    def _reason(self, values: Any) -> int:
        """Why a result of ``values`` is hollow; 0 if it is not."""
        if not self._memory.hollow_blocks.value:
            return 0
        return max((self.reads.hollow(tensor) for tensor in host_tensors(values)), default=0)

    def _copied(self, target: torch.Tensor, source: torch.Tensor, reason: int) -> None:
        self._following.copies.saw(_COPY, (target, source), {}, target, reason)

    def _reading(self, operator: Any, compute: Kernel) -> Kernel:
        def read(keys: Any, *args: Any, **kwargs: Any) -> Any:
            reason = self._reason((args, kwargs))
            if not reason:
                return compute(keys, *args, **kwargs)
            return self.reads.answer(operator, args, kwargs, reason, lambda: compute(keys, *args, **kwargs))

        return read

    def _sizing(self, operator: Any, kernel: Kernel) -> Kernel:
        compute = self._computing(operator, kernel)

        def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if self._reason((self._sizes.deciding(operator, args),)):
                return self._sizes.results(operator, args, kwargs, self._reason((args, kwargs)))
            return compute(keys, *args, **kwargs)

        return run

    def _computing(self, operator: Any, compute: Kernel) -> Kernel:
        count = self._memory.hollow_blocks
        written = written_arguments(operator)
        writes_out, scales = _writes_out(operator._schema), operator in _SCALING
        compares = operator in COMPARES

        def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if scales and self._is_scaled_zero(target := kwargs.get("out", args[0]), args):
                return target
            if not count.value:
                return compute(keys, *args, **kwargs)
            reason = self._reason((args, kwargs))
            if not reason:
                return compute(keys, *args, **kwargs)
            if compares and self._is_one_known(*args[:2]):
                reason = Hollow.UNKNOWN
            targets = [argument(args, kwargs, index, name) for index, name in written]
            if writes_out and not _fit(operator, targets, args):  # they may have to be resized
                results = compute(keys, *args, **kwargs)
            else:
                results = self._skip(operator, targets, lambda: compute(keys, *args, **kwargs), args, kwargs)
            for tensor in host_tensors(targets):
                self._memory.set_hollow(tensor, reason)
            self._following.copies.saw(operator, args, kwargs, results, reason)
            return results

        return run

    def _is_one_known(self, first: torch.Tensor, second: torch.Tensor) -> bool:
        """Whether one of two is known, as labels are, of which nobody knows how many the other has."""
        known = [not self.reads.hollow(tensor) for tensor in (first, second)]
        return first.shape == second.shape and first.numel() > 1 and any(known)

    def _is_scaled_zero(self, tensor: torch.Tensor, args: Sequence[Any]) -> bool:
        """Whether ``tensor``, one of two ``args``, is large, zero, and stays so, as new states do."""
        factor = args[1] if args[0] is tensor else args[0]
        if tensor.nbytes < LARGE_BYTES or not isinstance(factor, (int, float)) or not math.isfinite(factor):
            return False
        is_own = args[0] is tensor or args[1] is tensor
        if not is_own or factor < 0 or not is_dense(tensor):
            return False
        # what was drawn and not computed has touched no pages either
        return self._memory.is_untouched(tensor) and not self._memory.hollow(tensor)

    def _skip(
        self, operator: Any, targets: list[Any], compute: Callable[[], Any], args: Any, kwargs: Any
    ) -> Any:
        """The results of ``operator`` on hollow tensors; small ones are computed from what is there."""
        if not any(tensor.nbytes >= LARGE_BYTES for tensor in host_tensors((args, kwargs))):
            return compute()
        try:
            return self._unwritten(operator, targets, args, kwargs)
        except (NotImplementedError, RuntimeError):  # its shape depends on what the tensors hold
            return compute()

    def _unwritten(self, operator: Any, targets: list[Any], args: Any, kwargs: Any) -> Any:
        if targets:
            _count_steps(operator, args)
            return _returned(operator, targets)
        return tree_map_only(torch.Tensor, _empty_like, result_shapes(operator, args, kwargs))


@cache
def computing_operators() -> tuple[str, ...]:
    """The names of the operators that compute host tensors from others, in ``aten``."""
    return (*_computing(), "allclose")


def _computing() -> Iterator[str]:
    for qualified in torch._C._dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        if namespace != "aten" or name in NAMES or name.partition(".")[0] in _EXEMPT:
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(qualified, "CPU"):
            continue
        schema = _operator(name)._schema
        takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
        if takes_tensors and not _gives_views(schema):
            yield name


def _gives_views(schema: Any) -> bool:
    aliases = [argument.alias_info for argument in (*schema.arguments, *schema.returns)]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _writes_out(schema: Any) -> bool:
    """Whether results go where a keyword says."""
    return any(argument.kwarg_only and argument.is_out for argument in schema.arguments)


def _fit(operator: Any, targets: list[Any], args: Any) -> bool:
    """Whether the elementwise results of ``args`` are as large as ``targets``."""
    if torch.Tag.pointwise not in operator.tags:
        return False
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors_in(args)))
    return all(target.shape == shape for target in targets)


def _operator(name: str) -> Any:
    return operator_of(f"aten::{name}")


@cache
def host_kernel(name: str) -> Kernel:
    """PyTorch's own kernel for host tensors of the operator ``name`` in ``aten``."""
    return taking_numbers(kernel_of(f"aten::{name}", "CPU"), _operator(name))


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
