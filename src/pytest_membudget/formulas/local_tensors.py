"""What one rank holds of a model's parameter tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .number_types import bytes_for
from .parameter_tensors import Place, Quantised
from .quantised import quantised_bytes


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """One kind of parameter tensor as one rank holds it."""

    name: str
    shape: tuple[int, ...]
    """Of this rank's part."""
    place: Place
    number_type: str
    count: int = 1
    """How many such tensors the rank has, over all its layers."""
    is_trained: bool = True
    whole_shape: tuple[int, ...] = ()
    """Before data-parallel sharding, after tensor and expert parallelism: what is gathered."""
    layer: str = ""
    """The block it is in: ``layers``, ``embedding``, ``head``: those of one block are gathered together."""
    quantised: Quantised | None = None
    """How it is stored where it is a frozen base's, whatever ``number_type`` says."""

    @property
    def elements(self) -> int:
        """Of one."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Of one, as it is stored: in its own number type, or quantised with all that belongs to it."""
        if self.quantised is not None:
            return quantised_bytes(self.shape, self.quantised)
        return bytes_for(self.elements, self.number_type)
