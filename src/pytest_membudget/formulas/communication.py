"""Memory of FSDP2's whole parameters and gradients, in addition to a rank's parts, block by block.

Read in torch/distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives}.py of torch 2.13:

- forward: a group is gathered into one flat buffer on a separate stream and copied out into whole
  parameters; the flat buffer is held until the next group has been gathered
  (``all_gather_state``), from this rank's part cast to the type of computing (``flat_foreach_copy_input``);
- backward: the flat buffer goes once it is copied out, and the group before it in forward is gathered
  meanwhile (its flat buffer is there, not yet its parameters); so is the last layer while the head runs
  backward, where that is the root's;
- after a group's backward its whole parameters go, its gradients are copied into the input of a
  reduce-scatter, and that input is held until the next group's reduction (``reduce_scatter_states``); the
  output is this rank's gradients, allocated on the reduction's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..components import COLLECTIVES, GRADIENTS
from .moments import Block
from .number_types import bytes_for
from .terms import Term

_SOURCE = "torch/distributed/fsdp/_fully_shard, torch 2.13"
_ALL_GATHER = "all-gather"
_REDUCE_SCATTER = "reduce-scatter"


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters that are gathered together: those of one block. Elements are of this rank's part of a
    tensor-parallel model, padded: each parameter's first dimension up to a multiple of the ranks."""

    whole_elements: int
    """Of all its parameters."""
    reduced_elements: int
    """Of those that are trained."""
    shard_elements: int
    """This rank's part of those."""
    compute_type: str
    reduce_type: str
    gradient_type: str
    """Of the gradients that are left, the parameters' own."""
    reshards: bool = True
    """Its whole parameters go after its forward."""
    ranks: int = 0
    """Between how many it is, where this rank's part is cast before it is gathered; 0: where it is not."""
    each_whole: tuple[tuple[int, int], ...] = ()
    """Elements of a whole parameter, and how many such there are, kind by kind."""
    accumulates: bool = False
    """Its gradients do not stay: they are added to those that are there, used up, or sent to the host."""

    @property
    def whole_bytes(self) -> int:
        """Gathered, in the type of computing."""
        return bytes_for(self.whole_elements, self.compute_type)

    def parameters(self) -> Term:
        """Its whole parameters."""
        return Term(COLLECTIVES, "gathered parameters", self.whole_bytes, "elements*compute", _SOURCE)

    def each_parameter(self) -> tuple[Term, ...]:
        """The same tensor by tensor."""
        return tuple(
            Term(
                COLLECTIVES,
                "gathered parameters",
                bytes_for(elements, self.compute_type) * count,
                count=count,
            )
            for elements, count in self.each_whole
        )

    def flat(self) -> Term:
        """The flat buffer of its gathering."""
        return Term(
            COLLECTIVES,
            "all-gather output",
            self.whole_bytes,
            "elements*compute",
            _SOURCE,
            stream=_ALL_GATHER,
        )

    def gathering(self) -> tuple[Term, ...]:
        """What its gathering takes: its flat buffer, and this rank's part of it before that."""
        if not self.ranks:
            return (self.flat(),)
        size_bytes = self.whole_bytes // self.ranks
        part = Term(
            COLLECTIVES,
            "all-gather input",
            size_bytes,
            "elements/ranks*compute",
            _SOURCE,
            stream=_ALL_GATHER,
        )
        return (part, self.flat())

    def reduced(self) -> tuple[Term, ...]:
        """The input of its reduction."""
        if not self.reduced_elements:
            return ()
        size_bytes = bytes_for(self.reduced_elements, self.reduce_type)
        return (Term(COLLECTIVES, "reduce-scatter input", size_bytes, "elements*reduce", _SOURCE),)

    def shards(self) -> tuple[Term, ...]:
        """This rank's gradients, where its reduction leaves them."""
        return () if self.accumulates else self._output(GRADIENTS, "gradients", self.gradient_type)

    def outputs(self) -> tuple[Term, ...]:
        """The reduction's output, and what it is cast to where the gradients' type is another."""
        found: tuple[Term, ...] = ()
        if self.reduce_type != self.gradient_type:
            found = self._output(COLLECTIVES, "reduce-scatter output", self.reduce_type)
        component = COLLECTIVES if self.accumulates else GRADIENTS
        return (*found, *self._output(component, "gradients", self.gradient_type))

    def _output(self, component: str, name: str, kind: str) -> tuple[Term, ...]:
        size_bytes = bytes_for(self.shard_elements, kind)
        if not size_bytes:
            return ()
        return (Term(component, name, size_bytes, "elements/ranks*type", _SOURCE, stream=_REDUCE_SCATTER),)


def sharded(
    blocks: Sequence[Block],
    groups: Sequence[Group | None],
    gathered_before: Group | None = None,
    *,
    keeps_last: bool = False,
) -> tuple[Block, ...]:
    """``blocks`` with what FSDP2 adds; ``groups`` has the group of each, None where the root holds it.

    ``gathered_before``: the root, where it is. ``keeps_last``: the last group is not resharded. Groups of
    identical layers are split into the last and those before it, as what is left of the block that had its
    backward before them is not the same; and the very first one, in whose backward nothing is gathered.
    """
    parts: list[tuple[Block, Group | None]] = []
    for block, group in zip(blocks, groups, strict=True):
        is_first = all(other is None for _, other in parts)
        parts += _parts(block, group, is_first=is_first)
    if keeps_last:
        last = max(number for number, (_, group) in enumerate(parts) if group is not None)
        block, group = parts[last]
        parts[last] = block, None if group is None else replace(group, reshards=False)
    before = None if gathered_before is None else gathered_before.flat()
    found = []
    for number, (block, group) in enumerate(parts):
        found.append(_with_buffers(parts, number, before))
        before = group.flat() if group is not None and block.saves else before
    return tuple(found)


def _parts(block: Block, group: Group | None, *, is_first: bool) -> list[tuple[Block, Group | None]]:
    if group is None:
        return [(block, group)]
    counts = (1, block.count - 2, 1) if is_first and block.count > 2 else (block.count - 1, 1)
    return [(replace(block, count=count), group) for count in counts if count]


def _with_buffers(
    parts: Sequence[tuple[Block, Group | None]], number: int, flat_before: Term | None
) -> Block:
    block, group = parts[number]
    if group is None:
        return _of_the_root(parts[:number], block)
    before = _neighbour(parts[:number], block, group)
    after = _next(parts[number + 1 :], block, group)
    stays = () if group.reshards else (group.parameters(),)
    own = () if stays else (group.parameters(),)
    gathered_next = () if before is None else (before.flat(),)
    waiting = () if after is None else after.reduced()
    if not block.saves:
        return replace(block, during_forward=(*block.during_forward, group.parameters(), group.flat()))
    return replace(
        block,
        stays=(*block.stays, *stays),
        before_forward=(*group.gathering(), *_held_before(block, group, flat_before)),
        during_forward=(*block.during_forward, *own, group.flat()),
        during_backward=(*block.during_backward, *own, *gathered_next, *waiting),
        after_backward=(*block.after_backward, *gathered_next, *group.reduced(), *group.outputs()),
        shards=group.shards(),
    )


def _of_the_root(earlier: Sequence[tuple[Block, Group | None]], block: Block) -> Block:
    """A block whose parameters the root has: meanwhile the last group before it is gathered for backward."""
    group = next((other for one, other in reversed(earlier) if other is not None and one.saves), None)
    if group is None or not group.reshards or not block.saves:
        return block
    return replace(block, during_backward=(*block.during_backward, group.flat()))


def _held_before(block: Block, group: Group, flat_before: Term | None) -> tuple[Term, ...]:
    """The flat buffer of the group before, still there at a gathering: of several layers' the largest."""
    held = [flat for flat in (flat_before, group.flat() if block.count > 1 else None) if flat is not None]
    return (max(held, key=lambda flat: flat.bytes),) if held else ()


def _neighbour(parts: Sequence[tuple[Block, Group | None]], block: Block, group: Group) -> Group | None:
    """The group that is gathered while ``block`` runs backward: the one before it in forward."""
    if block.count > 1:
        return group
    earlier = [other for one, other in parts if other is not None and other.reshards and one.saves]
    return earlier[-1] if earlier else None


def _next(parts: Sequence[tuple[Block, Group | None]], block: Block, group: Group) -> Group | None:
    """The group whose reduction has begun last when ``block`` runs backward."""
    if block.count > 1:
        return group
    later = [other for one, other in parts if other is not None and one.saves]
    return later[0] if later else None
