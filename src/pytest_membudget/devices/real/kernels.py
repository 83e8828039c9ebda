"""PyTorch's own CUDA kernels, called from functions that are registered in their place, which follow them.

``torch.library.get_kernel`` gives them (since 2.9), and calls them with values that the dispatcher passes:
a Python number in the place of a tensor is turned into the tensor that it was.
"""

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, cast

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...tracking.roles.computed import Computed, See

aten = torch.ops.aten

#: Operators that allocate and write nothing.
_EMPTY = frozenset({aten.empty.memory_format, aten.empty_strided.default})

#: Kernels that cannot be in Python: ``pow_Scalar_out`` calls this one with a number as a tensor on the card
#: (``wrapped_scalar_tensor(base, exp.device())``, ATen/native/Pow.cpp, 2.15), which Python cannot be given.
_UNREACHED = frozenset({"aten::pow.Tensor_Tensor_out"})

Kernel = Callable[..., Any]

NUMBERS = frozenset({bool, int, float, complex})
_MOST_NUMBERS = 4096
_NOTHING = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
#: What a thread starts with: ``default_included_set`` (c10/core/DispatchKeySet.h, 2.15).
_OUTSIDE = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.ADInplaceOrView
)
#: Not by its name, which each call of ``get_kernel`` would look for among all keys.
_KEY = torch._C.DispatchKey.CUDA
_CUDA = torch._C.DispatchKeySet(_KEY)


def follow_kernels(computed: Computed, runs: Callable[[], None]) -> object:
    """Have ``computed`` see each kernel of CUDA, as long as the result is referenced.

    ``runs`` is called before each.
    """
    library: Any = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
        for name, operator in computing_kernels((aten.copy_.default,)):
            see = computed.seeing(operator)
            if see is not None:
                seen = _seen(original_kernel(name, operator), see, runs)
                library.impl(name.removeprefix("aten::"), seen, "CUDA")
    return library


def _seen(kernel: Kernel, see: See, runs: Callable[[], None]) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        runs()
        try:
            result = kernel(*args, **kwargs)
            see(args, result)
        except BaseException as error:
            args = kwargs = None  # type: ignore[assignment] # the traceback must not keep tensors alive
            raise error.with_traceback(None)  # noqa: B904 - the same error
        return result

    return run


def computing_kernels(
    composite: Iterable[Any] = (), but: AbstractSet[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """The name and the operator of each kernel for CUDA that computes, and of ``composite`` operators.

    ``but``: names that are left out, before anything is looked up.
    """
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    for name in {*names, *(operator.name() for operator in composite)} - _UNREACHED - but:
        operator = operator_of(name) if name.startswith("aten::") else None
        if operator is not None and operator not in _EMPTY and not operator.is_view:
            yield name, operator


def operator_of(name: str) -> Any:
    """The operator called ``name``, as in ``aten::add.Tensor``."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def argument(
    args: Sequence[Any], kwargs: Mapping[str, Any], position: int, name: str, default: Any = None
) -> Any:
    """An operator's argument; a default is not handed over to its kernel."""
    return args[position] if len(args) > position else kwargs.get(name, default)


def kernel_of(name: str, key: str = _KEY.name) -> Kernel:
    """The kernel that the operator called ``name`` has for ``key`` now, to be called with dispatch keys.

    One in Python, as ``torch._native`` has for ``bmm`` (2.13), is not what runs where a mode is on: the
    function registered last does, which is ours (``PythonKernelHolder``, csrc/utils/python_dispatch.cpp).
    """
    call = torch.library.get_kernel(name, key).call_boxed
    if f"{name.replace('::', '/')}/{key}" not in torch.library._impls:
        return cast(Kernel, call)

    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch._C._len_torch_dispatch_stack():
            return call(*args, **kwargs)
        with _disable_current_modes():
            return call(*args, **kwargs)

    return run


def original_kernel(name: str, operator: Any) -> Kernel:
    """The kernel that ``operator``, called ``name``, has for CUDA now."""
    return partial(taking_numbers(kernel_of(name), operator), _CUDA)


def taking_numbers(call: Kernel, operator: Any) -> Kernel:
    """``call`` of a kernel of ``operator`` with what the dispatcher passes."""
    positions = tensor_positions(operator)
    if not takes_numbers(positions):
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if _making.is_on:  # a number's tensor: nobody uses what the product gives
            return torch.empty((), device="cpu")
        return call(keys, *with_tensors(args, positions), **kwargs)

    return run


def kernel_for_tensors(name: str) -> Kernel:
    """The same, for arguments ``with_tensors``."""
    return partial(kernel_of(name), _CUDA)


def takes_numbers(positions: Sequence[int]) -> bool:
    """Whether a number may be at one of ``positions``: a lone tensor is what a kernel was chosen by."""
    return len(positions) > 1


def with_tensors(args: tuple[Any, ...], positions: Sequence[int]) -> tuple[Any, ...]:
    """``args`` with tensors for the numbers at ``positions``."""
    for position in positions:
        if position < len(args) and type(args[position]) in NUMBERS:
            args = (*args[:position], _tensor_of(args[position]), *args[position + 1 :])
    return args


def tensor_positions(operator: Any) -> tuple[int, ...]:
    """Where ``operator`` takes a tensor, among the arguments that have a position."""
    return tuple(
        index
        for index, argument in enumerate(operator._schema.arguments)
        if not argument.kwarg_only and str(argument.type) in ("Tensor", "Optional[Tensor]")
    )


def written_arguments(operator: Any) -> list[tuple[int, str]]:
    """Positions and names of the arguments that ``operator`` writes to."""
    return [
        (position, argument.name)
        for position, argument in enumerate(operator._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


#: By type and text: a zero may have a sign.
_made: dict[tuple[type, str], torch.Tensor] = {}


#: Made before any kernel is replaced: the host's own would ask for a number's tensor again.
_ONE = torch.ones((), dtype=torch.float32, device="cpu", requires_grad=True)
_ONE_COMPLEX = torch.ones((), dtype=torch.complex64, device="cpu", requires_grad=True)


class _Making(threading.local):
    is_on = False
    #: the nodes of autograd's that this thread has made so
    nodes = 0


_making = _Making()


def nodes_of_the_run() -> int:
    """How many nodes autograd has made in this thread, without those for the numbers that we make."""
    return int(torch.autograd._get_sequence_nr()) - _making.nodes  # type: ignore[attr-defined]


def _tensor_of(number: Any) -> torch.Tensor:
    """A "wrapped number", whose type does not decide the result's: ``x * 2.0`` stays in half precision.

    Autograd keeps the one that ``tensor * number`` is called with, and gives it back.
    """
    key = (type(number), repr(number))
    tensor = _made.get(key)
    if tensor is None:
        one = _ONE_COMPLEX if isinstance(number, complex) else _ONE
        _making.is_on = True
        try:
            with (
                torch._C.DisableTorchFunction(),
                torch.inference_mode(False),
                torch._C._ForceDispatchKeyGuard(_OUTSIDE, _NOTHING),
                torch.enable_grad(),
            ):
                tensor = (one * number).grad_fn._saved_other
            _making.nodes += 1
        finally:
            _making.is_on = False
        if len(_made) >= _MOST_NUMBERS:
            _made.clear()
        _made[key] = tensor
    return tensor
