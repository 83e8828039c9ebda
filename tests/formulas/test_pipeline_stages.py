"""Stages of a pipeline against hand counts and the rules of Megatron-LM and torchtitan."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.job import Degrees, Job
from pytest_membudget.formulas.megatron_options import MegatronOptions
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Stack
from pytest_membudget.formulas.pipeline import chunks_in_flight, interleaved_states, stages_of

DENSE = Layer(Attention(8, 8, 8), FeedForward(256))


def job(layers, *, micro_batches=8, implementation="megatron", options=None, groups=None, **degrees):
    groups = groups or ((DENSE, layers),)
    model = Model("m", "megatron", 1024, Stack(groups, 64))
    return Job(
        model,
        implementation=implementation,
        accumulation=micro_batches,
        degrees=Degrees(**degrees),
        megatron=options,
    )


def layers_of(found):
    return [[chunk.layer_count for chunk in stage.chunks] for stage in stages_of(found)]


def test_1f1b_holds_as_many_as_there_are_stages_behind():
    """Stage 0 of 4 has run four forwards when its first backward begins, the last one one."""
    stages = stages_of(job(12, pipeline_parallel_degree=4, data_parallel_shard_degree=2))

    assert [stage.in_flight for stage in stages] == [4, 3, 2, 1]
    assert [(stage.rank, stage.ranks) for stage in stages] == [(0, 2), (2, 2), (4, 2), (6, 2)]
    assert [(stage.has_embedding, stage.has_head) for stage in stages] == [
        (True, False),
        (False, False),
        (False, False),
        (False, True),
    ]


def test_no_more_than_there_are_micro_batches():
    assert [stage.in_flight for stage in stages_of(job(12, micro_batches=2, pipeline_parallel_degree=4))] == [
        2,
        2,
        2,
        1,
    ]


def test_gpipe_holds_all():
    stages = stages_of(
        job(12, micro_batches=6, pipeline_parallel_degree=4, pipeline_parallel_schedule="GPipe")
    )

    assert [stage.in_flight for stage in stages] == [6, 6, 6, 6]


def interleaved(layers=12, virtual=3, **more):
    return job(
        layers,
        pipeline_parallel_degree=4,
        virtual_stages=virtual,
        pipeline_parallel_schedule="Interleaved1F1B",
        **more,
    )


def test_the_interleaved_schedule_by_chunk():
    """Last rank of 4 with 3 chunks: 2*0 + 2*4 forwards of warm-up and one more: four, four and one.

    First rank: 2*3 + 8 + 1 = 15: chunks 0, 1 and 2 four each (12), then chunk 0 three of the next group.
    """
    assert chunks_in_flight(interleaved(), 3) == (4, 4, 1)
    assert chunks_in_flight(interleaved(), 0) == (7, 4, 4)
    assert layers_of(interleaved()) == [[1, 1, 1]] * 4
    assert [chunk.first_layer for chunk in stages_of(interleaved())[3].chunks] == [3, 7, 11]


def test_states_of_the_schedule_never_hold_more_than_the_warm_up_and_one():
    """Stage 3 of 4: 8 forwards ahead; each state leaves the one that runs out. They end with nothing held."""
    states = interleaved_states(interleaved(), 3)

    assert max(sum(held) for _, held in states) == 8
    assert (2, (4, 4, 0)) in states
    assert (0, (0, 0, 0)) in states


def test_megatrons_uneven_stages():
    first = MegatronOptions(num_layers_in_first_stage=2, num_layers_in_last_stage=4)
    ends = MegatronOptions(account_for_embedding=True, account_for_loss=True)

    assert layers_of(job(16, pipeline_parallel_degree=4, options=first)) == [[2], [5], [5], [4]]
    assert layers_of(job(14, pipeline_parallel_degree=4, options=ends)) == [[3], [4], [4], [3]]


def test_a_layout_places_layers_one_by_one():
    options = MegatronOptions(layout=(("E", "t"), ("t", "t"), ("t", "t"), ("L",)))
    found = job(
        5,
        pipeline_parallel_degree=2,
        virtual_stages=2,
        pipeline_parallel_schedule="Interleaved1F1B",
        options=options,
    )

    assert layers_of(found) == [[1, 2], [2, 0]]
    assert [stage.has_head for stage in stages_of(found)] == [False, True]


def test_torchtitan_counts_embedding_and_head_as_layers():
    """32 layers and two ends over 4 stages: 34 = 9 + 9 + 8 + 8, less one at each end."""
    assert layers_of(job(32, implementation="torchtitan", pipeline_parallel_degree=4)) == [[8], [9], [8], [7]]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (job(10, pipeline_parallel_degree=4), "10 layers cannot be shared evenly by 4 pipeline stages"),
        (interleaved(virtual=2), "3 layers of a stage cannot be shared evenly by 2 model chunks"),
        (
            job(4, pipeline_parallel_degree=2, options=MegatronOptions(layout=(("E", "t"), ("t", "L")))),
            "the pipeline layout has 2 stages and 2 layers",
        ),
        (
            job(1, pipeline_parallel_degree=2, options=MegatronOptions(layout=(("E", "t", "m"), ("L",)))),
            "multi-token prediction on a stage without the loss",
        ),
        (job(1, implementation="torchtitan", pipeline_parallel_degree=4), "1 layers do not fill 4"),
    ],
)
def test_what_cannot_be_laid_out(found, text):
    with pytest.raises(UsageMistake, match=text):
        stages_of(found)
