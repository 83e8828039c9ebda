"""FSDP2's buffers around a step, against its code read by hand.

Layers of 96 elements over 4 ranks: gathered in bf16 192 bytes, reduced in fp32 384, 24 elements of gradient
(96 bytes in fp32) left. Each layer saves 10 and its backward has 10 + 10 of gradients in flight.
"""

from dataclasses import replace

import pytest

from pytest_membudget.formulas.communication import Group, sharded
from pytest_membudget.formulas.moments import Block, Step, moments_of
from pytest_membudget.formulas.tape import Operator, Tape, Tensor

GROUP = Group(96, 96, 24, compute_type="bf16", reduce_type="fp32", gradient_type="fp32")


def linear():
    operator = Operator("mm", ("x",), (Tensor("y", 10),), saves=("x",), weights=(Tensor("w", 192),))
    return Tape((Tensor("x", 10),), (operator,), ("y",))


def by_name(count, group=GROUP):
    blocks = sharded((Block("layers", linear(), count),), (group,))
    return [(moment.name, moment.bytes) for moment in moments_of(Step((), blocks))]


def all_of(name, count, group=GROUP):
    return [size for found, size in by_name(count, group) if found == name]


def test_one_group():
    """Forward: 192 whole, 192 flat. Backward: 192 whole, and its gradient; then the reduction's two ends."""
    assert by_name(1) == [
        ("start", 0),
        ("gathering of layers", 192),
        ("forward of layers", 2 * 192 + 20),
        ("backward of layers", 192 + 30 + 192),
        ("reduction of layers", 192 + 10 + 384 + 96),
        ("end of backward", 96),
        ("optimizer step", 96),
    ]


def test_three_groups():
    """The last two have the one before them gathered meanwhile; the first two have a reduction's input.

    Backward goes from the last one, with what the two before it keep, to the first, with two gradients left.
    """
    assert all_of("backward of layers", 3) == [
        192 + 192 + 30 + 20 + 192,
        192 + 192 + 384 + 30 + 10 + 192 + 96,
        192 + 384 + 30 + 192 + 2 * 96,
    ]


def test_the_last_layer_alone_can_stay():
    """It is whole already when backward begins, and the one before it is gathered meanwhile."""
    blocks = sharded((Block("layers", linear(), 3),), (GROUP,), keeps_last=True)

    assert [sum(term.bytes for term in block.stays) for block in blocks] == [0, 0, 192]


def test_parameters_that_are_not_resharded_stay():
    """Gathered once: nothing is gathered in backward, and all three are there at its start."""
    kept = replace(GROUP, reshards=False)

    assert all_of("backward of layers", 3, kept)[0] == 3 * 192 + 30 + 20 + 192


@pytest.mark.parametrize(("reshards", "flat"), [(True, 192), (False, 0)])
def test_the_last_group_is_gathered_while_what_the_root_has_runs_backward(reshards, flat):
    """``_backward_prefetch`` of the root; a group that is whole still need not be gathered."""
    group = replace(GROUP, reshards=reshards)
    blocks = sharded((Block("layers", linear(), 3), Block("head", linear())), (group, None), GROUP)

    assert [sum(term.bytes for term in block.during_backward) for block in blocks[-1:]] == [flat]


def test_gradients_reduced_in_another_type_are_cast():
    """The output in fp32 (96) is cast to bf16 (48)."""
    cast = replace(GROUP, gradient_type="bf16")

    assert dict(by_name(1, cast))["reduction of layers"] == 192 + 10 + 384 + 96 + 48
    assert dict(by_name(1, cast))["optimizer step"] == 48


def test_gradients_that_are_added_to_earlier_ones_leave_none():
    """The reduction's output (96) is there for the moment of the addition."""
    found = dict(by_name(1, replace(GROUP, accumulates=True)))

    assert found["reduction of layers"] == 192 + 10 + 384 + 96
    assert found["optimizer step"] == 0


def test_frozen_parameters_are_gathered_and_not_reduced():
    found = dict(by_name(1, replace(GROUP, reduced_elements=0, shard_elements=0)))

    assert found["forward of layers"] == 2 * 192 + 20
    assert "reduction of layers" not in found
    assert found["optimizer step"] == 0
