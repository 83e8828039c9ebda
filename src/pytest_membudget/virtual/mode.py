"""The fake tensor mode of the virtual device: each operator runs on fake tensors and is accounted for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from ..allocator import OutOfMemory
from ..gpus import Gpu
from ..tracking.record import Phase
from ..tracking.tracker import Tracker
from ..units import gib_text
from .attention_temporaries import attention_temporaries, missing_on_cuda
from .detours import in_place_twin
from .device_names import with_named_device
from .device_query import PRIM_DEVICE, answer, called_by_engine
from .kernel_temporaries import kernel_temporaries
from .known_shapes import masks_among, places
from .known_values import KnownValues
from .learning import copy_from_host
from .on_host import tensors_in
from .plans import INDEX, Plan
from .private import torch_release
from .reads import Reads
from .tensor_methods import mark_pinned
from .unsupported import refuse_mixed_types
from .workspaces import Workspaces

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)

_ATTENTION = aten.scaled_dot_product_attention.default
_LIFT = aten.lift_fresh.default
_NEW = aten.empty_strided.default

#: What fake tensors raise and real ones do not.
_ONLY_IN_A_TRACE = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


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
        self._plans: dict[Any, Plan] = {}
        #: operators that could not be traced, and where; texts, since an error would keep its tensors alive
        self.refused: list[str] = []
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
        kwargs = _as_meant(kwargs) if kwargs else {}
        if self._inside:  # a fake kernel's own steps: no kernel of CUDA's
            return self.dispatch(func, types, args, kwargs)
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = Plan(func)
        if plan.composite:
            return self._run_composite(func, types, args, kwargs)
        tracker = self.tracker
        if tracker is None:
            return self._run(func, types, args, kwargs)
        tracker.begin_operator()
        if tracker.phase is Phase.BACKWARD:
            func, kwargs = self._as_in_a_real_backward(func, plan, args, kwargs)
        if plan.depends_on_data and (known := self._from_data(func, plan, types, args, kwargs)) is not None:
            return known
        if plan.product:
            refuse_mixed_types(plan.name, args)
        result = self._run(func, types, args, kwargs)
        if result is not NotImplemented:
            self._account(tracker, func, plan, args, kwargs, result)
        return result

    def _run(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._inside = True
        self._operands = args
        try:
            return self.dispatch(func, types, args, kwargs)
        except _ONLY_IN_A_TRACE:
            self._refused(func)
            raise
        finally:
            self._inside = False
            self._operands = ()  # another reference would keep autograd from working in place

    def _refused(self, func: Any) -> None:
        """Remember what a real run would not have raised: the test may go on as no real run would."""
        code, line = self.tracker.source.find(2) if self.tracker is not None else (None, 0)
        place = f" at {code.co_filename}:{line}" if code is not None else ""
        self.refused.append(f"{func}{place}")

    def can_run_unsafe_fallback(self, func: Any) -> bool:
        """Whether to run ``func`` on zeros where it has no fake kernel: not where the zeros lie on cuda."""
        on_host = not any(on_cuda(tensor) for tensor in tensors_in(self._operands))
        return on_host and super().can_run_unsafe_fallback(func)

    def _from_data(
        self, func: Any, plan: Plan, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """What ``func`` gives, where that depends on data; None where it is to be run as any other."""
        if plan.reads:
            return self.reads.answer(func, args, kwargs)
        if func is INDEX:
            if not masks_among(args[1]):
                return None
            with self:
                return func(args[0], [place for index in args[1] for place in places(index)])
        shapes = plan.shape_rule(self.known, args, kwargs) if plan.shape_rule is not None else None
        if shapes is None:
            return None
        made = [
            self._run(_NEW, types, shape[:2], {"dtype": shape.dtype, "device": args[0].device})
            for shape in shapes
        ]
        result = tuple(made) if len(made) > 1 else made[0]
        self._account(self.tracker, func, plan, args, kwargs, result)  # type: ignore[arg-type]
        return result

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
        self, func: Any, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]
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
            if twin is not None:
                func = twin
                self.known.forget(args[0])
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
        plan: Plan,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        try:
            if plan.resizes:
                if on_cuda(args[0]):
                    tracker.resized(args[0], plan.name)
            elif not plan.is_view:
                self._charge(tracker, func, plan, args, kwargs, result)
        except OutOfMemory as error:
            raise torch.OutOfMemoryError(out_of_memory_text(error, plan.name)) from error
        if plan.lesson is not None:
            with contextlib.suppress(NotImplementedError):  # of sparse tensors nothing is known
                plan.lesson(self.known, args, kwargs, result)
        elif func is _LIFT and type(args[0]) is torch.Tensor:
            copy_from_host(self.known, result, args[0])
        if kwargs and kwargs.get("pin_memory"):
            mark_pinned(result)

    def _charge(
        self,
        tracker: Tracker,
        func: Any,
        plan: Plan,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
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
            tracker.pass_through(kernel_temporaries(func, args, kwargs, result, self.gpu), plan.name)


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
