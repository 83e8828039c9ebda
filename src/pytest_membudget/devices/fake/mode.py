"""The fake tensor mode of the virtual device: each operator runs on fake tensors and is accounted for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode

from ...allocator.device_memory import OutOfMemory
from ...hardware.gpus import Gpu
from ...tracking.record import Phase
from ...tracking.tracker import Tracker
from .batch_norm_choice import batch_norm
from .charges import Charges, on_cuda, out_of_memory_text
from .cluster.collectives import Collectives
from .detours import in_place_twin
from .device_names import with_named_device
from .device_query import PRIM_DEVICE, answer, called_by_engine
from .dispatch_keys import cache_key, knows_this_torch
from .kept_results import in_storage_of_all
from .known_shapes import masks_among, places
from .known_values import KnownValues
from .learning import copy_from_host
from .on_host import tensors_in
from .one_hot import ONE_HOT, OneHot
from .ordinal import own_device
from .plans import INDEX, Plan
from .python_kernels import run_python_kernel, written_by_pointer
from .reads import Reads
from .refusals import note_error, note_untraceable, refusal
from .strides_of_one import strides_of, view_of
from .tensor_methods import mark_pinned
from .unknown_shapes import UnknownShapes
from .unsupported import refuse_mixed_types

aten = torch.ops.aten

_ATTENTION = aten.scaled_dot_product_attention.default
_BATCH_NORM = aten.batch_norm.default
_TO_COPY = aten._to_copy.default
_LIFT = aten.lift_fresh.default
_NEW = aten.empty_strided.default
_AS_STRIDED = aten.as_strided.default

#: Runs its third argument on the rank's own part of a DTensor, at the rank's place in the random numbers.
_DTENSOR_DRAW = "run_dtensor_rng_op"


class VirtualMode(FakeTensorMode):
    """Fake tensors whose storages on cuda are followed by ``tracker``.

    One mode instead of a tracking mode above a fake tensor mode: an operator crosses from C++ to Python
    once, and what a fake kernel does inside is never mistaken for what the step does.
    """

    if knows_this_torch():
        _cache_key = cache_key
    #: flex_attention and torch.cond arrive here, to be run as written, or refused in so many words
    supports_higher_order_operators = True

    def __init__(self, attention: Callable[..., Any], gpu: Gpu) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.charges = Charges(gpu)
        self.tracker: Tracker | None = None
        self.known = KnownValues()
        self.shapes = UnknownShapes(self.known)
        self._supposed = self.shapes.supposed
        self.one_hot = OneHot(self.shapes, note_untraceable)
        self.reads = Reads(self.known, self._supposed)
        self.collectives = Collectives(self.known, self._supposed)
        self._attention = attention
        self._plans: dict[Any, Plan] = {}
        self._inside = False
        self._operands: Sequence[Any] = ()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # spares a wrapper around every call; ``compiled_regions`` adds it where a test compiles

    def __deepcopy__(self, memo: object) -> VirtualMode:
        """A copy of a tensor belongs to the same mode."""
        return self

    def create_symbolic_nested_int(self, *, nt_tensor_id: int | None = None) -> Any:
        """Where the length of a jagged nested tensor would be made: fake tensors have none here."""
        raise refusal(
            "nested tensors with layout=torch.jagged are not part of the virtual device; pad the tensors, or "
            "install a CUDA build of torch, which runs them on the stand-in (--membudget-device=stand-in)"
        )

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
        kwargs = _as_meant(func, kwargs) if kwargs else {}
        if self._inside:  # a fake kernel's own steps: no kernel of CUDA's
            return self.dispatch(func, types, args, kwargs)
        plan = self._plans.get(func)
        if plan is None:
            if isinstance(func, HigherOrderOperator) and func.name() == _DTENSOR_DRAW:
                with self:
                    return args[2](*args[3:], **kwargs)
            plan = self._plans[func] = Plan(func)
        if plan.dense is not None:
            with self:
                return plan.dense(*args, **kwargs)
        if plan.composite:
            return self._run_composite(func, types, args, kwargs)
        if plan.python_kernel and any(on_cuda(tensor) for tensor in tensors_in(args)):
            with self:
                result = run_python_kernel(func, args, kwargs)
            if result is not NotImplemented:
                for tensor in written_by_pointer(func, args, kwargs):
                    self.known.forget(tensor)
                return result
        tracker = self.tracker
        if tracker is None:
            return self._run(func, types, args, kwargs)
        tracker.begin_operator()
        if tracker.phase is Phase.BACKWARD:
            if func is _TO_COPY and _is_there_already(args[0], kwargs):
                return args[0]
            func, kwargs = self._as_in_a_real_backward(func, plan, args, kwargs)
        if plan.depends_on_data and (known := self._from_data(func, plan, types, args, kwargs)) is not None:
            return known
        if plan.product:
            refuse_mixed_types(plan.name, args)
        elif plan.waits:
            return args[0]
        elif plan.reshapes and (view := view_of(*args)) is not None:
            func, args = _AS_STRIDED, (args[0], *view)
        elif plan.collective and plan.name.startswith("c10d::"):
            return self.collectives.run(tracker, func, plan.name, args)
        result = self._run(func, types, args, kwargs)
        is_done = result is not NotImplemented
        if is_done and plan.short_cut and (strides := strides_of(func, args, kwargs, result)) is not None:
            options = {"dtype": result.dtype, "device": result.device}
            result = self._run(_NEW, types, (result.shape, strides), options)
        if plan.keeps_losses and on_cuda(result):
            result = in_storage_of_all(lambda one, *of: self._run(one, types, of, {}), result, *args[:2])
        if is_done:
            self._account(tracker, func, plan, args, kwargs, result)
            if plan.collective:
                self.collectives.saw(tracker, plan.name, args, result)
        return result

    def _run(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._inside = True
        self._operands = args
        try:
            return self.dispatch(func, types, args, kwargs)
        except Exception as error:
            note_error(func, error, tensors_in(args))
            raise
        finally:
            self._inside = False
            self._operands = ()  # another reference would keep autograd from working in place

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
        shapes = self.shapes.of(func, plan.shape_rule, args, kwargs) if plan.shape_rule is not None else None
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
        if func is _BATCH_NORM and args[0].device.type == "cuda":
            with self:
                return batch_norm(*args, **kwargs)
        if func is ONE_HOT and args[0].device.type == "cuda":
            with self:
                return self.one_hot(*args, **kwargs)
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
            # a backward formula copied the device that the engine got
            kwargs = {**kwargs, "device": own_device()}
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
                    tracker.resized(args[0].untyped_storage(), plan.name)
            elif not plan.is_view:
                self.charges.charge(tracker, func, plan, args, kwargs, result)
        except OutOfMemory as error:
            raise torch.OutOfMemoryError(out_of_memory_text(error, plan.name)) from error
        except NotImplementedError as error:  # a sparse tensor has no storage to follow
            note_error(func, error, ())
            raise
        if plan.lesson is not None:
            with contextlib.suppress(NotImplementedError):  # of sparse tensors nothing is known
                if self._supposed.concerns(args):
                    self._supposed.learn(plan.lesson, func, args, kwargs, result)
                plan.lesson(self.known, args, kwargs, result)
                if plan.chooses:
                    self.shapes.see_choice(func, args, kwargs, result)
                elif plan.counts:
                    self.reads.see_count(func, args, result)
        elif func is _LIFT and type(args[0]) is torch.Tensor:
            copy_from_host(self.known, result, args[0])
        if kwargs and (kwargs.get("pin_memory") or (func is _TO_COPY and _is_pinned_copy(args[0], kwargs))):
            mark_pinned(result)
            tracker.pinned(result)


def _as_meant(func: Any, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    if "device" in kwargs:
        kwargs = with_named_device(kwargs, is_copy=func is _TO_COPY)
    if kwargs.get("generator") is not None:  # fake kernels draw nothing, and some refuse one
        kwargs = {**kwargs, "generator": None}
    return kwargs


def _is_pinned_copy(tensor: torch.Tensor, kwargs: Mapping[str, Any]) -> bool:
    """Whether a copy goes to pinned memory: one to the host that nobody waits for.

    ``pin_out`` in ``_to_copy`` (aten/src/ATen/native/TensorConversions.cpp, 2.13).
    """
    device = kwargs.get("device")
    return (
        bool(kwargs.get("non_blocking")) and on_cuda(tensor) and device is not None and device.type == "cpu"
    )


def _is_there_already(tensor: torch.Tensor, kwargs: Mapping[str, Any]) -> bool:
    """Whether a backward formula asks to move ``tensor`` to where it is: it got another device."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    return (
        device is not None
        and on_cuda(tensor)
        and torch.device(device).type in ("meta", "cuda")
        and dtype in (None, tensor.dtype)
        and called_by_engine(sys._getframe(1).f_back)
    )
