"""Functions around PyTorch's CUDA kernels, which follow what is known of values.

Each calls the kernel, which allocates as on a card, and then has what is known of the results noted. They are
registered for the CUDA key alone, below autograd: nothing above sees another program.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch

from ....tracking.roles.computed import Computed
from ...real.kernels import (
    NUMBERS,
    Kernel,
    computing_kernels,
    kernel_for_tensors,
    original_kernel,
    takes_numbers,
    with_tensors,
)
from .answers import Answers
from .coalescing import COALESCE, coalescing
from .following import Following
from .foreign_launches import ForeignLaunches
from .number_searches import number_search
from .plans import COMPOSITE, Plan, plan_of
from .refusals import note_refusal
from .sized_by_data import without_bound

aten = torch.ops.aten

_ITEM = aten._local_scalar_dense.default
_COPY = aten.copy_.default
#: What kernels make to check by, as ``normal`` does of deviations (native/DistributionTemplates.h, 2.15).
_CHECKED = frozenset({aten.all.default, aten.ge.Scalar})
_EXPONENTIAL = aten.linalg_matrix_exp.default
#: Multiplies group by group but on Hopper and Blackwell, and copies to the host where each ends
#: (``_grouped_mm_fallback``: native/GroupedMMUtils.h, 2.11 to 2.15). It takes the same wherever that is.
_GROUPED = aten._grouped_mm.default
#: What ``matrix_exp`` copies to the host are its matrices' norms, and how often it squares each
#: (``mexp_impl``, ``compute_T18_scale_square``: native/LinearAlgebra.cpp, 2.15). The longest polynomial is
#: for norms from 1.46 on in fp32 and 0.30 in fp64, and from two squarings on no further one takes more.
_LARGE_SCALE = 4

#: Has our kernel already (``Values.install``), which torch until 2.12 lists as one for CUDA.
_OURS = frozenset({"aten::one_hot"})

#: Take the lengths of sequences from a mask, by operators that are followed one by one.
_OF_LENGTHS = frozenset({
    "aten::_nested_tensor_from_mask", "aten::_nested_tensor_from_mask_left_aligned",
})  # fmt: skip

#: Raises where a decomposition has failed, by numbers that no kernel has written. A healthy run's has not.
_CHECKS = ("aten::_linalg_check_errors",)

#: Read whether they have converged, by a number that is zero where they have.
_CONVERGES = aten._linalg_svd.default

_DECIDES = (
    "{} decides by what kernels have computed on the card, and they compute nothing on the stand-in: leave "
    "the call out of the test, or measure it on a GPU (--membudget-measure=require)"
)
_OUTSIDE = "code outside PyTorch's operators (of sparse tensors, or an extension's)"

#: Nodes that raise where ``allclose`` of what kernels have computed is not true
#: (torch/csrc/autograd/FunctionsManual.cpp, 2.15: ``linalg_eig_backward``, ``svd_backward``).
_PHASE_CHECKS = frozenset({"LinalgEigBackward0", "LinalgEighBackward0", "LinalgSvdBackward0"})


class _Nesting(threading.local):
    """How many kernels are running inside each other: what one does by others is its own affair.

    ``at::zeros`` in a kernel makes zeros that the kernel then overwrites.
    """

    depth = 0
    #: what a kernel's copies to the host hold, where it decides by them
    decides: float | torch.Tensor = 0
    #: where the last check of a kernel put its result
    checked = 0


class Kernels:
    """Registers the functions, for as long as it lives."""

    def __init__(self, following: Following, computed: Computed, runs: Callable[[], None]) -> None:
        """``computed``: sees what operators give, and what they have read. ``runs``: called before each."""
        self._computed = computed
        self._runs = runs
        self._following = following
        self._answers = Answers()
        self._missed_seen: int = self._answers.missed.value
        self._nesting = _Nesting()
        self._launches = ForeignLaunches(following.forget_all)
        self._registered: set[str] = set()
        self._library = torch.library.Library("aten", "IMPL")

    def register(self) -> None:
        """From here on all of aten's kernels for CUDA are followed."""
        for name in set(_CHECKS) - self._registered:
            self._library.impl(name.removeprefix("aten::"), _passes, "CUDA")
            self._registered.add(name)
        for name, operator in computing_kernels(COMPOSITE, but=self._registered | _OURS):
            self._registered.add(name)
            self._library.impl(name.removeprefix("aten::"), self._around(operator, name), "CUDA")
        if COALESCE not in self._registered:
            self._registered.add(COALESCE)
            self._library.impl("_coalesce", coalescing(self._answers, self._following.reads), "SparseCUDA")

    def see_missed_copies(self, who: str = _OUTSIDE) -> None:
        """Note as refused what has been copied to the host without anybody having said what is there."""
        missed = self._answers.missed.value
        if missed != self._missed_seen:
            self._missed_seen = missed
            note_refusal(_DECIDES.format(who))

    def quiet(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with kernels that nobody follows: what it computes decides nothing."""
        nesting, launches, expected = self._nesting, self._launches, self._answers.expected

        def run(*args: Any, **kwargs: Any) -> Any:
            launches.operator_begins()
            nesting.depth += _UNFOLLOWED
            try:
                with expected():
                    return function(*args, **kwargs)
            finally:
                nesting.depth -= _UNFOLLOWED
                launches.operator_ended()

        return run

    def _around(self, operator: Any, name: str) -> Kernel:
        kernel, plan = kernel_for_tensors(name), plan_of(operator)
        if operator is _COPY:
            return self._copying(operator, kernel, plan)
        if operator is _ITEM:
            return self._reading(operator, kernel)
        if operator is _EXPONENTIAL:
            return self._computing(operator, self._deciding(kernel, lambda *_: _LARGE_SCALE), plan)
        if operator is _GROUPED:
            return self._computing(operator, self._deciding(kernel, _group_ends), plan)
        if operator is _CONVERGES:
            return self._computing(operator, self._expecting(kernel), plan)
        if name in _OF_LENGTHS:
            return self._taking_lengths(kernel)
        if plan.reads:
            return self._comparing(operator, original_kernel(name, operator))
        if plan.sized is not None and plan.sized.copies is not None:
            return self._sizing(operator, original_kernel(name, operator), plan, plan.sized.copies)
        return self._computing(operator, number_search(name) or kernel, plan)

    def _computing(self, operator: Any, kernel: Kernel, plan: Plan) -> Kernel:
        nesting, following, launches = self._nesting, self._following, self._launches
        saw, concerns, count = following.saw, following.concerns, launches.count
        positions = plan.tensor_positions if takes_numbers(plan.tensor_positions) else ()
        see, runs = self._computed.seeing(operator), self._runs
        missed, see_missed_copies = self._answers.missed, self.see_missed_copies
        name = operator.name()

        def run(*args: Any, **kwargs: Any) -> Any:
            for position in positions:
                if position < len(args) and type(args[position]) in NUMBERS:
                    args = with_tensors(args, positions)
            if nesting.depth:
                result = kernel(*args, **kwargs)
                if plan.operator in _CHECKED:
                    nesting.checked = result.data_ptr()
                return result
            nesting.depth = 1
            if count.value != launches.seen:
                launches.operator_begins()
            runs()
            if missed.value != self._missed_seen:
                see_missed_copies()
            try:
                result = kernel(*args, **kwargs)
                if concerns(plan, args, kwargs):
                    saw(plan, args, kwargs, result)
                if see is not None:
                    see(args, result)
            except BaseException as error:
                args = kwargs = None  # type: ignore[assignment] # the traceback must not keep tensors alive
                raise error.with_traceback(None)  # noqa: B904 - the same error
            finally:
                nesting.depth = 0
                launches.seen = count.value
                if missed.value != self._missed_seen:
                    see_missed_copies(name)
            return result

        return run

    def _copying(self, operator: Any, kernel: Kernel, plan: Plan) -> Kernel:
        copy = self._computing(operator, kernel, plan)
        nesting, following, launches = self._nesting, self._following, self._launches
        to_host = self._expecting(kernel)

        def run(target: torch.Tensor, source: torch.Tensor, *args: Any) -> Any:
            following.see_host(source if target.is_cuda else target)
            if nesting.depth and not target.is_cuda:
                return self._copy_within(kernel, target, source, *args)
            if target.is_cuda:
                return copy(target, source, *args)
            nesting.depth = 1
            launches.operator_begins()
            try:
                to_host(target, source, *args)
                following.read_into(target, source)
            finally:
                nesting.depth = 0
                launches.operator_ended()
            return target

        return run

    def _copy_within(self, kernel: Kernel, target: torch.Tensor, source: torch.Tensor, *args: Any) -> Any:
        """A kernel's copy to the host: where it decides by what it has computed, of what makes it do most."""
        kernel(target, source, *args)
        decides = self._nesting.decides
        if isinstance(decides, torch.Tensor):
            with torch._C.DisableTorchFunction():
                target.copy_(decides)
        elif decides and source.is_cuda:
            self._following.assume_within(target, decides)
        return target

    def _deciding(self, kernel: Kernel, copied: Callable[..., float | torch.Tensor]) -> Kernel:
        nesting, kernel = self._nesting, self._expecting(kernel)

        def run(*args: Any, **kwargs: Any) -> Any:
            nesting.decides = copied(*args)
            try:
                return kernel(*args, **kwargs)
            finally:
                nesting.decides = 0

        return run

    def _expecting(self, kernel: Kernel) -> Kernel:
        """``kernel``, whose copies to the host are known to hold nothing."""
        expected = self._answers.expected

        def run(*args: Any, **kwargs: Any) -> Any:
            with expected():
                return kernel(*args, **kwargs)

        return run

    def _reading(self, operator: Any, kernel: Kernel) -> Kernel:
        nesting, following, launches = self._nesting, self._following, self._launches
        answers, warns = self._answers, self._expecting(kernel)

        def run(tensor: torch.Tensor) -> Any:
            if nesting.depth:
                return self._read_within(kernel, tensor)
            if torch.cuda.get_sync_debug_mode():
                warns(tensor)  # or raises
            launches.operator_begins()
            answers.wait_for(tensor)
            return following.answer(operator, (tensor,), {})

        return run

    def _read_within(self, kernel: Kernel, tensor: torch.Tensor) -> Any:
        """What a kernel reads itself: an answer that waits; what it was given; of a check, true; or zero.

        What lies there is left from whoever had the memory before.
        """
        nesting = self._nesting
        if nesting.depth >= _UNFOLLOWED or self._answers.are_waiting():
            return kernel(tensor)
        given = self._following.reads.certain(tensor)
        if given is not None:
            return given.item()
        is_check = tensor.dtype is torch.bool and tensor.data_ptr() == nesting.checked
        value = torch.tensor(is_check, dtype=tensor.dtype, device="cpu").item()
        if not is_check:
            self._following.reads.list_assumed(tensor.dtype, value)
        return value

    def _comparing(self, operator: Any, kernel: Kernel) -> Kernel:
        """The kernel computes a mask, and reads whether it is true throughout."""
        nesting, following, answers = self._nesting, self._following, self._answers
        launches = self._launches

        def run(*args: Any, **kwargs: Any) -> Any:
            if nesting.depth:
                return kernel(*args, **kwargs)
            nesting.depth = 1
            launches.operator_begins()
            try:
                found = _is_check_of_backward() or following.answer(operator, args, kwargs)
                answers.give(bytes([bool(found)]))
                kernel(*args, **kwargs)
            finally:
                answers.drop()
                nesting.depth = 0
                launches.operator_ended()
            return found

        return run

    def _taking_lengths(self, kernel: Kernel) -> Kernel:
        """The kernel of a padded batch and its mask, which must be known."""
        following = self._following

        def run(batch: torch.Tensor, mask: torch.Tensor, *args: Any) -> Any:
            following.assume_lengths(mask)
            return kernel(batch, mask, *args)

        return run

    def _sizing(
        self, operator: Any, kernel: Kernel, plan: Plan, copies: Callable[..., list[bytes]]
    ) -> Kernel:
        """Whoever calls it, also another kernel: ``x[mask]`` calls ``nonzero``."""
        nesting, following, answers = self._nesting, self._following, self._answers
        launches = self._launches

        def run(*args: Any, **kwargs: Any) -> Any:
            if nesting.depth >= _UNFOLLOWED or kwargs.get("output_size") is not None:
                return kernel(*args, **kwargs)
            if not args[0].numel():
                return _of_nothing(answers, kernel, args, kwargs)
            nesting.depth += 1
            if nesting.depth == 1:
                launches.operator_begins()
            try:
                shapes = following.shapes_of(plan, args, kwargs)
                if shapes is None:
                    raise without_bound(operator)
                for answer in copies(args, shapes):
                    answers.give(answer)
                result = kernel(*args, **kwargs)
                first = result[0] if isinstance(result, tuple) else result
                sizes = tuple(first.shape)
                if sizes != shapes[0].sizes:
                    raise RuntimeError(
                        f"{operator} was to give the sizes {shapes[0].sizes}, and gave {sizes}"
                    )
                if nesting.depth == 1 and following.concerns(plan, args, kwargs):
                    following.saw(plan, args, kwargs, result)
            finally:
                answers.drop()
                nesting.depth -= 1
                if not nesting.depth:
                    launches.operator_ended()
            return result

        return run


def _of_nothing(answers: Answers, kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """The kernel of an empty tensor: ``nonzero`` reads how many there are all the same."""
    answers.give(bytes(8))
    try:
        return kernel(*args, **kwargs)
    finally:
        answers.drop()


def _group_ends(
    first: torch.Tensor, second: torch.Tensor, offsets: torch.Tensor | None = None, *_: Any
) -> float | torch.Tensor:
    """``(groups,)`` on the host: where each of equal groups ends; 0 where the groups are a dimension.

    The arguments are those of ``aten::_grouped_mm``: the groups are parts of the one dimension that is not of
    both matrices, or of the one that is summed.
    """
    if offsets is None:
        return 0
    divided = second.shape[1] if first.dim() == 3 else first.shape[0 if second.dim() == 3 else 1]
    groups = len(offsets)
    return torch.tensor([(group + 1) * divided // groups for group in range(groups)], dtype=offsets.dtype)


#: Nesting at which nothing is followed.
_UNFOLLOWED = 1000


def _is_check_of_backward() -> bool:
    """Whether a decomposition's backward asks if the loss is independent of a phase: a healthy run's is."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name() in _PHASE_CHECKS


def _passes(*args: Any, **kwargs: Any) -> None:
    """A check that finds nothing."""
