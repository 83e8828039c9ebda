"""Steps through the allocator's model, by hand: a tensor of 10 MiB and more has a segment of whole 2 MiB.

Smaller ones share segments of 20 MiB, those of 1 MiB and less segments of 2 MiB
(c10/cuda/CUDACachingAllocator.cpp: ``get_allocation_size``).
"""

import pytest

from pytest_membudget.components import INPUTS, PARAMETERS, TEMPORARIES, WORKSPACES
from pytest_membudget.formulas.estimate import has_order
from pytest_membudget.formulas.job import Adapter, DataParallel, Degrees, Generation, Job, Optimizer
from pytest_membudget.formulas.local_tensors import LocalTensor
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Norm, Stack
from pytest_membudget.formulas.moments import Block, Step
from pytest_membudget.formulas.replay.parameters import states_in_order
from pytest_membudget.formulas.replay.step import replayed_bytes
from pytest_membudget.formulas.tape import Operator, Tape, Tensor
from pytest_membudget.formulas.terms import Term

MIB = 2**20
LAYER = Layer(Attention(2, 2, 16), FeedForward(64, gated=False, activation="gelu"), Norm("layer", bias=True))
MODEL = Model("tiny", "LlamaForCausalLM", 100, Stack(((LAYER, 2),), 32))
SGD = Job(MODEL, optimizer=Optimizer("sgd", implementation="fused"))


def weight(size_mib, name="w", count=1, layer="layers", kind="fp32"):
    return LocalTensor(name, (size_mib * MIB // 4,), "feed_forward", kind, count, layer=layer)


def layer(weight_mib, width_mib=30, **more):
    """x -> y, both of one size: x is saved."""
    operator = Operator(
        "mm",
        ("hidden_states",),
        (Tensor("y", width_mib * MIB),),
        saves=("hidden_states",),
        weights=(Tensor("w", weight_mib * MIB),),
        **more,
    )
    return Tape((Tensor("hidden_states", width_mib * MIB),), (operator,), ("y",))


def step(*blocks, **more):
    return Step((Term(PARAMETERS, "w", 0),), blocks, **more)


def mib(job, found, tensors):
    return replayed_bytes(job, found, tensors) / MIB


#: Of two layers with parameters of 11 and a stream of 30: parameters 2 x 12; x, y, z 30 each, of which z is
#: free when backward begins and takes its gradient; that of y 30 more; the last layer's gradient 12. Then two
#: places of 30 are free (z's gradient, y), for the gradients of x and of the first layer's weight.
TWO_LAYERS = 2 * 12 + 3 * 30 + 30 + 12


def test_two_layers_by_hand():
    assert mib(SGD, step(Block("layers", layer(11), 2)), [weight(11, count=2)]) == TWO_LAYERS


def test_states_lie_where_activations_were():
    """AdamW's four moments of 11 go into the smallest places: 19 behind the gradient that lies in one of 30,
    then two into one of 30 (11 + 11 + 8), the fourth into another: one of four is left whole.

    The second step needs four: three are made. Fused AdamW has its step counters on the card: a segment of 2.
    """
    job = Job(MODEL, optimizer=Optimizer("adamw", implementation="fused"))
    found = mib(job, step(Block("layers", layer(11), 2)), [weight(11, count=2)])

    assert found == TWO_LAYERS + 3 * 30 + 2


def test_gradients_of_later_micro_batches_are_added_and_go():
    """One of the first micro-batch's gradients stays in a place of 30, so that the second one needs one more.

    Its own gradients find room: 19 behind that one, and a free place.
    """
    job = Job(MODEL, optimizer=Optimizer("sgd", implementation="fused"), accumulation=2)
    found = mib(job, step(Block("layers", layer(11), 2)), [weight(11, count=2)])

    assert found == TWO_LAYERS + 30


def test_a_variable_that_has_the_embeddings_has_the_first_layers_input():
    """Saved by the first layer in any case: nothing more than without the variable."""
    lookup = Operator("embed", ("tokens",), (Tensor("embedded", 30 * MIB),))
    tokens = Tape((Tensor("tokens", 0),), (lookup,), ("embedded",))
    held = (Term(TEMPORARIES, "inputs_embeds", 30 * MIB),)
    found = step(Block("embedding", tokens), Block("layers", layer(11), 2, during_forward=held))

    assert mib(SGD, found, [weight(11, count=2)]) == TWO_LAYERS


def test_inputs_and_workspaces():
    """A batch from the start; a thread's workspace with its first forward, the other's with its backward."""
    static = (Term(INPUTS, "batch", 40 * MIB), Term(WORKSPACES, "cuBLAS", 64 * MIB, count=2))
    layers = Block("layers", layer(11, gives_views=True), 2)
    found = mib(SGD, Step(static, (layers,)), [weight(11, count=2)])

    assert found == TWO_LAYERS + 40 + 2 * 32


def test_a_table_that_states_share_is_made_once():
    """bitsandbytes' 8-bit AdamW: two moments, two absmax of 4 bytes a block of 256, two tables of 1 KiB."""
    job = Job(MODEL, optimizer=Optimizer("adamw", library="bitsandbytes", bits=8))
    sizes = list(states_in_order([weight(4, "a"), weight(4, "b")], job))
    each = [MIB, MIB, 4 * MIB // 256, 4 * MIB // 256]

    assert sorted(sizes) == sorted([1024, 1024, *each, *each])


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (Job(MODEL), True),
        (Job(MODEL, adapter=Adapter(8, ("q_proj",))), True),
        (Job(MODEL, degrees=Degrees(data_parallel_shard_degree=2)), True),
        (Job(MODEL, data_parallel=DataParallel("zero2")), False),
        (Job(MODEL, implementation="megatron"), False),
        (Job(MODEL, offload=frozenset({"optimizer_states"})), False),
        (Job(MODEL, teacher=MODEL), False),
        (Job(MODEL, task="generate", generation=Generation(8)), False),
    ],
)
def test_what_is_replayed(job, expected):
    assert has_order(job) is expected
