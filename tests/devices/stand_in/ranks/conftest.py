"""The ``on_rank`` fixture: a function, as one rank of many on cards that are not there."""

import sys
from pathlib import Path

import as_rank
import pytest

#: bodies that run on the device of fake tensors too
sys.path.append(str(Path(__file__).parents[2] / "traced" / "cluster"))


class Ran:
    """What a body returned, and what its rank took."""

    def __init__(self, answer):
        self.value = answer["value"]
        self.allocated, self.reserved = answer["allocated"], answer["reserved"]
        #: bytes of the storage of each tensor that a collective was given, and whether it is kept for that
        self.noted = answer["noted"]
        #: size and peers by name of the process group
        self.groups = answer["groups"]
        self.broadcasts = answer["broadcasts"]
        self.representatives = answer["representatives"]
        self.rank_assumption = answer["rank_assumption"]
        #: what reads of data were answered that nothing is known of
        self.reads = answer["reads"]


@pytest.fixture
def on_rank(stand_in):
    """``on_rank(body, *args, rank=..., world_size=...)``; ``rank0_broadcasts`` is what rank 0 has said.

    ``imported_with``: variables that are set before torch is imported.
    """

    def run(
        body,
        *args,
        rank=0,
        world_size=2,
        rank0_broadcasts="",
        gpu="A100-80GB",
        environ=None,
        imported_with=None,
    ):
        where = {"rank": rank, "world_size": world_size, "rank0_broadcasts": rank0_broadcasts}
        path, name = body.__code__.co_filename, body.__name__
        return Ran(
            stand_in(
                as_rank.run, path, name, args, where, gpu=gpu, count=min(8, world_size), unlimited=True,
                environ=environ, imported_with=imported_with,
            )
        )  # fmt: skip

    return run
