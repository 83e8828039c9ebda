"""The ``on_rank`` fixture: a function, as one rank of many on cards that are not there."""

import as_rank
import pytest


class Ran:
    """What a body returned, and what is known of its rank."""

    def __init__(self, answer):
        self.value = answer["value"]
        #: size and peers by name of the process group
        self.groups = answer["groups"]
        self.broadcasts = answer["broadcasts"]
        #: what reads of data were answered that nothing is known of
        self.reads = answer["reads"]


@pytest.fixture
def on_rank(stand_in):
    """``on_rank(body, *args, rank=..., world_size=...)``; ``rank0_broadcasts`` is what rank 0 has said."""

    def run(
        body,
        *args,
        rank=0,
        world_size=2,
        rank0_broadcasts="",
        gpu="A100-80GB",
        environ=None,
    ):
        where = {"rank": rank, "world_size": world_size, "rank0_broadcasts": rank0_broadcasts}
        path, name = body.__code__.co_filename, body.__name__
        return Ran(
            stand_in(
                as_rank.run, path, name, args, where, gpu=gpu, count=min(8, world_size), unlimited=True,
                environ=environ,
            )
        )  # fmt: skip

    return run
