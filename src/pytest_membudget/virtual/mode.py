"""The fake tensor mode of the virtual device: each operator runs on fake tensors and is accounted for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..allocator import OutOfMemory
from ..gpus import Gpu
from ..tracking.record import Phase
from ..tracking.tracker import Tracker
from ..units import gib_text
from .attention_temporaries import ATTENTION_KERNELS, attention_temporaries, missing_on_cuda
from .cuda_kernels import has_cuda_kernel
from .detours import DETOURED, in_place_twin
from .device_names import with_named_device
from .device_query import PRIM_DEVICE, answer, called_by_engine
from .kernel_temporaries import KERNELS, kernel_temporaries
from .known_shapes import masks_among, places, shape_rule_of
from .known_values import KnownValues
from .learning import copy_from_host, lesson_of
from .on_host import tensors_in
from .private import torch_release
from .reads import READS, Reads
from .tensor_methods import mark_pinned
from .unsupported import PRODUCTS, refuse_mixed_types
from .workspaces import Workspaces

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)

#: Operators that give an existing tensor other memory.
_RESIZING = frozenset(
    {aten.resize_.default, aten.resize_as_.default, aten.set_.source_Tensor, aten.set_.source_Storage,
     aten.set_.source_Storage_storage_offset, torch.ops.inductor.resize_storage_bytes_.default}
    if hasattr(torch.ops.inductor, "resize_storage_bytes_")
    else {aten.resize_.default, aten.resize_as_.default, aten.set_.source_Tensor}
)  # fmt: skip
_ATTENTION = aten.scaled_dot_product_attention.default
_LIFT = aten.lift_fresh.default
_INDEX = aten.index.Tensor
_NEW = aten.empty_strided.default
_HANDS_OVER_GRADIENT = frozenset({aten.detach.default, aten.clone.default})


class _Plan:
    """What is to be done for an operator, found out at its first call."""

    __slots__ = (
        "attention",
        "composite",
        "detoured",
        "hands_over",
        "is_view",
        "kernel",
        "lesson",
        "name",
        "product",
        "reads",
        "resizes",
        "shape_rule",
    )

    def __init__(self, operator: Any) -> None:
        self.name = operator.name() if hasattr(operator, "name") else str(operator)
        overload = isinstance(operator, torch._ops.OpOverload)
        self.is_view = overload and operator.is_view
        self.resizes = operator in _RESIZING
        self.attention = operator in ATTENTION_KERNELS
        self.kernel = operator in KERNELS
        self.detoured = operator in DETOURED
        self.hands_over = operator in _HANDS_OVER_GRADIENT
        self.product = operator in PRODUCTS
        self.reads = operator in READS
        self.lesson = lesson_of(operator)
        self.shape_rule = shape_rule_of(operator)
        self.composite = (
            overload
            and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
            and not has_cuda_kernel(operator.name())
        )


class VirtualMode(FakeTensorMode):
    """Fake tensors whose storages on cuda are followed by ``tracker``.

    One mode instead of a tracking mode above a fake tensor mode: an operator crosses from C++ to Python
    once, and what a fake kernel does inside is never mistaken for what the step does.
    """

    def __init__(self, attention: Callable[..., Any], gpu: Gpu) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.gpu = gpu
        self.tracker: Tracker | None = None
        self.workspaces = Workspaces(torch_version=torch_release())
        self.known = KnownValues()
        self.reads = Reads(self.known)
        self._attention = attention
        self._plans: dict[Any, _Plan] = {}
        self._inside = False
        self._operands: Sequence[Any] = ()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # spares a wrapper around every call; nothing here is compiled

    def __deepcopy__(self, memo: object) -> VirtualMode:
        """A copy of a tensor belongs to the same mode."""
        return self

    @property
    def avoid_device_init(self) -> bool:
        """There is no device to initialise, whatever ``torch.cuda.is_available`` says."""
        return True

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run ``func`` on fake tensors and follow what it allocates."""
        if func is PRIM_DEVICE:
            return answer(args[0], sys._getframe(0).f_back)
        if kwargs:
            if kwargs.get("pin_memory"):
                return self._pinned(func, types, args, kwargs)
            kwargs = _as_meant(kwargs)
        else:
            kwargs = {}
        if self._inside:  # a fake kernel's own steps: no kernel of CUDA's
            return self.dispatch(func, types, args, kwargs)
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = _Plan(func)
        if plan.composite:
            return self._run_composite(func, types, args, kwargs)
        tracker = self.tracker
        if tracker is None:
            return self._run(func, types, args, kwargs)
        tracker.begin_operator()
        if tracker.phase is Phase.BACKWARD:
            func, kwargs = self._as_in_a_real_backward(func, plan, args, kwargs)
        if plan.product:
            refuse_mixed_types(plan.name, args)
        if plan.reads:
            return self.reads.answer(func, args, kwargs)
        if func is _INDEX and masks_among(args[1]):
            with self:
                return func(args[0], [place for index in args[1] for place in places(index)])
        result = self._with_known_shape(plan, types, args, kwargs) if plan.shape_rule is not None else None
        if result is None:
            result = self._run(func, types, args, kwargs)
        if result is not NotImplemented:
            self._account(tracker, func, plan, args, kwargs, result)
        return result

    def _run(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._inside = True
        self._operands = args
        try:
            return self.dispatch(func, types, args, kwargs)
        finally:
            self._inside = False
            self._operands = ()  # another reference would keep autograd from working in place

    def can_run_unsafe_fallback(self, func: Any) -> bool:
        """Whether to run ``func`` on zeros where it has no fake kernel: not where the zeros lie on cuda."""
        on_host = not any(on_cuda(tensor) for tensor in tensors_in(self._operands))
        return on_host and super().can_run_unsafe_fallback(func)

    def _pinned(
        self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = self.__torch_dispatch__(func, types, args, {**kwargs, "pin_memory": None})
        mark_pinned(result)
        return result

    def _with_known_shape(
        self, plan: _Plan, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        shapes = plan.shape_rule(self.known, args, kwargs)  # type: ignore[misc] # asked for where there is one
        if shapes is None:
            return None
        results = tuple(
            self._run(_NEW, types, shape[:2], {"dtype": shape.dtype, "device": args[0].device})
            for shape in shapes
        )
        return results if len(results) > 1 else results[0]

    def _run_composite(
        self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Without autograd (inference mode) composite operators arrive whole: take them apart, as CUDA."""
        if func is _ATTENTION and args[0].device.type == "cuda":
            with self:
                return self._attention(*args, **kwargs)
        with self:
            result = func.decompose(*args, **kwargs)
        return self._run(func, types, args, kwargs) if result is NotImplemented else result

    def _as_in_a_real_backward(
        self, func: Any, plan: _Plan, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        if not called_by_engine(sys._getframe(1).f_back):
            return func, kwargs
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "meta":
            # a backward formula copied the device that the engine was told
            kwargs = {**kwargs, "device": CUDA}
        if plan.detoured:
            record = self.tracker.record_of(args[0])  # type: ignore[union-attr]
            twin = in_place_twin(func, args, record.node if record is not None else None)
            func = twin or func
        elif plan.hands_over:
            self._see_gradient(args[0])
        return func, kwargs

    def _see_gradient(self, gradient: torch.Tensor) -> None:
        node = torch._C._current_autograd_node()
        if node is not None and node.name() == "torch::autograd::AccumulateGrad":
            parameter = node.variable  # type: ignore[attr-defined]
            self.tracker.roles.see_gradient(parameter, gradient)  # type: ignore[union-attr]

    def _account(
        self,
        tracker: Tracker,
        func: Any,
        plan: _Plan,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        try:
            if plan.resizes:
                if on_cuda(args[0]):
                    tracker.resized(args[0], plan.name)
            elif not plan.is_view:
                if type(result) is FakeTensor:
                    if result.fake_device.type == "cuda":
                        tracker.saw(result, plan.name, args)
                elif isinstance(result, (list, tuple)):
                    skipped = missing_on_cuda(func, args) if plan.attention else ()
                    for index, tensor in enumerate(result):
                        if on_cuda(tensor) and index not in skipped:
                            tracker.saw(tensor, plan.name, args)
                self.workspaces.serve(tracker, func, plan.name, args)
                if plan.attention and on_cuda(args[0]):
                    tracker.pass_through(attention_temporaries(func, args, self.gpu), plan.name)
                elif plan.kernel and is_on_device(result, args):
                    sizes = kernel_temporaries(func, args, kwargs, result, self.gpu)
                    tracker.pass_through(sizes, plan.name)
        except OutOfMemory as error:
            raise torch.OutOfMemoryError(out_of_memory_text(error, plan.name)) from error
        if plan.lesson is not None:
            with contextlib.suppress(NotImplementedError):  # of sparse tensors nothing is known
                plan.lesson(self.known, args, kwargs, result)
        elif func is _LIFT and type(args[0]) is torch.Tensor:
            copy_from_host(self.known, result, args[0])


def _as_meant(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    if "device" in kwargs:
        kwargs = with_named_device(kwargs)
    if kwargs.get("generator") is not None:  # fake kernels draw nothing, and some refuse one
        kwargs = {**kwargs, "generator": None}
    return kwargs


def on_cuda(tensor: object) -> bool:
    """Whether ``tensor`` is a fake tensor with memory on the virtual device.

    Fake tensors only: a wrapper (DTensor) shows the global shape and owns no storage.
    """
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


def is_on_device(result: object, args: Sequence[Any]) -> bool:
    """Whether an operator ran on the virtual device: by its result, or by its first argument."""
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    return on_cuda(first) if isinstance(first, torch.Tensor) else bool(args) and on_cuda(args[0])


def out_of_memory_text(error: OutOfMemory, operator: str) -> str:
    """What could not be had; it begins as PyTorch's own message does, for code that looks at it."""
    reserved, allocated = gib_text(error.reserved_bytes), gib_text(error.allocated_bytes)
    limit = f" of {gib_text(error.capacity_bytes)}" if error.capacity_bytes is not None else ""
    return (
        f"CUDA out of memory. Tried to allocate {gib_text(error.requested_bytes)} in {operator}; "
        f"{reserved}{limit} reserved, {allocated} of it allocated"
    )
