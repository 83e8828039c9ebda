"""Operators whose results' sizes depend on hollow host tensors: of the sizes that they have on the card."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from ..values.following import Following
from ..values.known_values import plausible
from ..values.plans import plan_of
from ..values.sized_by_data import Shape, sized_by_data, without_bound

aten = torch.ops.aten

#: Operators that write to a tensor that is given, with those that make one. ``x[mask]`` of a tensor on a card
#: and a mask on the host is one of them (``expandTensors``, ATen/native/IndexingUtils.h, 2.15).
_WITHOUT_OUT: Final = {
    aten.nonzero.out: aten.nonzero.default,
    aten.masked_select.out: aten.masked_select.default,
}
#: Whose results are places: 0 is one in every tensor.
_PLACES: Final = frozenset({aten.nonzero.default, aten.repeat_interleave.Tensor})
#: Where ``unique`` gives the place of each element; its further results are values and counts.
_INVERSE: Final = 1


def is_sized_by_data(operator: Any) -> bool:
    """Whether the sizes of what ``operator`` gives depend on what its arguments hold."""
    return operator in _WITHOUT_OUT or sized_by_data(operator) is not None


class UnknownSizes:
    """Makes those results; what is in them is plausible, and hollow."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def deciding(self, operator: Any, args: Sequence[Any]) -> Any:
        """The tensor among ``args`` that sizes follow from; None if it is empty."""
        tensor = args[1 if operator.overloadpacket is aten.masked_select else 0]
        return tensor if tensor.numel() else None

    def results(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], reason: int) -> Any:
        """What ``operator`` gives, hollow for ``reason``; raises where its sizes have no bound."""
        if operator in _WITHOUT_OUT:
            out = kwargs["out"]
            result = self.results(_WITHOUT_OUT[operator], args, {}, reason)
            return out.resize_(result.shape).copy_(result)
        results = tuple(
            _filled(operator, position, shape)
            for position, shape in enumerate(self._shapes(operator, args, kwargs))
        )
        self._following.copies.saw(operator, args, kwargs, results, reason)
        return results if len(operator._schema.returns) > 1 else results[0]

    def _shapes(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Shape]:
        given = kwargs.get("output_size")  # of ``repeat_interleave``
        if given is not None:
            return [Shape((given,), (1,), args[0].dtype)]
        shapes = self._following.shapes_of(plan_of(operator), args, kwargs)
        if shapes is None:
            raise without_bound(operator)
        return shapes


def _filled(operator: Any, position: int, shape: Shape) -> torch.Tensor:
    result = torch.empty_strided(shape.sizes, shape.strides, dtype=shape.dtype, device="cpu")
    is_place = operator in _PLACES or position == _INVERSE
    return result.fill_(0 if is_place else plausible(shape.dtype))
