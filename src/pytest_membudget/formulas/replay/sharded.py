"""FSDP2's tensors in a replay: what is gathered before a block runs, and what its gradients become.

The order is that of torch/distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives}.py, torch 2.13:
``unshard``, ``wait_for_unshard``, ``reshard``, ``_backward_prefetch``, ``post_backward``, ``foreach_reduce``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..communication import Group
from .pool import Held, Pool


class Sharded:
    """The groups of one rank's blocks while they run; a block without one is the root's, if there is one."""

    def __init__(self, pool: Pool, groups: Sequence[Group | None], root: Group | None = None) -> None:
        self._pool = pool
        self._groups = groups
        self._root = root
        self._whole: dict[int, list[Held]] = {}
        self._root_whole: list[Held] = []
        self._flat: Held | None = None
        self._prefetched: dict[int, Held] = {}
        self._input: Held | None = None
        self._late: list[Held] = []

    def begin_forward(self) -> None:
        """The root is gathered first; its flat buffer is held until the next group is to be copied out."""
        if self._root is not None and not self._root_whole:
            self._flat = self._gathered(self._root)
            self._root_whole = self._pool.make_all(self._root.each_parameter())

    def before_forward(self, number: int) -> None:
        """Gathered while the flat buffer of the group before is held."""
        group = self._groups[number]
        if group is None or number in self._whole:
            return
        flat = self._gathered(group)
        self._pool.drop(self._flat)
        self._whole[number] = self._pool.make_all(group.each_parameter())
        self._flat = flat

    def after_forward(self, number: int) -> None:
        """Whole parameters go, where it reshards."""
        group = self._groups[number]
        if group is not None and group.reshards:
            self._pool.drop_all(self._whole.pop(number))

    def end_forward(self) -> None:
        """The last flat buffer goes."""
        self._pool.drop(self._flat)
        self._flat = None

    def before_backward(self, number: int) -> None:
        """Whole again, and the group that comes next is gathered meanwhile."""
        group = self._groups[number]
        if group is not None and number not in self._whole:
            flat = self._prefetched.pop(number) if number in self._prefetched else self._gathered(group)
            self._whole[number] = self._pool.make_all(group.each_parameter())
            self._pool.drop(flat)
        earlier = [(n, one) for n, one in enumerate(self._groups[:number]) if one is not None]
        for n, following in earlier[-1:]:
            if n not in self._whole and n not in self._prefetched:
                self._prefetched[n] = self._gathered(following)

    def after_backward(self, number: int, gradients: Sequence[Held], *, stays: bool) -> list[Held]:
        """From whole gradients to this rank's part of them, where it stays: later ones are added to it."""
        group = self._groups[number]
        if group is None:
            self._late += gradients
            return []
        self._pool.drop_all(self._whole.pop(number))
        return self._reduced(group, gradients, stays=stays)

    def end_backward(self, *, stays: bool) -> list[Held]:
        """The turn of the gradients that have waited: the root's. The last reduction is over."""
        left, self._late = self._late, []
        if self._root is not None:
            self._pool.drop_all(self._root_whole)
            self._root_whole = []
            left = self._reduced(self._root, left, stays=stays)
        self._pool.drop(self._input)
        self._input = None
        return left

    def _gathered(self, group: Group) -> Held:
        """The flat buffer; this rank's part, cast for it, goes when it is copied in."""
        *parts, flat = self._pool.make_all(group.gathering())
        self._pool.drop_all(parts)
        return flat

    def _reduced(self, group: Group, gradients: Sequence[Held], *, stays: bool) -> list[Held]:
        """The input of the reduction before is held until now."""
        pool = self._pool
        pool.drop(self._input)
        self._input = next(iter(pool.make_all(group.reduced())), None)
        pool.drop_all(gradients)
        outputs = pool.make_all(group.outputs())
        kept = outputs[-1:] if stays else []
        pool.drop_all(outputs[: len(outputs) - len(kept)])
        return kept
