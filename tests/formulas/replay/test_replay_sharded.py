"""FSDP2's gathering and reducing in a replay, by hand: each stream has segments of its own.

A layer's parameter is 30 MiB whole and 15 on each of two ranks, in fp32 (so nothing is cast for gathering).
A part has a segment of 16; the 1 MiB behind it is not split off (``should_split``).
"""

import pytest

from pytest_membudget.formulas.communication import Group
from pytest_membudget.formulas.replay.pool import Pool
from pytest_membudget.formulas.replay.sharded import Sharded

MIB = 2**20


def group(reshards=True):
    elements = 30 * MIB // 4
    return Group(
        elements,
        elements,
        elements // 2,
        "fp32",
        "fp32",
        "fp32",
        reshards=reshards,
        each_whole=((elements, 1),),
    )


@pytest.fixture
def pool():
    return Pool(expandable=False)


def reserved(pool):
    return pool.reserved_bytes // MIB


def test_the_next_layer_is_gathered_while_one_runs_backward(pool):
    """One flat buffer at a time: a layer's own goes once it is copied out, before the next one's comes."""
    sharded = Sharded(pool, [group(), group()])
    for number in (1, 0):
        sharded.before_backward(number)
        sharded.after_backward(number, [], stays=True)

    # one flat buffer; the first reduction's input lies where its parameters were and is held while the next
    # layer is whole; each part of 15 has a segment of 16 on a stream of its own
    assert reserved(pool) == 30 + 2 * 30 + 2 * 16


def test_the_last_layer_is_gathered_while_the_root_runs_backward(pool):
    """The head is the root's; the layer's flat buffer is there before its own backward begins."""
    sharded = Sharded(pool, [group(), None])

    sharded.before_backward(1)

    assert reserved(pool) == 30


def test_a_part_that_is_added_to_another_goes(pool):
    sharded = Sharded(pool, [group()])
    sharded.before_backward(0)

    assert sharded.after_backward(0, [], stays=False) == []


def test_blocks_of_the_root_wait_for_the_end(pool):
    """Gathered before all others, whole to the end; its gradients are reduced when backward is over."""
    sharded = Sharded(pool, [None], root=group(reshards=False))
    sharded.begin_forward()
    sharded.before_forward(0)
    sharded.after_forward(0)
    sharded.end_forward()
    sharded.before_backward(0)
    gradient = pool.make(30 * MIB)
    assert sharded.after_backward(0, [gradient], stays=True) == []
    [left] = sharded.end_backward(stays=True)

    assert left.place.size_bytes == 16 * MIB
    assert reserved(pool) == 3 * 30 + 16
