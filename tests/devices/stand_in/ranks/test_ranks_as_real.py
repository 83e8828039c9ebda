"""What real gloo processes hold, and what their collectives are given, is what a rank on the stand-in has."""

import json
from pathlib import Path

import pytest
from sharded_runs import RUNS

from tests.programs import printed

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("sharded_runs.py")
WORLD_SIZES = (2, 4)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """What real gloo processes hold: ``figures[world_size][rank]``."""
    folder = tmp_path_factory.mktemp("ranks")
    printed(PROGRAM, folder, *WORLD_SIZES)
    return {
        size: [json.loads((folder / f"{size}-{rank}.json").read_text()) for rank in range(size)]
        for size in WORLD_SIZES
    }


def on_cuda(name):
    return RUNS[name]("cuda")


@pytest.mark.parametrize("name", list(RUNS))
@pytest.mark.parametrize(("rank", "world_size"), [(0, 2), (1, 2), (0, 4), (3, 4)])
def test_a_rank_holds_what_a_real_one_does(trace, figures, name, rank, world_size):
    real = figures[world_size][rank][name]

    traced = trace(on_cuda, name, rank=rank, world_size=world_size)

    assert traced.value == real
    assert traced.parameters == real["parameters"]
    assert traced.optimizer_states == real["optimizer_states"]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_the_buckets_are_the_component_collectives(trace, figures, world_size):
    calls = figures[world_size][0]["ddp"]["collectives"]
    reduced = [sizes[0] for operator, *sizes in calls if operator == "allreduce_"]

    # the first backward's one bucket, then the rebuilt ones
    traced = trace(on_cuda, "ddp", world_size=world_size)
    assert traced.collectives == reduced[0] == sum(reduced[1:])
